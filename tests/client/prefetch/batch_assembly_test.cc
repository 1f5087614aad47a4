#include "client/prefetch/batch_assembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::FakeBatch;
using ::millrace::testing::MakeBatch;
using ::millrace::testing::MakePlan;
using ::testing::HasSubstr;

// A call for steps 2 to 4 of epoch 0.
class BatchAssemblyTest : public ::testing::Test {
 protected:
  BatchAssemblyTest() : slot_(plan_.max_payload_bytes()) {}

  // Bytes [begin, end) of the payload; the header comes with the first.
  static wire::FrameView Frame(const FakeBatch& batch, uint64_t begin,
                               uint64_t end) {
    wire::FrameView frame;
    frame.step = batch.header.step();
    frame.has_header = begin == 0;
    if (frame.has_header) frame.header = batch.header;
    frame.offset = begin;
    frame.data_bytes = end - begin;
    frame.data = {
        absl::string_view(batch.payload).substr(begin, frame.data_bytes)};
    return frame;
  }

  static wire::FrameView Whole(const FakeBatch& batch) {
    return Frame(batch, 0, batch.payload.size());
  }

  absl::Status Begin(const wire::FrameView& frame) {
    wire::BatchExpectation expect;
    expect.tensors = &plan_.tensors();
    expect.max_payload_bytes = plan_.max_payload_bytes();
    return assembly_.Begin(frame, {0, 2, 3}, expect, time_);
  }

  // As far as the last byte of a batch that is wanted.
  absl::Status Receive(const FakeBatch& batch, bool verify = true) {
    wire::FrameView frame = Whole(batch);
    absl::Status status = Begin(frame);
    if (!status.ok()) return status;
    assembly_.Want(&frame, slot_.data(), verify);
    return assembly_.Add(frame);
  }

  const OpenResponse plan_ = MakePlan(10);
  const FakeBatch batch_ = MakeBatch(plan_, {0, 3});
  const absl::Time time_ = absl::UnixEpoch();
  std::vector<uint8_t> slot_;
  BatchAssembly assembly_;
};

TEST_F(BatchAssemblyTest, PutsFramesTogetherInTheSlot) {
  wire::FrameView first = Frame(batch_, 0, 7);
  ASSERT_TRUE(Begin(first).ok());
  EXPECT_EQ(assembly_.position(), (Position{0, 3}));
  EXPECT_FALSE(assembly_.wanted());
  assembly_.Want(&first, slot_.data(), /*verify=*/true);
  ASSERT_TRUE(assembly_.Add(first).ok());
  EXPECT_TRUE(assembly_.begun());
  EXPECT_FALSE(assembly_.whole());
  EXPECT_EQ(assembly_.received(), 7);
  wire::FrameView rest = Frame(batch_, 7, batch_.payload.size());
  ASSERT_TRUE(assembly_.Add(rest).ok());
  ASSERT_TRUE(assembly_.whole());
  ASSERT_TRUE(assembly_.Finish().ok());
  EXPECT_FALSE(assembly_.begun());
  const WholeBatch whole = assembly_.Take();
  EXPECT_FALSE(assembly_.wanted());
  EXPECT_EQ(assembly_.slot(), nullptr);
  EXPECT_EQ(whole.slot, slot_.data());
  EXPECT_EQ(whole.shared, nullptr);
  EXPECT_EQ(whole.header.SerializeAsString(),
            batch_.header.SerializeAsString());
  EXPECT_EQ(std::string(slot_.begin(), slot_.end()), batch_.payload);

  // Another one may begin.
  EXPECT_TRUE(Receive(MakeBatch(plan_, {0, 4})).ok());
}

TEST_F(BatchAssemblyTest, RefusesAFrameOutOfOrder) {
  const uint64_t size = batch_.payload.size();
  wire::FrameView no_header = Frame(batch_, 7, size);
  EXPECT_THAT(assembly_.Add(no_header).message(),
              HasSubstr("before the header of its batch"));
  wire::FrameView first = Frame(batch_, 0, 7);
  ASSERT_TRUE(Begin(first).ok());
  assembly_.Want(&first, slot_.data(), /*verify=*/true);
  ASSERT_TRUE(assembly_.Add(first).ok());

  wire::FrameView other_step = Frame(batch_, 7, size);
  other_step.step = 4;
  wire::FrameView gap = Frame(batch_, 8, size);
  wire::FrameView again = Frame(batch_, 6, size);
  wire::FrameView empty = Frame(batch_, 7, 7);
  wire::FrameView too_long = Frame(batch_, 7, size);
  ++too_long.data_bytes;
  for (wire::FrameView* frame :
       {&other_step, &gap, &again, &empty, &too_long}) {
    EXPECT_TRUE(absl::IsDataLoss(assembly_.Add(*frame)));
  }
  EXPECT_EQ(assembly_.received(), 7);
  wire::FrameView rest = Frame(batch_, 7, size);
  EXPECT_TRUE(assembly_.Add(rest).ok());
}

