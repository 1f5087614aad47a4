// Statuses that cross gRPC keep code, message and where the error arose.

#include "proto/grpc_status.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/error_detail.h"

namespace millrace {
namespace {

TEST(GrpcStatusTest, OkStaysOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(GrpcStatusTest, KeepsCodeMessageAndDetail) {
  ErrorDetail detail = MakeErrorDetail("decode");
  detail.set_dataset("photos");
  detail.set_shard("part-00001.parquet");
  detail.set_row(0);
  detail.set_retry_delay_ms(250);
  const absl::Status sent =
      WithErrorDetail(absl::DataLossError("no image"), detail);
  const absl::Status got = FromGrpcStatus(ToGrpcStatus(sent));
  EXPECT_EQ(got.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(got.message(), "no image");
  EXPECT_EQ(GetErrorDetail(got).SerializeAsString(),
            detail.SerializeAsString());
}

TEST(GrpcStatusTest, EveryCodeComesBack) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status sent(static_cast<absl::StatusCode>(code), "x");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(sent)).code(), sent.code());
  }
}

TEST(GrpcStatusTest, MessagesBecomeShortUtf8) {
  const std::string odd = "file \xff\xc3\x28 of \xc3\xa9t\xc3\xa9";
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(absl::NotFoundError(odd))).message(),
            "file \\377\\303( of \xc3\xa9t\xc3\xa9");

  std::string lengthy;
  while (lengthy.size() < 20000) lengthy += "\xc3\xa9";
  const grpc::Status cut = ToGrpcStatus(absl::NotFoundError(lengthy));
  EXPECT_LE(cut.error_message().size(), kMaxStatusMessageBytes);
  EXPECT_THAT(cut.error_message(), ::testing::EndsWith("\xc3\xa9 ... (cut)"));
  // What a receiver with gRPC's limit of 8 KiB must be able to take.
  EXPECT_LT(3 * cut.error_message().size() + cut.error_details().size(), 8000);
}

// A request may name a dataset of 60 KB with line breaks; the answer is read on
// a terminal and logged by clients.
TEST(GrpcStatusTest, WhatPeersAndFilesSayCannotForgeLines) {
  ErrorDetail detail = MakeErrorDetail("plan");
  detail.set_dataset("a\nE 2026 main.cc:1] forged");
  detail.set_shard(std::string(5000, '\x1b'));
  const absl::Status bad =
      WithErrorDetail(absl::NotFoundError("no dataset `a\nb\x1b[2J`"), detail);
  const grpc::Status sent = ToGrpcStatus(bad);
  EXPECT_EQ(sent.error_message(), "no dataset `a\\nb\\033[2J`");
  const ErrorDetail got = GetErrorDetail(FromGrpcStatus(sent));
  EXPECT_EQ(got.dataset(), "a\\nE 2026 main.cc:1] forged");
  EXPECT_LE(got.shard().size(), 256);
  EXPECT_LT(3 * sent.error_message().size() + sent.error_details().size(),
            8000);
}

// Files have any names. A detail with one that was no UTF-8 could not be read
// back: dataset, row and all were lost.
TEST(GrpcStatusTest, ANameThatIsNoUtf8LosesNothing) {
  ErrorDetail detail = MakeErrorDetail("decode");
  detail.set_dataset("photos");
  detail.set_shard("part-\xff\x1b");
  detail.set_row(7);
  const ErrorDetail kept =
      GetErrorDetail(WithErrorDetail(absl::DataLossError("bad"), detail));
  EXPECT_EQ(kept.dataset(), "photos");
  EXPECT_EQ(kept.shard(), "part-\\377\\033");
  EXPECT_EQ(kept.row(), 7);
}

// Anybody may answer at an address: the client looks, too.
TEST(GrpcStatusTest, WhatIsReceivedIsMadeReadable) {
  const grpc::Status foreign(grpc::StatusCode::UNAVAILABLE,
                             "no\n\x1b[2J" + std::string(100'000, 'x'));
  const absl::Status got = FromGrpcStatus(foreign);
  EXPECT_EQ(got.message().substr(0, 10), "no\\n\\033[2");
  EXPECT_LT(got.message().size(), 5000);
}

// "This server has no dataset `vt`", of a name whose bit was flipped.
TEST(GrpcStatusTest, EveryFlippedBitOfDetailsWithADigestIsDamage) {
  constexpr uint64_t kSeed = 17;
  const absl::Status said = WithErrorDetail(
      absl::NotFoundError("no dataset `vt`"), MakeErrorDetail("rpc"));
  const grpc::Status sent = ToGrpcStatus(said, kSeed);
  EXPECT_EQ(FromGrpcStatus(sent, kSeed), said);
  EXPECT_EQ(FromGrpcStatus(sent), said) << "a client of an earlier version";
  for (size_t bit = 0; bit < 8 * sent.error_details().size(); ++bit) {
    std::string details = sent.error_details();
    details[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const absl::Status got = FromGrpcStatus(
        grpc::Status(sent.error_code(), sent.error_message(), details), kSeed);
    ASSERT_TRUE(absl::IsDataLoss(got)) << "bit " << bit << " " << got;
    ASSERT_FALSE(HasErrorDetail(got)) << "bit " << bit;
  }
}

TEST(GrpcStatusTest, ARefusalOfAnotherRequestIsDamage) {
  const absl::Status got = FromGrpcStatus(
      ToGrpcStatus(absl::NotFoundError("no dataset `vt`"), 17), 18);
  EXPECT_TRUE(absl::IsDataLoss(got)) << got;
  EXPECT_FALSE(HasErrorDetail(got));
  EXPECT_THAT(got.message(), ::testing::HasSubstr("damaged on the way"));
}

// The headers `grpc-status` and `grpc-message` are beside the details.
TEST(GrpcStatusTest, CodeAndMessageAreThoseThatTheDigestCovers) {
  const absl::Status said = WithErrorDetail(
      absl::NotFoundError("no dataset `vt`"), MakeErrorDetail("rpc"));
  const grpc::Status sent = ToGrpcStatus(said, 17);
  const grpc::Status damaged(grpc::StatusCode::DEADLINE_EXCEEDED,
                             "no dataset `vu`", sent.error_details());
  EXPECT_EQ(FromGrpcStatus(damaged, 17), said);
}

TEST(GrpcStatusTest, AServerOfAnEarlierVersionSendsNoDigest) {
  const absl::Status said = WithErrorDetail(
      absl::NotFoundError("no dataset `vt`"), MakeErrorDetail("rpc"));
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(said), 17), said);
}

TEST(GrpcStatusTest, ForeignDetailsAreLeftOut) {
  const grpc::Status foreign(grpc::StatusCode::UNAVAILABLE, "proxy says no",
                             "\xff\xff not a message");
  const absl::Status got = FromGrpcStatus(foreign);
  EXPECT_TRUE(absl::IsUnavailable(got));
  EXPECT_EQ(got.message(), "proxy says no");
  EXPECT_EQ(GetErrorDetail(got).row(), -1);
}

}  // namespace
}  // namespace millrace
