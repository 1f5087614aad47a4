#include "proto/bad_sample_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/error_detail.h"
#include "proto/types.pb.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(BadSampleHint, IsForADamagedSample) {
  ErrorDetail detail = MakeErrorDetail("decode");
  detail.set_dataset("photos");
  detail.set_sample(17);
  const absl::Status damaged =
      WithErrorDetail(absl::DataLossError("the JPEG is truncated"), detail);
  EXPECT_THAT(
      FormatError(WithBadSampleHint(damaged)),
      AllOf(StartsWith("DATA_LOSS: [decode error, dataset photos, sample 17] "
                       "the JPEG is truncated; `millrace-data verify` names"),
            HasSubstr("bad_samples { action: SUBSTITUTE }")));
}

// Each program says it in its own words.
TEST(BadSampleHint, TakesThePlaceOfTheServers) {
  ErrorDetail detail = MakeErrorDetail("decode");
  detail.set_sample(17);
  const absl::Status damaged =
      WithErrorDetail(absl::DataLossError("the JPEG is truncated"), detail);
  const absl::Status sent = WithPolicyHint(damaged);
  EXPECT_EQ(sent.message(),
            "the JPEG is truncated; to continue without damaged samples, set "
            "bad_samples of the pipeline to SUBSTITUTE or ZERO");
  EXPECT_EQ(GetErrorDetail(sent).sample(), 17);
  EXPECT_EQ(WithoutPolicyHint(sent), damaged);
  EXPECT_EQ(WithoutPolicyHint(damaged), damaged);
  EXPECT_EQ(WithBadSampleHint(sent), WithBadSampleHint(damaged));
}

TEST(BadSampleHint, IsForNothingElse) {
  ErrorDetail detail = MakeErrorDetail("read");
  detail.set_sample(17);
  for (const absl::Status& status :
       {absl::OkStatus(), absl::DataLossError("the answer is damaged"),
        WithErrorDetail(absl::UnavailableError("gone"), detail)}) {
    EXPECT_EQ(WithBadSampleHint(status), status);
    EXPECT_EQ(WithPolicyHint(status), status);
  }
}

}  // namespace
}  // namespace millrace
