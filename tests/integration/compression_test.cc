// A real server packs its batches when the spec asks for it: the client gets
// the same bytes over fewer bytes of wire, and the plan is the same.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "common/status_macros.h"
#include "gtest/gtest.h"
#include "tests/testing/service.h"

namespace millrace {
namespace {

struct Epoch {
  std::string plan_hash;
  std::vector<std::string> payloads;
  uint64_t payload_bytes = 0;
  uint64_t wire_bytes = 0;
};

class Compression : public testing::ServiceTest {
 protected:
  static absl::StatusOr<Epoch> Receive(int samples,
                                       v1::Compression compression) {
    const auto server =
        Serve({Digits(samples), "--threads=2", "--memory_budget=256MiB"});
    HostLoaderOptions options =
        Options(server->address(), 500);  // several frames a batch
    options.spec.set_last_batch(LAST_BATCH_PAD);
    options.spec.set_compression(compression);
    MR_ASSIGN_OR_RETURN(const auto loader, receive::OpenHostLoader(options));
    Epoch epoch;
    epoch.plan_hash = loader->plan().plan_hash();
    while (true) {
      auto batch = loader->Next();
      if (absl::IsOutOfRange(batch.status())) break;
      if (!batch.ok()) return batch.status();
      epoch.payloads.push_back(BytesOf(*batch));
    }
    epoch.payload_bytes = loader->stats().payload_bytes;
    epoch.wire_bytes = loader->stats().wire_bytes;
    return epoch;
  }
};

TEST_F(Compression, PacksTheWireAndChangesNoBatch) {
  const auto plain = Receive(2600, COMPRESSION_NONE);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto packed = Receive(2600, COMPRESSION_ZSTD);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(plain->payloads.size(), 6);
  EXPECT_EQ(packed->payloads, plain->payloads);
  EXPECT_EQ(packed->plan_hash, plain->plan_hash);
  EXPECT_EQ(plain->wire_bytes, plain->payload_bytes);
  EXPECT_LT(packed->wire_bytes, plain->wire_bytes * 9 / 10);
}

TEST_F(Compression, AWayThatTheServerDoesNotKnowIsRefused) {
  const auto refused = Receive(600, static_cast<v1::Compression>(99));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented)
      << refused.status();
}

}  // namespace
}  // namespace millrace
