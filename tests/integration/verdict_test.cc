// Real servers, each with one thing that is too slow on purpose: the line that
// says why a consumer waited names that thing. The window is fixed, so that
// nothing adapts meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/diagnosis/server_times.h"
#include "client/diagnosis/wait_verdict.h"
#include "client/prefetch/host_loader.h"
#include "client/torch/device.h"
#include "client/torch/device_feeder.h"
#include "proto/spec_text.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/tcp_gate.h"

namespace millrace {
namespace {

using ::millrace::testing::Pack;
using ::millrace::testing::TcpGate;
using ::testing::HasSubstr;

class VerdictIntegrationTest : public testing::ServiceTest {
 protected:
  static std::unique_ptr<testing::ServerProcess> Serve(
      std::vector<std::string> flags) {
    static const auto* const photos = new std::string(Pack(
        "photos", "imagefolder", testing::WriteImageFolder(40), "lmdb", 1));
    flags.push_back(*photos);
    return ServiceTest::Serve(flags);
  }

  static std::unique_ptr<HostLoader> Open(const std::string& endpoint,
                                          const std::string& spec,
                                          uint32_t window) {
    HostLoaderOptions options;
    options.endpoint = endpoint;
    const auto parsed = ParseSpecText(spec, "the test");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    options.spec = *parsed;
    options.epochs = 0;
    options.window = window;
    return ServiceTest::Open(options);
  }

  // What a verdict was made of, for who reads why it is wrong.
  static std::string Times(const HostLoader::Stats& stats) {
    std::string text;
    for (const diagnosis::ServerTimes& s : stats.by_server) {
      absl::StrAppend(&text, "\n", s.address, " batches ", s.batches, " read ",
                      s.read_seconds, " decode ", s.decode_seconds, " augment ",
                      s.augment_seconds, " wait_memory ", s.wait_memory_seconds,
                      " wait_thread ", s.wait_thread_seconds, " send ",
                      s.send_seconds, " make ", s.make_seconds, " idle ",
                      s.idle_seconds, " receive ", s.receive_seconds);
    }
    return text;
  }

  // Why a consumer waits that works for `work` on each of so many batches. The
  // first ones, of a window that was empty, do not count.
  static diagnosis::WaitVerdict Watch(
      HostLoader& loader, int batches,
      absl::Duration work = absl::ZeroDuration()) {
    const auto receive = [&](int count) {
      for (int i = 0; i < count; ++i) {
        const absl::Status status = loader.Next().status();
        EXPECT_TRUE(status.ok()) << status;
        if (work > absl::ZeroDuration()) absl::SleepFor(work);
      }
    };
    receive(8);
    const HostLoader::Stats before = loader.stats();
    const absl::Time began = absl::Now();
    receive(batches);
    const HostLoader::Stats after = loader.stats();
    diagnosis::WaitReport report;
    report.elapsed_seconds = absl::ToDoubleSeconds(absl::Now() - began);
    report.wait_seconds = after.wait_seconds - before.wait_seconds;
    report.host_wait_seconds = report.wait_seconds;
    report.retried_steps = after.retried_steps - before.retried_steps;
    report.servers = diagnosis::Difference(after.by_server, before.by_server);
    return diagnosis::JudgeWait(report);
  }

