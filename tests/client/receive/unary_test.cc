// What a client says when no server gives the answer that it wants.

#include "client/receive/unary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/error_detail.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status Headline(const std::vector<absl::Status>& errors) {
  std::vector<ServerChannel> servers;
  std::vector<absl::StatusOr<std::string>> answers;
  for (const absl::Status& error : errors) {
    servers.push_back({});
    servers.back().address.text = "data-" + std::to_string(servers.size());
    answers.push_back(error);
  }
  return NoAnswerError("data:7001", servers, answers);
}

absl::Status OfTheServer(absl::Status status) {
  return WithErrorDetail(std::move(status), MakeErrorDetail("read"));
}

TEST(NoAnswerErrorTest, SilenceIsCalledSo) {
  const absl::Status error =
      Headline({absl::UnavailableError("Connection refused"),
                absl::DeadlineExceededError("no answer within 5s")});
  EXPECT_TRUE(absl::IsUnavailable(error));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("no data server answers at endpoint data:7001"),
                    HasSubstr("data-1: Connection refused"),
                    HasSubstr("data-2: no answer within 5s")));
}

// A dataset whose file changed is refused with Unavailable, so that a client
// asks another server. The headline was "no data server answers".
TEST(NoAnswerErrorTest, AServerThatRefusesHasAnswered) {
  const absl::Status error = Headline(
      {absl::UnavailableError("Connection refused"),
       OfTheServer(absl::UnavailableError("photos.lmdb was truncated"))});
  EXPECT_TRUE(absl::IsUnavailable(error));
  EXPECT_TRUE(HasErrorDetail(error));
  EXPECT_THAT(error.message(),
              AllOf(Not(HasSubstr("no data server answers")),
                    HasSubstr("data-1: Connection refused"),
                    HasSubstr("data-2: photos.lmdb was truncated")));
}

TEST(NoAnswerErrorTest, AMistakeOfTheRequestGivesTheCode) {
  const absl::Status error = Headline(
      {OfTheServer(absl::UnavailableError("photos.lmdb was truncated")),
       OfTheServer(absl::InvalidArgumentError("batch_size is 0"))});
  EXPECT_TRUE(absl::IsInvalidArgument(error));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("data-1: photos"), HasSubstr("data-2: batch")));
}

}  // namespace
}  // namespace millrace
