// An answer to Open that was damaged on the way is told from a good one.

#include "proto/wire/open_answer.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::google::protobuf::util::MessageDifferencer;

constexpr char kRequest[] = "the bytes of a request";

OpenResponse Answer() {
  OpenResponse answer;
  answer.set_protocol_version(1);
  answer.mutable_resolved_spec()->set_batch_size(64);
  answer.mutable_resolved_spec()->add_sources()->set_dataset("digits");
  answer.set_plan_hash("0123456789abcdef");
  TensorSpec& tensor = *answer.add_tensors();
  tensor.set_name("image");
  tensor.add_sample_shape(28);
  answer.set_steps_per_epoch(300);
  answer.set_fingerprint("d41d8cd98f00b204");
  answer.add_sources()->set_slots(7);
  return answer;
}

// Without its digest and without fields that this version does not know.
OpenResponse Content(OpenResponse answer) {
  answer.clear_answer_xxh3();
  answer.DiscardUnknownFields();
  return answer;
}

TEST(OpenAnswerTest, IsReadAsItWasWritten) {
  OpenResponse got;
  const absl::Status status =
      ParseOpenAnswer(kRequest, SerializeOpenAnswer(kRequest, Answer()), &got);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(got.has_answer_xxh3());
  EXPECT_TRUE(MessageDifferencer::Equals(Content(got), Answer()));
  // A digest that stands in the message already is made anew.
  EXPECT_EQ(SerializeOpenAnswer(kRequest, got),
            SerializeOpenAnswer(kRequest, Answer()));
}

TEST(OpenAnswerTest, AnyFlippedBitIsNoticed) {
  const std::string good = SerializeOpenAnswer(kRequest, Answer());
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string damaged = good;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    OpenResponse got;
    const absl::Status status = ParseOpenAnswer(kRequest, damaged, &got);
    EXPECT_TRUE(absl::IsDataLoss(status)) << "bit " << bit << " " << status;
  }
}

// A flip in the digest's own tag makes an unknown field of it, which let any
// other damage pass.
TEST(OpenAnswerTest, TwoFlippedBitsAreNoticed) {
  const std::string good = SerializeOpenAnswer(kRequest, Answer());
  for (size_t tag_bit = 0; tag_bit < 24; ++tag_bit) {
    for (size_t bit = 0; bit < 8 * (good.size() - 11); ++bit) {
      std::string damaged = good;
      damaged[good.size() - 11 + tag_bit / 8] ^=
          static_cast<char>(1 << tag_bit % 8);
      damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
      OpenResponse got;
      EXPECT_FALSE(ParseOpenAnswer(kRequest, damaged, &got).ok())
          << "bits " << tag_bit << " of the tag and " << bit;
    }
  }
}

// The server resolves whatever arrives: with a flipped bit another seed.
TEST(OpenAnswerTest, AnAnswerToAnotherRequestIsNoticed) {
  OpenResponse got;
  EXPECT_TRUE(absl::IsDataLoss(ParseOpenAnswer(
      kRequest, SerializeOpenAnswer("the bytes of a reques_", Answer()),
      &got)));
}

TEST(OpenAnswerTest, AnAnswerThatEndsEarlyIsNoticed) {
  const std::string good = SerializeOpenAnswer(kRequest, Answer());
  OpenResponse got;
  EXPECT_FALSE(
      ParseOpenAnswer(kRequest, good.substr(0, good.size() - 1), &got).ok());
}

// Servers of releases before the digest, and other implementations.
TEST(OpenAnswerTest, AnAnswerWithoutADigestIsTaken) {
  OpenResponse got;
  ASSERT_TRUE(
      ParseOpenAnswer(kRequest, Answer().SerializeAsString(), &got).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(got, Answer()));
}

}  // namespace
}  // namespace millrace
