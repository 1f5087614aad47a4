// A real server packs its batches when the spec asks for it: the client gets
// the same bytes over fewer bytes of wire, and the plan is the same.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/prefetch/host_loader.h"
#include "gtest/gtest.h"
#include "tests/testing/digits.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

struct Epoch {
  std::string plan_hash;
  std::vector<std::string> payloads;
  uint64_t payload_bytes = 0;
  uint64_t wire_bytes = 0;
};

absl::StatusOr<Epoch> Receive(const std::string& endpoint,
                              Compression compression) {
  HostLoaderOptions options;
  options.endpoint = endpoint;
  options.same_host = SameHost::kOff;  // nothing is packed in shared memory
  options.verify_payload = true;  // of the payload as it is unpacked
  options.spec.set_preset("mnist");
  options.spec.add_sources()->set_dataset("digits");
  options.spec.set_batch_size(500);  // several frames a batch
  options.spec.set_seed(5);
  options.spec.set_last_batch(LAST_BATCH_PAD);
  options.spec.set_compression(compression);
  auto loader = OpenHostLoader(options);
  if (!loader.ok()) return loader.status();
  Epoch epoch;
  epoch.plan_hash = (*loader)->plan().plan_hash();
  while (true) {
    auto batch = (*loader)->Next();
    if (absl::IsOutOfRange(batch.status())) break;
    if (!batch.ok()) return batch.status();
    epoch.payloads.emplace_back(
        reinterpret_cast<const char*>(batch->payload.data()),
        batch->payload.size());
  }
  epoch.payload_bytes = (*loader)->stats().payload_bytes;
  epoch.wire_bytes = (*loader)->stats().wire_bytes;
  return epoch;
}

TEST(Compression, PacksTheWireAndChangesNoBatch) {
  const std::string uri = "lmdb:" + testing::NewTempDir() + "/digits.lmdb";
  ASSERT_TRUE(testing::WriteDigits(uri, 2600).ok());
  auto server = testing::ServerProcess::Start({"--dataset=digits=" + uri});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto plain = Receive((*server)->address(), COMPRESSION_NONE);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto packed = Receive((*server)->address(), COMPRESSION_ZSTD);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(plain->payloads.size(), 6);
  EXPECT_EQ(packed->payloads, plain->payloads);
  EXPECT_EQ(packed->plan_hash, plain->plan_hash);
  EXPECT_EQ(plain->wire_bytes, plain->payload_bytes);
  EXPECT_LT(packed->wire_bytes, plain->wire_bytes * 9 / 10);
}

TEST(Compression, AWayThatTheServerDoesNotKnowIsRefused) {
  const std::string uri = "lmdb:" + testing::NewTempDir() + "/digits.lmdb";
  ASSERT_TRUE(testing::WriteDigits(uri, 600).ok());
  auto server = testing::ServerProcess::Start({"--dataset=digits=" + uri});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto refused =
      Receive((*server)->address(), static_cast<Compression>(99));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented)
      << refused.status();
}

}  // namespace
}  // namespace millrace