  // At the first look.
  static void ExpectNamed(diagnosis::WaitCause cause, const std::string& advice,
                          HostLoader& loader, int batches) {
    const diagnosis::WaitVerdict verdict = Watch(loader, batches);
    EXPECT_EQ(verdict.cause, cause) << verdict.text << Times(loader.stats());
    EXPECT_THAT(verdict.text, HasSubstr(advice));
  }
};

constexpr char kPhotos[] =
    "sources { dataset: 'photos' } preset: 'imagenet_train' ";

// `latency_us`: a read of a sample waits so long.
std::string Synthetic(int bytes_a_sample, int latency_us) {
  return absl::StrCat(
      "sources { synthetic { samples: 100000 latency_us: ", latency_us,
      " fields { name: 'image' dtype: DTYPE_UINT8 shape: ", bytes_a_sample,
      " } } } ");
}

TEST_F(VerdictIntegrationTest, DecodingIsNamed) {
  const auto server = Serve({"--threads=1", "--memory_budget=256MiB"});
  const auto loader =
      Open(server->address(), absl::StrCat(kPhotos, "batch_size: 4"), 8);
  ExpectNamed(diagnosis::WaitCause::kDecoding, "add servers or cores", *loader,
              40);
}

// Photographs whose reads wait, with threads that read ahead, but too few, and
// with none, so that the worker threads wait themselves.
TEST_F(VerdictIntegrationTest, SlowStorageOfPhotographsIsNamed) {
  JpegKind kind;
  kind.width = 300;
  kind.height = 260;
  const std::vector<uint8_t> jpeg = WriteJpeg(kind, 1);
  const std::string photo = Path("photo.jpg");
  testing::WriteFile(photo, std::string(jpeg.begin(), jpeg.end()));
  for (const char* read_threads : {"--read_threads=2", "--read_threads=0"}) {
    SCOPED_TRACE(read_threads);
    const auto server =
        Serve({"--threads=2", read_threads, "--memory_budget=256MiB",
               "--operators=" + testing::ProgramPath(
                                    "tests/testing/operators/slow_photo.so"),
               absl::StrCat("--dataset=distant=slow:20000:", photo)});
    const auto loader = Open(server->address(),
                             "sources { dataset: 'distant' } preset: "
                             "'imagenet_train' batch_size: 4",
                             8);
    ExpectNamed(diagnosis::WaitCause::kReading, "--read_threads", *loader, 24);
  }
}

// 2 MB each, through 10 MB/s: threads have no pause while they make a batch,
// and make one for a small part of the time.
TEST_F(VerdictIntegrationTest, TheLinkIsNamedForPhotographs) {
  for (const uint32_t window : {2, 8}) {
    SCOPED_TRACE(window);
    const auto server = Serve({"--threads=2", "--memory_budget=512MiB"});
    TcpGate gate(server->port());
    gate.Limit(10'000'000);
    const auto loader =
        Open(gate.address(), absl::StrCat(kPhotos, "batch_size: 14"), window);
    ExpectNamed(diagnosis::WaitCause::kLink, gate.address(), *loader, 16);
  }
}

TEST_F(VerdictIntegrationTest, ATrainerThatIsSlowItselfIsNamedForPhotographs) {
  const auto server = Serve({"--threads=2", "--memory_budget=256MiB"});
  const auto loader =
      Open(server->address(), absl::StrCat(kPhotos, "batch_size: 4"), 8);
  const diagnosis::WaitVerdict verdict =
      Watch(*loader, 20, absl::Milliseconds(150));
  EXPECT_EQ(verdict.cause, diagnosis::WaitCause::kConsumer) << verdict.text;
}

// The host as a device whose copies, or transforms, wait.
class SlowDevice final : public device::Device {
 public:
  explicit SlowDevice(absl::Duration cast) : cast_(cast) {}

  bool is_host() const override { return true; }
  uint8_t* Allocate(uint64_t bytes) override { return host_->Allocate(bytes); }
  void Free(uint8_t* data, uint64_t bytes,
            absl::Span<const std::shared_ptr<device::DeviceEvent>> after)
      override {
    host_->Free(data, bytes, after);
  }
  absl::Status CopyIn(uint8_t* target, const uint8_t* source,
                      uint64_t bytes) override {
    return host_->CopyIn(target, source, bytes);
  }
  absl::Status Cast(const TensorCast& cast, const uint8_t* source,
                    uint8_t* target, uint8_t* scratch,
                    uint64_t elements) override {
    absl::SleepFor(cast_);
    return host_->Cast(cast, source, target, scratch, elements);
  }
  uint64_t CastScratchBytes(const TensorCast& cast,
                            uint64_t elements) const override {
    return host_->CastScratchBytes(cast, elements);
  }
  std::shared_ptr<device::DeviceEvent> RecordCopy() override {
    return host_->RecordCopy();
  }
  device::DeviceStream CurrentStream() override {
    return host_->CurrentStream();
  }
  std::shared_ptr<device::DeviceEvent> RecordOn(
      const device::DeviceStream& stream) override {
    return host_->RecordOn(stream);
  }
  void CopyWaits(device::DeviceEvent& event) override {
    host_->CopyWaits(event);
  }
  void ConsumerWaits(device::DeviceEvent& event) override {
    host_->ConsumerWaits(event);
  }

