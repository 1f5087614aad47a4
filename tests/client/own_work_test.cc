// Photographs whose copies and transforms keep the client's own CPU busy: the
// line that says why the consumer waited names that work, and no server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "client/loader.h"
#include "proto/spec_text.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/server_process.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using testing::ServerProcess;

// 3 MB each, most of it black: cheap for the server, made floats and normalised
// here.
constexpr char kLarge[] =
    "sources { dataset: 'photos' } batch_size: 4 "
    "transforms { decode_image {} } "
    "transforms { center_crop { height: 1024 width: 1024 } } "
    "transforms { normalize { mean: [0.5, 0.5, 0.5] "
    "stddev: [0.5, 0.5, 0.5] } }";

// In shared memory: 12 MB a batch over the loopback cost as much again.
TEST(OwnWorkTest, IsNamedForPhotographs) {
  auto server = ServerProcess::Start(
      {testing::Pack("photos", "imagefolder", testing::WriteImageFolder(40),
                     "lmdb", 1),
       "--threads=2", "--memory_budget=512MiB"});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto spec = ParseSpecText(kLarge, "the test");
  ASSERT_TRUE(spec.ok()) << spec.status();
  DataLoader::Options options;
  options.endpoint = (*server)->address();
  options.spec = *spec;
  options.epochs = 0;
  options.window = 8;
  options.same_host = SameHost::kAuto;
  auto loader = DataLoader::Open(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const auto receive = [&loader](int batches) {
    for (int i = 0; i < batches; ++i) {
      const absl::Status status = (*loader)->Next().status();
      ASSERT_TRUE(status.ok()) << status;
    }
  };
  // The first ones, of a window that was empty, do not count.
  receive(16);
  const DataLoader::Stats before = (*loader)->stats();
  const absl::Time began = absl::Now();
  receive(40);
  EXPECT_THAT(WhereTheTimeWent(before, (*loader)->stats(),
                               absl::ToDoubleSeconds(absl::Now() - began)),
              HasSubstr("copying and transforming batches on this machine"));
}

}  // namespace
}  // namespace millrace
