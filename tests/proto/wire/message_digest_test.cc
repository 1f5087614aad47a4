// A message that was damaged on the way is told from a good one.

#include "proto/wire/message_digest.h"

#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::wire {
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

// Whether damage of `good` is noticed, whatever the peer has declared.
void ExpectDamage(const std::string& damaged, uint64_t seed) {
  for (const bool declared : {false, true}) {
    ASSERT_EQ(CheckDigest(damaged, seed, declared), DigestCheck::kWrong)
        << "declared: " << declared;
  }
}

void ExpectEveryFlippedBitIsNoticed(const google::protobuf::Message& message,
                                    uint64_t seed) {
  SCOPED_TRACE(message.GetTypeName());
  const std::string good = WithDigest(message.SerializeAsString(), seed);
  ASSERT_EQ(CheckDigest(good, seed, true), DigestCheck::kRight);
  ASSERT_EQ(CheckDigest(good, seed, false), DigestCheck::kRight);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    SCOPED_TRACE(bit);
    std::string damaged = good;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    ASSERT_NO_FATAL_FAILURE(ExpectDamage(damaged, seed));
  }
  // Cut by damage of the length before the message.
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_EQ(CheckDigest(good.substr(0, size), seed, true),
              DigestCheck::kWrong)
        << size << " bytes";
  }
}

// A flipped bit dropped the recommended preset of a dataset, and a job trained
// on data that were not normalised. A flip in the digest's own tag turned the
// check off.
TEST(MessageDigestTest, EveryFlippedBitOfEveryRequestAndAnswerIsNoticed) {
  const GetBatchesRequest batches = Request();
  ExplainBatchRequest explain;
  *explain.mutable_batch() = batches;
  DescribeDatasetRequest describe;
  describe.set_dataset("digits");
  OpenRequest open;
  open.set_protocol_version(1);
  open.mutable_spec()->set_preset("mnist_train");
  const ListDatasetsRequest list;
  const GetStatusRequest status;
  for (const google::protobuf::Message* request :
       std::initializer_list<const google::protobuf::Message*>{
           &batches, &explain, &describe, &open, &list, &status}) {
    ExpectEveryFlippedBitIsNoticed(*request, 0);
  }

  const uint64_t seed = AnswerSeed(WithDigest(describe.SerializeAsString()));
  DescribeDatasetResponse described;
  described.mutable_dataset()->set_name("digits");
  described.mutable_dataset()->set_train_preset("mnist_train");
  ListDatasetsResponse datasets;
  datasets.add_datasets()->set_samples(1000);
  GetStatusResponse state;
  state.set_batches_sent(17);
  state.set_uptime_seconds(2.5);
  OpenResponse plan;
  plan.set_plan_hash("0123456789abcdef");
  plan.set_steps_per_epoch(300);
  ExplainBatchResponse explained;
  explained.set_rows(3);
  for (const google::protobuf::Message* answer :
       std::initializer_list<const google::protobuf::Message*>{
           &described, &datasets, &state, &plan, &explained}) {
    ExpectEveryFlippedBitIsNoticed(*answer, seed);
  }
}

// The server answers whatever arrives: with a flipped bit another dataset.
TEST(MessageDigestTest, AnAnswerToAnotherRequestIsNoticed) {
  const std::string answer = WithDigest("content", AnswerSeed("a request"));
  EXPECT_EQ(CheckDigest(answer, AnswerSeed("a request")), DigestCheck::kRight);
  EXPECT_EQ(CheckDigest(answer, AnswerSeed("b request")), DigestCheck::kWrong);
}

// Two flips, one of them in the digest's own tag.
TEST(MessageDigestTest, ADeclaredDigestMustBeThere) {
  const std::string good = WithDigest(Request().SerializeAsString());
  const size_t tag = good.size() - 11;
  for (size_t tag_bit = 0; tag_bit < 24; ++tag_bit) {
    for (size_t bit = 0; bit < 8 * tag; ++bit) {
      std::string damaged = good;
      damaged[tag + tag_bit / 8] ^= static_cast<char>(1 << tag_bit % 8);
      damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
      ASSERT_EQ(CheckDigest(damaged, 0, /*declared=*/true), DigestCheck::kWrong)
          << "bits " << tag_bit << " of the tag and " << bit;
    }
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
}  // namespace millrace::wire
