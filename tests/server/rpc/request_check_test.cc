// What a request must agree on with the server before any work is done.

#include "server/rpc/request_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/error_detail.h"
#include "proto/wire/version.h"

namespace millrace::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckProtocolVersionTest, TakesWhatThisServerSpeaks) {
  for (uint32_t v = wire::kMinProtocolVersion; v <= wire::kProtocolVersion;
       ++v) {
    EXPECT_TRUE(CheckProtocolVersion(v).ok());
  }
}

TEST(CheckProtocolVersionTest, SaysWhichSideIsOld) {
  const absl::Status newer = CheckProtocolVersion(wire::kProtocolVersion + 1);
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.message()), HasSubstr("upgrade the server"));
  EXPECT_EQ(CheckProtocolVersion(0).code(),
            absl::StatusCode::kFailedPrecondition);
}

class CheckPlanTest : public ::testing::Test {
 protected:
  CheckPlanTest() {
    plan_.set_plan_hash("hash");
    plan_.set_fingerprint("abcd");
    plan_.set_steps_per_epoch(10);
    request_.set_plan_hash("hash");
    request_.set_expected_fingerprint("abcd");
    request_.set_first_step(0);
    request_.set_step_count(10);
    request_.set_world_size(1);
  }
  void Refuses(absl::StatusCode code, const std::string& says) {
    const absl::Status status = CheckPlan(request_, plan_);
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }

  OpenResponse plan_;
  GetBatchesRequest request_;
};

TEST_F(CheckPlanTest, TakesTheSamePlan) {
  EXPECT_TRUE(CheckPlan(request_, plan_).ok());
  request_.set_first_step(9);
  request_.set_step_count(1);
  EXPECT_TRUE(CheckPlan(request_, plan_).ok());
}

TEST_F(CheckPlanTest, OtherDataAreSaidBeforeTheirOtherPlan) {
  request_.set_expected_fingerprint("ffff");
  request_.set_plan_hash("other");
  Refuses(absl::StatusCode::kFailedPrecondition, "fingerprint ffff");
}

TEST_F(CheckPlanTest, OtherPlanOfTheSameData) {
  request_.set_plan_hash("other");
  Refuses(absl::StatusCode::kFailedPrecondition, "the plan differs");
}

// The plan's hash differs then, too: the cause is said.
TEST_F(CheckPlanTest, OtherImageDecodersAreNamedAsTheCause) {
  plan_.set_decoder_digest("aaaa");
  request_.set_decoder_digest("bbbb");
  request_.set_plan_hash("other");
  Refuses(absl::StatusCode::kFailedPrecondition, "the image decoders differ");
  Refuses(absl::StatusCode::kFailedPrecondition, "digest bbbb");
  Refuses(absl::StatusCode::kFailedPrecondition, "have aaaa");
  // A client that does not send it.
  request_.clear_decoder_digest();
  Refuses(absl::StatusCode::kFailedPrecondition, "the plan differs");
  request_.set_plan_hash("hash");
  EXPECT_TRUE(CheckPlan(request_, plan_).ok());
  request_.set_decoder_digest("aaaa");
  EXPECT_TRUE(CheckPlan(request_, plan_).ok());
}

TEST_F(CheckPlanTest, MissingProofOfThePlan) {
  request_.clear_plan_hash();
  Refuses(absl::StatusCode::kInvalidArgument, "no plan_hash");
  request_.set_plan_hash("hash");
  request_.clear_expected_fingerprint();
  Refuses(absl::StatusCode::kInvalidArgument, "no expected_fingerprint");
}

TEST_F(CheckPlanTest, StepsOutsideTheEpoch) {
  request_.set_step_count(0);
  Refuses(absl::StatusCode::kInvalidArgument, "step_count is 0");
  request_.set_step_count(11);
  Refuses(absl::StatusCode::kOutOfRange, "steps 0 to 9");
  request_.set_first_step(10);
  request_.set_step_count(1);
  Refuses(absl::StatusCode::kOutOfRange,
          "the request is for 1 step from step 10; an epoch has steps 0 to 9");
  request_.set_first_step(UINT64_MAX);
  request_.set_step_count(UINT64_MAX);
  Refuses(absl::StatusCode::kOutOfRange, "an epoch has");
  request_.set_first_step(5);
  Refuses(absl::StatusCode::kOutOfRange, "an epoch has");
}

TEST_F(CheckPlanTest, RanksOutsideTheWorld) {
  request_.set_rank(1);
  Refuses(absl::StatusCode::kInvalidArgument,
          "rank 1 is out of range for world size 1");
  request_.set_rank(0);
  request_.set_world_size(0);
  Refuses(absl::StatusCode::kInvalidArgument, "world size 0");
}

TEST_F(CheckPlanTest, EpochWithoutSteps) {
  plan_.set_steps_per_epoch(0);
  request_.set_step_count(1);
  Refuses(absl::StatusCode::kOutOfRange, "an epoch has no steps");
}

// The advice of the pipeline's error ("lower batch_size") is for a new job.
TEST(PlanRefusalTest, APlanThatWasOpenedElsewhereMeansOtherData) {
  GetBatchesRequest request;
  const absl::Status wrong = WithErrorDetail(
      absl::InvalidArgumentError("batch_size 32 is larger than 24 samples"),
      MakeErrorDetail("plan"));
  EXPECT_EQ(PlanRefusal(request, wrong), wrong) << "nobody has opened it";
  request.set_plan_hash("hash");
  request.set_expected_fingerprint("abcd");
  const absl::Status refusal = PlanRefusal(request, wrong);
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal)) << refusal;
  EXPECT_EQ(GetErrorDetail(refusal).stage(), "plan");
  EXPECT_THAT(std::string(refusal.message()),
              AllOf(HasSubstr("the data differ"), HasSubstr("abcd"),
                    HasSubstr("batch_size 32 is larger than 24 samples"),
                    HasSubstr("serve the same data on every server")));
  const absl::Status unknown = absl::NotFoundError("no dataset");
  EXPECT_EQ(PlanRefusal(request, unknown), unknown);
}

}  // namespace
}  // namespace millrace::rpc
