#include "client/prefetch/retry_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "client/prefetch/connection_doubt.h"
#include "proto/error_detail.h"

namespace millrace::prefetch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a data server answers carries a detail.
absl::Status FromServer(absl::Status status, int64_t retry_delay_ms = 0) {
  ErrorDetail detail = MakeErrorDetail("decode");
  detail.set_retry_delay_ms(retry_delay_ms);
  return WithErrorDetail(std::move(status), detail);
}

constexpr FailureFacts kAlone;
constexpr FailureFacts kOthersMayServe = {.others_may_serve = true};
constexpr FailureFacts kRequestedFromOthers = {.requested_from_others = true,
                                               .others_may_serve = true};

TEST(RetryRuleTest, AServerThatIsGoneIsRetriedWhateverElseIsKnown) {
  for (const FailureFacts& facts :
       {kAlone, kOthersMayServe, kRequestedFromOthers}) {
    EXPECT_EQ(ActionFor(absl::UnavailableError("gone"), facts),
              FailureAction::kRetry);
  }
}

TEST(RetryRuleTest, ABusyServerIsRetriedWhenItSaysWhen) {
  const absl::Status full = absl::ResourceExhaustedError("full");
  EXPECT_EQ(ActionFor(FromServer(full, 10), kAlone), FailureAction::kPause);
  EXPECT_EQ(ActionFor(FromServer(full), kAlone), FailureAction::kFinal);
  EXPECT_EQ(ActionFor(full, kRequestedFromOthers),
            FailureAction::kLeaveToOthers);
}

TEST(RetryRuleTest, ADamagedAnswerIsRetriedWhereItMayBe) {
  const absl::Status damaged = absl::DataLossError("cut off");
  EXPECT_TRUE(IsDamaged(damaged));
  EXPECT_EQ(ActionFor(damaged, kOthersMayServe), FailureAction::kFinal);
  EXPECT_EQ(ActionFor(damaged, {.may_retry_damaged = true}),
            FailureAction::kDamaged);
  EXPECT_EQ(ActionFor(damaged, kRequestedFromOthers), FailureAction::kDamaged);
  // A sample that no server can read.
  const absl::Status sample = FromServer(absl::DataLossError("bad JPEG"));
  EXPECT_FALSE(IsDamaged(sample));
  EXPECT_EQ(ActionFor(sample, kOthersMayServe), FailureAction::kFinal);
}

// "The request is no GetBatchesRequest" ended the job.
TEST(RetryRuleTest, ARequestThatWasDamagedIsSentAgain) {
  ErrorDetail detail = MakeErrorDetail("rpc");
  detail.set_request_damaged(true);
  for (const absl::Status& said :
       {absl::DataLossError("its digest does not match"),
        absl::InvalidArgumentError("no GetBatchesRequest")}) {
    const absl::Status damaged = WithErrorDetail(said, detail);
    EXPECT_TRUE(IsDamaged(damaged));
    EXPECT_EQ(ActionFor(damaged, {.may_retry_damaged = true}),
              FailureAction::kDamaged);
    EXPECT_EQ(ActionFor(damaged, kRequestedFromOthers),
              FailureAction::kDamaged);
    EXPECT_EQ(ActionFor(damaged, kOthersMayServe), FailureAction::kFinal);
    // The user has made no mistake.
    const absl::Status error =
        FinalDamageError("data-1:7001", damaged, "receive", "step 7", 2);
    EXPECT_TRUE(absl::IsDataLoss(error)) << error;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("server data-1:7001: "), HasSubstr("step 7"),
                      HasSubstr("damaged 2 times")));
    EXPECT_EQ(GetErrorDetail(error).stage(), "rpc");
  }
}

TEST(RetryRuleTest, AServerOfAnotherPlanIsLeftOutWhileOthersMayServe) {
  for (const absl::Status& status :
       {absl::FailedPreconditionError("another plan"),
        absl::NotFoundError("no dataset"), absl::UnimplementedError("what")}) {
    const absl::Status own = FromServer(status);
    EXPECT_EQ(ActionFor(own, kOthersMayServe), FailureAction::kLeaveOut);
    EXPECT_EQ(ActionFor(own, kRequestedFromOthers), FailureAction::kLeaveOut);
    EXPECT_EQ(ActionFor(own, kAlone), FailureAction::kFinal);
  }
  // A proxy's word: the only server has opened the plan.
  EXPECT_EQ(ActionFor(absl::UnimplementedError("no route"), kAlone),
            FailureAction::kRetry);
}

// A good server was left out after one flipped bit in a connection's headers.
TEST(RetryRuleTest, WhatNoServerSaysIsJudgedOverANewConnection) {
  const absl::Status unknown =
      WithDoubt(absl::UnimplementedError("unknown"), ConnectionDoubt::kDamaged);
  FailureFacts facts = kOthersMayServe;
  EXPECT_EQ(ActionFor(unknown, facts), FailureAction::kRetry);
  EXPECT_EQ(ActionFor(unknown, kAlone), FailureAction::kRetry);
  facts.over_new_connection = true;
  EXPECT_EQ(ActionFor(unknown, facts), FailureAction::kLeaveOut);
}

TEST(RetryRuleTest, AnythingElseIsFinalUnlessOthersMayBringIt) {
  const absl::Status error = FromServer(absl::InternalError("bug"));
  EXPECT_EQ(ActionFor(error, kOthersMayServe), FailureAction::kFinal);
  EXPECT_EQ(ActionFor(error, kRequestedFromOthers),
            FailureAction::kLeaveToOthers);
}

TEST(RetryRuleTest, AFinalErrorNamesTheServerAndNeverMeansSomethingElse) {
  const absl::Status error =
      FinalError("data-1:7001", absl::OutOfRangeError("step 9"), "receive");
  EXPECT_EQ(error.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(error.message(), "server data-1:7001: step 9");
  EXPECT_EQ(GetErrorDetail(error).stage(), "receive");
  const absl::Status sample = FinalError(
      "data-1:7001", FromServer(absl::DataLossError("bad JPEG")), "receive");
  EXPECT_TRUE(absl::IsDataLoss(sample));
  EXPECT_EQ(GetErrorDetail(sample).stage(), "decode") << "the server knows";
}

}  // namespace
}  // namespace millrace::prefetch
