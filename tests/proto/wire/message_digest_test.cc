// A message that was damaged on the way is told from a good one.

#include "proto/wire/message_digest.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {
namespace {

GetBatchesRequest Request() {
  GetBatchesRequest request;
  request.set_protocol_version(1);
  request.mutable_resolved_spec()->set_batch_size(64);
  request.set_plan_hash("0123456789abcdef");
  request.set_first_step(17);
  request.set_step_count(4);
  request.set_world_size(8);
  request.set_client_id("fedcba9876543210");
  request.mutable_same_host()->set_call(3);
  return request;
}

// The formula of docs/protocol.md.
TEST(MessageDigestTest, IsTheLastFieldOfTheMessage) {
  const std::string content = Request().SerializeAsString();
  const std::string bytes = WithDigest(content);
  EXPECT_EQ(CheckDigest(bytes), DigestCheck::kRight);
  GetBatchesRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  EXPECT_TRUE(parsed.has_request_xxh3());
  EXPECT_EQ(parsed.SerializeAsString(), bytes);
  parsed.clear_request_xxh3();
  EXPECT_EQ(parsed.SerializeAsString(), content);
  OpenRequest open;
  ASSERT_TRUE(open.ParseFromString(WithDigest("")));
  // XXH3-64 of no bytes, of its specification.
  EXPECT_EQ(open.request_xxh3(), 0x2d06800538d394c2u);
}

TEST(MessageDigestTest, AnyFlippedBitIsNoticedOrFlipsTheTag) {
  const std::string good = WithDigest(Request().SerializeAsString());
  const size_t tag = good.size() - 11;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string damaged = good;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const bool in_tag = bit / 8 >= tag && bit / 8 < tag + 3;
    EXPECT_EQ(CheckDigest(damaged),
              in_tag ? DigestCheck::kAbsent : DigestCheck::kWrong)
        << "bit " << bit;
  }
}

TEST(MessageDigestTest, AMessageOfAnEarlierVersionHasNone) {
  EXPECT_EQ(CheckDigest(Request().SerializeAsString()), DigestCheck::kAbsent);
  EXPECT_EQ(CheckDigest(""), DigestCheck::kAbsent);
}

TEST(MessageDigestTest, AnotherSeedIsAnotherDigest) {
  const std::string bytes = WithDigest("content", 5);
  EXPECT_EQ(CheckDigest(bytes, 5), DigestCheck::kRight);
  EXPECT_EQ(CheckDigest(bytes, 4), DigestCheck::kWrong);
}

}  // namespace
}  // namespace millrace
