// Which ends of a call are the server's word, and which are the way's.

#include "client/receive/call_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/prefetch/connection_doubt.h"
#include "proto/blocked_call.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"

namespace millrace::receive {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kRequestBytes = 1000;

// A proxy's RST_STREAM ended jobs: it is INTERNAL, which was final.
TEST(CallErrorTest, AStatusWithoutDetailIsTheWaysWhateverItsCode) {
  for (int code = 1; code <= 16; ++code) {
    SCOPED_TRACE(code);
    if (code == grpc::StatusCode::UNIMPLEMENTED) continue;
    const absl::Status error =
        CallError(grpc::Status(static_cast<grpc::StatusCode>(code),
                               "RST_STREAM with error code 2"),
                  kRequestBytes);
    EXPECT_TRUE(absl::IsUnavailable(error)) << error;
    EXPECT_THAT(error.message(), HasSubstr("RST_STREAM with error code 2"));
  }
  EXPECT_THAT(
      CallError(grpc::Status(grpc::StatusCode::INTERNAL, "reset"),
                kRequestBytes)
          .message(),
      AllOf(HasSubstr("a proxy or the network ended the call, not the server"),
            HasSubstr("INTERNAL: reset")));
}

TEST(CallErrorTest, TheServersWordStands) {
  for (int code = 2; code <= 16; ++code) {
    const absl::Status said(static_cast<absl::StatusCode>(code), "so");
    const absl::Status error = CallError(ToGrpcStatus(said), kRequestBytes);
    EXPECT_EQ(error.code(), said.code());
    EXPECT_EQ(error.message(), "so");
    EXPECT_TRUE(HasErrorDetail(error));
  }
}

grpc::Status NotConnected(const std::string& why) {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                      "failed to connect to all addresses; last error: " + why);
}

TEST(CallErrorTest, AConnectionThatIsNotMadeSaysWhy) {
  const absl::Status error = CallError(
      NotConnected("UNKNOWN: ipv4:127.0.0.1:7001: Failed to connect to remote "
                   "host: Connection refused"),
      kRequestBytes);
  EXPECT_TRUE(absl::IsUnavailable(error)) << error;
  EXPECT_EQ(error.message(), "Connection refused");
}

// A server above its limits closes what it accepts. Clients saw "Socket
// closed".
TEST(CallErrorTest, AConnectionThatIsClosedAtOnceNamesTheLimits) {
  for (const char* reason :
       {"Socket closed", "recvmsg:Connection reset by peer",
        "sendmsg: Broken pipe"}) {
    const absl::Status error = CallError(
        NotConnected(std::string("UNAVAILABLE: ipv4:127.0.0.1:7001: ") +
                     reason),
        kRequestBytes);
    EXPECT_TRUE(absl::IsUnavailable(error)) << error;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("--max_connections_per_peer"),
                                       HasSubstr("a proxy without a server"),
                                       HasSubstr("closed before")));
  }
  // One that carried calls before had been let in.
  const absl::Status later =
      CallError(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed"),
                kRequestBytes);
  EXPECT_EQ(later.message(), "Socket closed");
}

// A server after SIGSTOP. The error asked whether a server runs there.
TEST(CallErrorTest, AConnectionThatIsAcceptedAndSilentIsSaidToBe) {
  const absl::Status error = CallError(
      NotConnected("UNKNOWN: ipv4:127.0.0.1:7001: connection attempt timed out "
                   "before receiving SETTINGS frame"),
      kRequestBytes);
  EXPECT_TRUE(absl::IsUnavailable(error)) << error;
  EXPECT_THAT(
      error.message(),
      AllOf(
          HasSubstr("the connection was accepted, but the server sent nothing"),
          HasSubstr("is stopped (SIGSTOP"),
          HasSubstr("before receiving SETTINGS frame")));
}

