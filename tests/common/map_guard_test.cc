// Maps whose files lose pages: zeros, a note of it, and nothing else changes.

#include "common/map_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/unique_fd.h"

namespace millrace {
namespace {

constexpr size_t kPages = 8;

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// A file of kPages pages, each full of its number + 1, mapped.
class Map {
 public:
  Map() : file_(memfd_create("map_guard_test", MFD_CLOEXEC)) {
    std::string bytes;
    for (size_t page = 0; page < kPages; ++page) {
      bytes += std::string(PageBytes(), static_cast<char>(page + 1));
    }
    EXPECT_EQ(pwrite(file_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    void* const map =
        mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, file_.get(), 0);
    EXPECT_NE(map, MAP_FAILED);
    data_ = static_cast<const volatile uint8_t*>(map);
  }
  ~Map() { munmap(const_cast<uint8_t*>(data_), bytes()); }

  void Truncate(size_t pages) {
    EXPECT_EQ(ftruncate(file_.get(), static_cast<off_t>(pages * PageBytes())),
              0);
  }
  size_t bytes() const { return kPages * PageBytes(); }
  const void* data() const { return const_cast<const uint8_t*>(data_); }
  uint8_t page(size_t number) const { return data_[number * PageBytes() + 7]; }

 private:
  UniqueFd file_;
  const volatile uint8_t* data_ = nullptr;
};

TEST(MapGuardTest, AWholeMapLosesNothing) {
  Map map;
  const MapGuard guard(map.data(), map.bytes());
  for (size_t page = 0; page < kPages; ++page) {
    EXPECT_EQ(map.page(page), page + 1);
  }
  EXPECT_FALSE(guard.lost().has_value());
}

TEST(MapGuardTest, LostPagesAreZerosFromTheFirstThatIsReadOn) {
  Map map;
  const MapGuard guard(map.data(), map.bytes());
  map.Truncate(2);
  EXPECT_EQ(map.page(5), 0);
  EXPECT_EQ(guard.lost(), 5 * PageBytes());
  EXPECT_EQ(map.page(7), 0);
  EXPECT_EQ(map.page(3), 0);
  EXPECT_EQ(guard.lost(), 3 * PageBytes());
  EXPECT_EQ(map.page(1), 2);  // still the file's
  EXPECT_EQ(guard.lost(), 3 * PageBytes());
}

// A file that grows again does not bring the map's pages back: what was noted
// stays true.
TEST(MapGuardTest, ZerosStayWhenTheFileGrowsAgain) {
  Map map;
  const MapGuard guard(map.data(), map.bytes());
  map.Truncate(0);
  EXPECT_EQ(map.page(0), 0);
  map.Truncate(kPages);
  EXPECT_EQ(map.page(0), 0);
  EXPECT_EQ(guard.lost(), 0u);
}

TEST(MapGuardTest, OneMapsLossIsNotTheOthers) {
  Map a, b;
  const MapGuard guard_a(a.data(), a.bytes());
  const MapGuard guard_b(b.data(), b.bytes());
  a.Truncate(0);
  EXPECT_EQ(a.page(4), 0);
  EXPECT_EQ(b.page(4), 5);
  EXPECT_TRUE(guard_a.lost().has_value());
  EXPECT_FALSE(guard_b.lost().has_value());
}

// The handler runs while entries come, go and are used again.
TEST(MapGuardTest, GuardsComeAndGoWhileOthersLosePages) {
  std::vector<std::thread> threads;
  std::atomic<int> lost{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&lost, t] {
      for (int i = 0; i < 150; ++i) {
        Map map;
        const MapGuard guard(map.data(), map.bytes());
        const size_t left = static_cast<size_t>(i + t) % kPages;
        map.Truncate(left);
        EXPECT_EQ(map.page(left), 0);
        EXPECT_EQ(guard.lost(), left * PageBytes());
        if (left > 0) {
          EXPECT_EQ(map.page(left - 1), left);
        }
        lost += guard.lost().has_value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 6 * 150);
}

// Several threads read one map that shrinks under them.
TEST(MapGuardTest, ManyThreadsLoseTheSamePages) {
  Map map;
  const MapGuard guard(map.data(), map.bytes());
  map.Truncate(0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&map, &guard, t] {
      for (size_t i = 0; i < kPages; ++i) {
        EXPECT_EQ(map.page((kPages - i + t) % kPages), 0);
        EXPECT_TRUE(guard.lost().has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(guard.lost(), 0u);
}

void FaultBesideAGuard() {
  Map guarded, bare;
  const MapGuard guard(guarded.data(), guarded.bytes());
  guarded.Truncate(0);
  if (guarded.page(0) != 0) _exit(1);
  bare.Truncate(0);
  _exit(bare.page(0));
}

// Each in a process of its own, whose handler is not installed yet.
class MapGuardDeathTest : public ::testing::Test {
 protected:
  MapGuardDeathTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(MapGuardDeathTest, AFaultElsewhereGoesToTheHandlerBefore) {
  EXPECT_EXIT(
      {
        struct sigaction action = {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = [](int, siginfo_t*, void*) { _exit(42); };
        sigaction(SIGBUS, &action, nullptr);
        FaultBesideAGuard();
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(MapGuardDeathTest, WithoutAHandlerBeforeItEndsTheProcess) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);  // not a sanitizer's
        FaultBesideAGuard();
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MapGuardDeathTest, ASignalThatIsSentIsNoFault) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        Map map;
        const MapGuard guard(map.data(), map.bytes());
        raise(SIGBUS);
        _exit(1);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace millrace
