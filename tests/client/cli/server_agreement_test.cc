#include "client/cli/server_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

receive::ServerStatus Server(const std::string& address,
                             const std::string& fingerprint,
                             uint32_t revision = 4,
                             const std::string& decoders = "d0") {
  GetStatusResponse status;
  status.set_content_revision(revision);
  status.set_decoder_digest(decoders);
  DatasetSummary* dataset = status.add_datasets();
  dataset->set_name("photos");
  dataset->set_fingerprint(fingerprint);
  return {address, status};
}

TEST(ServerAgreementTest, EqualServersAgree) {
  receive::ServerStatus more = Server("c:1", "f1");
  more.status->add_datasets()->set_name("digits");
  EXPECT_THAT(Disagreements({Server("a:1", "f1"), Server("b:1", "f1"), more}),
              IsEmpty());
  EXPECT_THAT(Disagreements({}), IsEmpty());
}

// `status` over two servers with different data under one name was quiet.
TEST(ServerAgreementTest, DifferentDataUnderOneNameAreSaid) {
  EXPECT_THAT(
      Disagreements(
          {Server("a:1", "f1"), Server("b:1", "f2"), Server("c:1", "f2")}),
      ElementsAre(HasSubstr("under the name `photos` (fingerprint f1 on a:1, "
                            "f2 on b:1 and c:1)")));
}

TEST(ServerAgreementTest, DifferentReleasesAndDecodersAreSaid) {
  EXPECT_THAT(Disagreements({Server("a:1", "f1", 4), Server("b:1", "f1", 5)}),
              ElementsAre(HasSubstr("content revision 4 on a:1, 5 on b:1")));
  EXPECT_THAT(Disagreements(
                  {Server("a:1", "f1", 4, "d1"), Server("b:1", "f1", 4, "d2")}),
              ElementsAre(HasSubstr("digest d1 on a:1, d2 on b:1")));
  EXPECT_THAT(
      Disagreements({Server("a:1", "f1", 4, "d1"), Server("b:1", "f1", 4, "")}),
      IsEmpty())
      << "a server that does not say";
}

TEST(ServerAgreementTest, ServersThatDoNotAnswerAreLeftOut) {
  EXPECT_THAT(Disagreements({Server("a:1", "f1"),
                             {"b:1", absl::UnavailableError("gone")}}),
              IsEmpty());
}

}  // namespace
}  // namespace millrace::cli