 private:
  const std::shared_ptr<device::Device> host_ = device::NewHostDevice();
  const absl::Duration cast_;
};

// The client takes 300 ms to normalise four photographs, which the server
// decodes in a part of that. On the consumer's thread, and on one ahead of it.
TEST_F(VerdictIntegrationTest, TheClientsOwnTransformsAreNamedForPhotographs) {
  struct Stats {
    HostLoader::Stats host;
    double wait_seconds = 0;
    double copy_seconds = 0;
    double device_copy_seconds = 0;
  };
  for (const bool thread : {false, true}) {
    SCOPED_TRACE(thread);
    const auto server = Serve({"--threads=2", "--memory_budget=256MiB"});
    device::DeviceFeeder::Options options;
    options.thread = thread;
    const auto feeder = device::DeviceFeeder::Start(
        Open(server->address(), absl::StrCat(kPhotos, "batch_size: 4"), 8),
        std::make_shared<SlowDevice>(absl::Milliseconds(300)), options);
    ASSERT_TRUE(feeder.ok()) << feeder.status();
    const auto receive = [&](int count) {
      for (int i = 0; i < count; ++i) {
        const absl::Status status = (*feeder)->Next().status();
        EXPECT_TRUE(status.ok()) << status;
      }
      const device::DeviceFeeder::Stats stats = (*feeder)->stats();
      return Stats{(*feeder)->host().stats(), stats.wait_seconds,
                   stats.prepare_seconds, stats.device_copy_seconds};
    };
    const Stats before = receive(4);
    const absl::Time began = absl::Now();
    const Stats after = receive(12);
    const diagnosis::WaitVerdict verdict =
        diagnosis::JudgeWait(diagnosis::WaitBetween(
            before, after, absl::ToDoubleSeconds(absl::Now() - began)));
    EXPECT_EQ(verdict.cause, diagnosis::WaitCause::kPreparing)
        << verdict.text << Times(after.host);
    EXPECT_THAT(verdict.text, HasSubstr("on this machine, not the servers"));
  }
}

TEST_F(VerdictIntegrationTest, ReadingIsNamed) {
  const auto server =
      Serve({"--threads=4", "--read_threads=2", "--memory_budget=256MiB"});
  const auto loader =
      Open(server->address(),
           absl::StrCat(Synthetic(1000, 2000), "batch_size: 8"), 8);
  ExpectNamed(diagnosis::WaitCause::kReading, "--read_threads", *loader, 60);
}

// Ten batches a second, each much more than what the gate lets through at once.
TEST_F(VerdictIntegrationTest, TheLinkIsNamed) {
  const auto server = Serve({"--threads=4", "--memory_budget=256MiB"});
  TcpGate gate(server->port());
  gate.Limit(40'000'000);
  const auto loader = Open(
      gate.address(), absl::StrCat(Synthetic(16'000, 0), "batch_size: 250"), 4);
  ExpectNamed(diagnosis::WaitCause::kLink, gate.address(), *loader, 12);
}

// Scratch leaves room for 4 batches, and a stream has at least 2 under way.
// What waits to be sent to the clients of a thin link holds that memory, and
// another client's batches wait for it. A batch is the task of one thread.
TEST_F(VerdictIntegrationTest, MemoryIsNamed) {
  const auto server = Serve({"--threads=8", "--memory_budget=160MiB"});
  const std::string spec =
      absl::StrCat(Synthetic(1'000'000, 0), "batch_size: 4");
  TcpGate gate(server->port());
  std::vector<std::unique_ptr<HostLoader>> others;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) others.push_back(Open(gate.address(), spec, 4));
  // All are connected: what they receive would hold a handshake up.
  gate.Limit(100'000'000);
  for (const auto& other : others) {
    threads.emplace_back([loader = other.get()] {
      while (loader->Next().ok()) {
      }
    });
  }
  const auto loader = Open(server->address(), spec, 4);
  ExpectNamed(diagnosis::WaitCause::kMemory, "--memory_budget", *loader, 16);
  for (const auto& other : others) other->Close();
  for (std::thread& thread : threads) thread.join();
}

// Of 16 threads two batches of 2 images keep 4 busy. The images are so large
// that each is worked on for many time slices: waits for a thread on a busy
// machine, a few of these, stay far below a quarter of that.
TEST_F(VerdictIntegrationTest, TooSmallAWindowIsNamed) {
  const auto server = Serve({"--threads=16", "--memory_budget=512MiB"});
  const auto loader =
      Open(server->address(),
           "sources { dataset: 'photos' } transforms { decode_image {} } "
           "transforms { random_resized_crop { height: 960 width: 960 } } "
           "transforms { rand_augment { num_ops: 8 } } "
           "transforms { normalize { mean: [0.5, 0.5, 0.5] stddev: [0.5, 0.5, "
           "0.5] } } batch_size: 2",
           2);
  ExpectNamed(diagnosis::WaitCause::kWindow, "--window", *loader, 40);
}

TEST_F(VerdictIntegrationTest, AConsumerThatIsSlowItselfIsNotHeldUp) {
  const auto server = Serve({"--threads=2", "--memory_budget=256MiB"});
  const auto loader = Open(
      server->address(), absl::StrCat(Synthetic(1000, 0), "batch_size: 8"), 8);
  const diagnosis::WaitVerdict verdict =
      Watch(*loader, 20, absl::Milliseconds(25));
  EXPECT_EQ(verdict.cause, diagnosis::WaitCause::kConsumer) << verdict.text;
}

}  // namespace
}  // namespace millrace
