#include "client/prefetch/connection_doubt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/error_detail.h"

namespace millrace::prefetch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ConnectionDoubtTest, TravelsWithAStatusAndItsDetail) {
  for (const ConnectionDoubt doubt :
       {ConnectionDoubt::kNone, ConnectionDoubt::kLost,
        ConnectionDoubt::kSuspect, ConnectionDoubt::kDamaged}) {
    const absl::Status status =
        WithDoubt(WithErrorDetail(absl::UnavailableError("gone"),
                                  MakeErrorDetail("read")),
                  doubt);
    EXPECT_EQ(DoubtOf(status), doubt);
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(status.message(), "gone");
    EXPECT_EQ(GetErrorDetail(status).stage(), "read");
  }
  EXPECT_TRUE(WithDoubt(absl::OkStatus(), ConnectionDoubt::kDamaged).ok());
}

TEST(ConnectionDoubtTest, SeveralConnectionsThatFailNameTheLink) {
  EXPECT_EQ(FailedConnectionsText(1), "");
  EXPECT_THAT(FailedConnectionsText(3),
              AllOf(HasSubstr("3 connections in a row"),
                    HasSubstr("the link to it damages bytes")));
}

}  // namespace
}  // namespace millrace::prefetch
