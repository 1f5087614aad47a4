// What a client makes of a server that could share memory with it, with the
// server's side of the link moved by hand.

#include "client/receive/same_host_peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packet_socket.h"
#include "common/unique_fd.h"
#include "proto/wire/same_host.h"

namespace millrace::receive {
namespace {

using ::testing::HasSubstr;

// A server's socket.
class FakeServer {
 public:
  FakeServer() {
    static int servers = 0;
    offer_.set_socket(
        absl::StrCat("@millrace-peer-test-", getpid(), "-", ++servers));
    offer_.set_nonce(absl::StrCat("nonce of ", 1'000'000 + servers));
    auto listener = ListenForPackets(offer_.socket());
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  std::string offer() const { return offer_.SerializeAsString(); }

  // Answers who has connected.
  void Welcome() {
    auto link = AcceptPackets(listener_.get());
    ASSERT_TRUE(link.ok()) << link.status();
    link_ = *std::move(link);
    const absl::Status sent = SendPacket(
        link_.get(), wire::EncodeSameHost({.kind = wire::SameHostKind::kWelcome,
                                           .number = wire::kSameHostVersion}));
    ASSERT_TRUE(sent.ok()) << sent;
  }

  void EndLink() { link_ = UniqueFd(); }

 private:
  SameHostOffer offer_;
  UniqueFd listener_;
  UniqueFd link_;
};

class SameHostPeerTest : public ::testing::Test {
 protected:
  // A call begins, and its answer comes with `offer` when there is no link.
  absl::Status Ask(const std::optional<std::string>& offer) {
    GetBatchesRequest request;
    if (peer_.Prepare(&request, ++call_) != nullptr) return absl::OkStatus();
    return offer.has_value() ? peer_.TakeOffer(absl::string_view(*offer))
                             : peer_.TakeOffer(std::nullopt);
  }

  bool Shares() {
    GetBatchesRequest request;
    return peer_.Prepare(&request, ++call_) != nullptr;
  }

  FakeServer server_;
  SameHostPeer peer_{SameHost::kRequire, "data-1:7001"};
  uint64_t call_ = 0;
};

TEST_F(SameHostPeerTest, AServerThatEndsALinkServesOverTheNetworkMeanwhile) {
  ASSERT_TRUE(Ask(server_.offer()).ok());
  server_.Welcome();
  ASSERT_TRUE(Shares());
  ::testing::internal::CaptureStderr();
  server_.EndLink();
  for (int call = 0; call < 3; ++call) {
    const absl::Status status = Ask(server_.offer());
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_FALSE(Shares());
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log,
              HasSubstr("data-1:7001: the server closed the link; its batches "
                        "come over the network"));
  EXPECT_EQ(log.find("no shared memory"), log.rfind("no shared memory"))
      << "said again";
}

TEST_F(SameHostPeerTest, AnotherServerAtTheSameAddressHasToShareAtOnce) {
  ASSERT_TRUE(Ask(server_.offer()).ok());
  server_.Welcome();
  ASSERT_TRUE(Shares());
  server_.EndLink();
  // Restarted without a socket.
  const absl::Status none = Ask(std::nullopt);
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  // Restarted where this client cannot come.
  SameHostOffer far;
  far.set_socket("@millrace-peer-test-nobody");
  far.set_nonce("nonce of another");
  const absl::Status other = Ask(far.SerializeAsString());
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  // Restarted as it should be.
  FakeServer next;
  ASSERT_TRUE(Ask(next.offer()).ok());
  next.Welcome();
  EXPECT_TRUE(Shares());
}

TEST_F(SameHostPeerTest, AServerThatNeverSharedIsRefusedAgainAndAgain) {
  SameHostOffer far;
  far.set_socket("@millrace-peer-test-nobody");
  far.set_nonce("0123456789abcdef");
  for (int call = 0; call < 2; ++call) {
    const absl::Status status = Ask(far.SerializeAsString());
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("requires shared memory"));
  }
}

}  // namespace
}  // namespace millrace::receive