TEST(CallErrorTest, AnEndThatNoServerGivesSpeaksAgainstTheConnection) {
  for (int code = 1; code <= 16; ++code) {
    SCOPED_TRACE(code);
    const absl::Status said(static_cast<absl::StatusCode>(code), "so");
    EXPECT_EQ(prefetch::DoubtOf(CallError(
                  grpc::Status(static_cast<grpc::StatusCode>(code), "so"),
                  kRequestBytes)),
              code == grpc::StatusCode::CANCELLED
                  ? prefetch::ConnectionDoubt::kSuspect
              : code == grpc::StatusCode::UNAVAILABLE
                  ? prefetch::ConnectionDoubt::kLost
                  : prefetch::ConnectionDoubt::kDamaged);
    if (code == grpc::StatusCode::CANCELLED) continue;
    // The server's own word.
    EXPECT_EQ(prefetch::DoubtOf(CallError(ToGrpcStatus(said), kRequestBytes)),
              prefetch::ConnectionDoubt::kNone);
  }
  // gRPC cancels with a code and a sentence: there is no detail.
  EXPECT_EQ(prefetch::DoubtOf(
                CallError(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                       absl::StrCat(kTookNothing, "10s; x")),
                          kRequestBytes)),
            prefetch::ConnectionDoubt::kSuspect);
  EXPECT_EQ(prefetch::DoubtOf(CallError(
                NotConnected("UNKNOWN: Connection refused"), kRequestBytes)),
            prefetch::ConnectionDoubt::kNone);
}

// A flip in the first frame of a connection ended programs with "check that
// millrace-server runs there".
TEST(CallErrorTest, TheBeginningOfAConnectionMayBeDamaged) {
  EXPECT_EQ(prefetch::DoubtOf(
                CallError(NotConnected("UNAVAILABLE: ipv4:127.0.0.1:7001: "
                                       "Failed parsing HTTP/2"),
                          kRequestBytes)),
            prefetch::ConnectionDoubt::kDamaged);
  EXPECT_EQ(prefetch::DoubtOf(
                CallError(NotConnected("UNAVAILABLE: ipv4:127.0.0.1:7001: "
                                       "Socket closed"),
                          kRequestBytes)),
            prefetch::ConnectionDoubt::kLost);
}

TEST(CallErrorTest, ARefusalOfAnotherRequestIsDamage) {
  const grpc::Status refusal =
      ToGrpcStatus(absl::NotFoundError("no dataset `vt`"), 17);
  EXPECT_TRUE(absl::IsNotFound(CallError(refusal, kRequestBytes, 17)));
  const absl::Status damaged = CallError(refusal, kRequestBytes, 18);
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_FALSE(HasErrorDetail(damaged));
}

TEST(CallErrorTest, WhatAskingAgainDoesNotMendKeepsItsCode) {
  const absl::Status unknown = CallError(
      grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown service"),
      kRequestBytes);
  EXPECT_TRUE(absl::IsUnimplemented(unknown)) << unknown;
  EXPECT_THAT(unknown.message(), AllOf(HasSubstr("no millrace-server answers"),
                                       HasSubstr("unknown service")));
  // gRPC's words.
  const grpc::Status too_large(
      grpc::StatusCode::RESOURCE_EXHAUSTED,
      "Received message larger than max (300000 vs. 262144)");
  const absl::Status large = CallError(too_large, 300'000);
  EXPECT_TRUE(absl::IsResourceExhausted(large)) << large;
  EXPECT_THAT(large.message(), AllOf(HasSubstr("too large for the server"),
                                     HasSubstr("300000 vs. 262144")));
  // Every server takes such a request: its length has become another one.
  const absl::Status damaged = CallError(too_large, kRequestBytes);
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_FALSE(HasErrorDetail(damaged));
  EXPECT_THAT(damaged.message(), AllOf(HasSubstr("damaged on the way"),
                                       HasSubstr("300000 vs. 262144")));
}

}  // namespace
}  // namespace millrace::receive
