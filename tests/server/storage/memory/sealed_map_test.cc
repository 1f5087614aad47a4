// What a server maps of another process, and what it refuses to.

#include "server/storage/memory/sealed_map.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/storage/memory/array_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

std::string Refusal(int file) {
  const auto map = SealedMap::Open(file);
  if (map.ok()) return "it was mapped";
  EXPECT_EQ(map.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(map.status().message());
}

TEST(SealedMapTest, ItHasTheBytesAfterItsMakerHasClosedTheFile) {
  const std::string bytes(10'000, 'x');
  auto map = [&] {
    const UniqueFd file = SealedFile(bytes);
    return SealedMap::Open(file.get());
  }();
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->data(), BytesOf(bytes));
  const SealedMap moved = *std::move(map);
  EXPECT_EQ(moved.data(), BytesOf(bytes));
}

TEST(SealedMapTest, NobodyCanChangeItsFile) {
  const UniqueFd file = SealedFile(std::string(10'000, 'x'));
  const auto map = SealedMap::Open(file.get());
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_NE(ftruncate(file.get(), 1), 0);
  EXPECT_NE(pwrite(file.get(), "y", 1, 0), 1);
  EXPECT_NE(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      4096),
            0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, file.get(), 0),
            MAP_FAILED);
}

// Each missing seal lets the maker kill the server or change its data.
TEST(SealedMapTest, FilesThatCanStillChangeAreRefused) {
  for (const int seals :
       {0, F_SEAL_GROW | F_SEAL_WRITE, F_SEAL_SHRINK | F_SEAL_WRITE,
        F_SEAL_SHRINK | F_SEAL_GROW}) {
    EXPECT_THAT(Refusal(SealedFile("bytes", seals).get()),
                HasSubstr("is not sealed"))
        << seals;
  }
  const UniqueFd unsealable(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(write(unsealable.get(), "bytes", 5), 5);
  EXPECT_THAT(Refusal(unsealable.get()), HasSubstr("is not sealed"));
}

TEST(SealedMapTest, OtherDescriptorsAreRefused) {
  EXPECT_THAT(Refusal(-1), HasSubstr("memfd_create"));
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const UniqueFd out(pipe_ends[0]);
  const UniqueFd in(pipe_ends[1]);
  EXPECT_THAT(Refusal(out.get()), HasSubstr("memfd_create"));
  const UniqueFd folder(open("/proc/self", O_RDONLY | O_DIRECTORY));
  EXPECT_THAT(Refusal(folder.get()), HasSubstr("memfd_create"));
  const char* const base = getenv("TEST_TMPDIR");
  const UniqueFd file(open(base, O_TMPFILE | O_RDWR, 0600));
  if (file.ok()) {  // a file system that has such files
    EXPECT_EQ(write(file.get(), "bytes", 5), 5);
    EXPECT_THAT(Refusal(file.get()),
                ::testing::AnyOf(HasSubstr("memfd_create"),
                                 HasSubstr("is not sealed")));
  }
}

TEST(SealedMapTest, EmptyFilesAndHolesAreRefused) {
  EXPECT_THAT(Refusal(SealedFile("").get()), HasSubstr("is empty"));
  // A terabyte that would be allocated when it is read.
  const UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(write(file.get(), "MRARRAYS", 8), 8);
  ASSERT_EQ(ftruncate(file.get(), int64_t{1} << 40), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, kArraySeals), 0);
  EXPECT_THAT(Refusal(file.get()), HasSubstr("has holes"));
}

}  // namespace
}  // namespace millrace::storage
