// A job over a link that flips bits which TCP's checksum lets pass. One server,
// so that no other can help: what was damaged is sent again once, and a link
// that damages the same step again ends the job with DataLoss, never as if the
// user had made a mistake.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/prefetch/host_loader.h"
#include "tests/integration/digits_service.h"
#include "tests/testing/server_process.h"
#include "tests/testing/tcp_gate.h"

namespace millrace {
namespace {

using ::millrace::testing::BytesOf;
using ::millrace::testing::DigitsService;
using ::millrace::testing::ServerProcess;
using ::millrace::testing::TcpGate;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSamples = 1000;
constexpr uint64_t kBatch = 50;
constexpr uint64_t kSteps = kSamples / kBatch;
constexpr int kAlways = 1'000'000;

class DamagedLinkTest : public ::testing::Test {
 protected:
  DamagedLinkTest()
      : service_(kSamples), server_(service_.Serve()), gate_(server_->port()) {
    auto loader = OpenHostLoader(Options());
    if (!loader.ok()) {
      ADD_FAILURE() << loader.status();
      return;
    }
    plan_ = (*loader)->plan();
    for (uint64_t step = 0; step < kSteps; ++step) {
      const absl::StatusOr<HostBatch> batch = (*loader)->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (batch.ok()) payloads_.push_back(BytesOf(*batch));
    }
  }

  HostLoaderOptions Options() const {
    return service_.Options(gate_.address(), kBatch);
  }

  // The status of OpenHostLoader(), or of the Next() that failed, or OK for the
  // whole epoch.
  absl::Status Receive() {
    auto loader = OpenHostLoader(Options());
    if (!loader.ok()) return loader.status();
    for (uint64_t step = 0; step < kSteps; ++step) {
      const absl::StatusOr<HostBatch> batch = (*loader)->Next();
      if (!batch.ok()) return batch.status();
      EXPECT_EQ(BytesOf(*batch), payloads_[step]) << "step " << step;
    }
    return absl::OkStatus();
  }

  // `pattern` passes the link unharmed but for the first time, then never.
  void ExpectOneMoreTry(const std::string& pattern) {
    gate_.Damage(pattern, 1);
    ::testing::internal::CaptureStderr();
    const absl::Status once = Receive();
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(once.ok()) << once;
    EXPECT_EQ(gate_.damages(), 1);
    EXPECT_THAT(log, AllOf(HasSubstr("server " + gate_.address() + ": "),
                           HasSubstr("again, once")));

    gate_.Damage(pattern, kAlways);
    const absl::Status always = Receive();
    EXPECT_TRUE(absl::IsDataLoss(always)) << always;
    EXPECT_THAT(always.message(),
                AllOf(HasSubstr("server " + gate_.address() + ": "),
                      HasSubstr("damaged")));
    EXPECT_GE(gate_.damages(), 2);
  }

  const DigitsService service_;
  const std::unique_ptr<ServerProcess> server_;
  TcpGate gate_;
  OpenResponse plan_;
  std::vector<std::string> payloads_;
};

// "This server has no dataset `digitr`", and "unknown preset".
TEST_F(DamagedLinkTest, ARequestToOpenIsNoMistakeOfTheUser) {
  ExpectOneMoreTry("digits");
  ExpectOneMoreTry("mnist");
}

// "The data differ": the only server was refused for good.
TEST_F(DamagedLinkTest, ARequestForBatchesIsSentAgain) {
  // Field 4, expected_fingerprint: OpenResponse has it as another field.
  ASSERT_EQ(plan_.fingerprint().size(), 32);
  ExpectOneMoreTry("\x22\x20" + plan_.fingerprint());
}

// The job ended with the only server.
TEST_F(DamagedLinkTest, ABatchIsRequestedAgain) {
  ASSERT_EQ(payloads_.size(), kSteps);
  const std::string& payload = payloads_[kSteps / 2];
  // In the first image, where pixels are not 0.
  const size_t pixels = payload.find_first_not_of('\0');
  ASSERT_NE(pixels, std::string::npos);
  ExpectOneMoreTry(payload.substr(pixels, 40));
}

}  // namespace
}  // namespace millrace