TEST_F(BatchAssemblyTest, RefusesABatchThatWasNotRequestedAndOneTooEarly) {
  for (const Position position :
       {Position{0, 1}, Position{0, 5}, Position{1, 3}}) {
    EXPECT_THAT(
        Begin(Whole(MakeBatch(plan_, position))).message(),
        HasSubstr("came when 3 steps from epoch 0 step 2 were requested"));
  }
  FakeBatch other_plan = batch_;
  other_plan.header.mutable_tensors(0)->set_name("other");
  EXPECT_TRUE(absl::IsDataLoss(Begin(Whole(other_plan))));
  EXPECT_FALSE(assembly_.begun());
  ASSERT_TRUE(Begin(Frame(batch_, 0, 7)).ok());
  EXPECT_THAT(Begin(Whole(MakeBatch(plan_, {0, 4}))).message(),
              HasSubstr("began before the batch of step 3 was complete"));
}

TEST_F(BatchAssemblyTest, WhatNobodyWantsIsNotKept) {
  FakeBatch damaged = batch_;
  damaged.payload.back() = 7;  // a boolean
  wire::FrameView frame = Whole(damaged);
  ASSERT_TRUE(Begin(frame).ok());
  ASSERT_TRUE(assembly_.Add(frame).ok());
  EXPECT_TRUE(assembly_.whole());
  EXPECT_TRUE(assembly_.Finish().ok());
  EXPECT_EQ(slot_, std::vector<uint8_t>(slot_.size()));
}

TEST_F(BatchAssemblyTest, FinishFindsDamage) {
  FakeBatch damaged = batch_;
  ++damaged.payload[0];  // a value, which only the digest protects
  ASSERT_TRUE(Receive(damaged, /*verify=*/false).ok());
  EXPECT_TRUE(assembly_.Finish().ok());
  assembly_.Take();
  ASSERT_TRUE(Receive(damaged).ok());
  const absl::Status status = assembly_.Finish();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(),
              HasSubstr("the payload of epoch 0 step 3 differs"));
  EXPECT_TRUE(assembly_.wanted()) << "which batch it was must be known";
  EXPECT_EQ(assembly_.Drop(), slot_.data());
  EXPECT_FALSE(assembly_.wanted());
  EXPECT_EQ(assembly_.Drop(), nullptr) << "a slot goes back once";

  FakeBatch no_boolean = batch_;
  no_boolean.payload.back() = 7;
  ASSERT_TRUE(Receive(no_boolean, /*verify=*/false).ok());
  EXPECT_TRUE(absl::IsDataLoss(assembly_.Finish()));
}

// The digest of a batch that was given up in the middle is not that of the
// next.
TEST_F(BatchAssemblyTest, EachBatchIsComparedWithItsOwnDigest) {
  wire::FrameView first = Frame(batch_, 0, 7);
  ASSERT_TRUE(Begin(first).ok());
  assembly_.Want(&first, slot_.data(), /*verify=*/true);
  ASSERT_TRUE(assembly_.Add(first).ok());
  assembly_.Drop();
  wire::FrameView rest = Frame(batch_, 7, batch_.payload.size());
  ASSERT_TRUE(assembly_.Add(rest).ok());
  ASSERT_TRUE(assembly_.Finish().ok());
  const FakeBatch next = MakeBatch(plan_, {0, 4});
  ASSERT_TRUE(Receive(next).ok());
  EXPECT_TRUE(assembly_.Finish().ok());
  EXPECT_EQ(std::string(slot_.begin(), slot_.end()), next.payload);
}

TEST_F(BatchAssemblyTest, SharedMemoryIsHandedOutWhereItLies) {
  const auto memory = std::make_shared<std::string>(batch_.payload);
  wire::FrameView frame = Whole(batch_);
  frame.hold = std::shared_ptr<void>(memory, memory->data());
  ASSERT_TRUE(Begin(frame).ok());
  EXPECT_TRUE(assembly_.in_shared());
  assembly_.Want(&frame, nullptr, /*verify=*/true);
  ASSERT_TRUE(assembly_.Add(frame).ok());
  ASSERT_TRUE(assembly_.whole());
  ASSERT_TRUE(assembly_.Finish().ok());
  const WholeBatch whole = assembly_.Take();
  EXPECT_EQ(whole.slot, nullptr);
  EXPECT_EQ(whole.shared.get(), memory->data());

  // A slot of it that was damaged.
  ++(*memory)[0];
  frame = Whole(batch_);
  frame.hold = whole.shared;
  ASSERT_TRUE(Begin(frame).ok());
  assembly_.Want(&frame, nullptr, /*verify=*/true);
  ASSERT_TRUE(assembly_.Add(frame).ok());
  EXPECT_TRUE(absl::IsDataLoss(assembly_.Finish()));
  assembly_.Drop();

  // All of it, or none.
  wire::FrameView part = Frame(batch_, 0, 7);
  part.hold = whole.shared;
  ASSERT_TRUE(Begin(part).ok());
  assembly_.Want(&part, nullptr, /*verify=*/true);
  EXPECT_TRUE(absl::IsDataLoss(assembly_.Add(part)));
}

}  // namespace
}  // namespace millrace::prefetch
