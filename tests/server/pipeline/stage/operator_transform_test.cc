#include "server/pipeline/stage/operator_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "proto/error_detail.h"
#include "server/augment/random.h"
#include "tests/testing/subprocess.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kPlace = 5;

class Log final : public augment::ParameterLog {
 public:
  void Add(uint32_t place, std::string what) override {
    EXPECT_EQ(place, kPlace);
    lines.push_back(std::move(what));
  }
  std::vector<std::string> lines;
};

class OperatorTransformTest : public ::testing::Test {
 protected:
  OperatorTransformTest() {
    auto loaded = operators::Operators::Load(
        {testing::ProgramPath("tests/testing/operators/good.so"),
         testing::ProgramPath("docs/example/operators/cutout.so")});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    operators_ = *std::move(loaded);
  }

  static CustomTransform Custom(const std::string& name,
                                const std::string& config, double p = 1) {
    CustomTransform custom;
    custom.set_name(name);
    custom.set_config(config);
    custom.set_p(p);
    return custom;
  }

  absl::StatusOr<std::unique_ptr<const augment::PixelOp>> Make(
      const CustomTransform& custom, int channels = 3) {
    return MakeOperatorPixelOp(*operators_->FindTransform(custom.name()),
                               custom, kPlace, channels);
  }

  absl::StatusOr<std::unique_ptr<const TensorOp>> MakeTensor(
      const std::string& config, const TensorType& input, double p = 1) {
    return MakeOperatorTensorOp(*operators_->FindTransform("rescale"),
                                Custom("rescale", config, p), kPlace, input);
  }

  augment::OpContext Context(uint64_t key) {
    augment::OpContext context;
    context.sample_key = key;
    context.scratch = &scratch_;
    context.log = log_;
    return context;
  }

  // An image of 3 x 4 pixels in rows of 16 bytes, and what the operator makes
  // of it.
  absl::StatusOr<std::vector<uint8_t>> Apply(const augment::PixelOp& op,
                                             uint64_t key) {
    std::vector<uint8_t> bytes(3 * 16);
    std::iota(bytes.begin(), bytes.end(), 0);
    const absl::Status status =
        op.Apply({bytes.data(), 3, 4, 3, 16}, Context(key));
    if (!status.ok()) return status;
    return bytes;
  }

  std::shared_ptr<const operators::Operators> operators_;
  AlignedBuffer scratch_;
  augment::ParameterLog* log_ = nullptr;
};

TEST_F(OperatorTransformTest, DrawsFromTheSampleAndThePlace) {
  const auto op = Make(Custom("paint", "draw"));
  ASSERT_TRUE(op.ok()) << op.status();
  const auto painted = Apply(**op, 77);
  ASSERT_TRUE(painted.ok()) << painted.status();
  augment::CounterRandom random(77, kPlace);
  random.Uniform();  // for p
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 12; ++x) {
      EXPECT_EQ((*painted)[16 * y + x], (random.Next64() >> 32) * 256 >> 32);
    }
    for (int x = 12; x < 16; ++x) {
      EXPECT_EQ((*painted)[16 * y + x], 16 * y + x) << "behind the row";
    }
  }
  EXPECT_EQ(*Apply(**op, 77), *painted);
  EXPECT_NE(*Apply(**op, 78), *painted);
}

TEST_F(OperatorTransformTest, IsAppliedWithProbabilityP) {
  const auto never = Make(Custom("paint", "draw", 0));
  const auto half = Make(Custom("paint", "draw", 0.5));
  const auto always = Make(Custom("paint", "draw", 1));
  ASSERT_TRUE(never.ok() && half.ok() && always.ok());
  const std::vector<uint8_t> untouched = *Apply(**never, 1);
  int applied = 0;
  for (uint64_t key = 0; key < 400; ++key) {
    EXPECT_EQ(*Apply(**never, key), untouched);
    const std::vector<uint8_t> got = *Apply(**half, key);
    if (got == untouched) continue;
    ++applied;
    // The operator's draws do not depend on p.
    EXPECT_EQ(got, *Apply(**always, key));
  }
  EXPECT_GT(applied, 150);
  EXPECT_LT(applied, 250);
}

TEST_F(OperatorTransformTest, GetsTheScratchThatItAsksFor) {
  const auto op = Make(Custom("paint", "scratch"));
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ((*op)->ScratchBytes({4, 3}, 3), 36);
  const auto reversed = Apply(**op, 0);
  ASSERT_TRUE(reversed.ok()) << reversed.status();
  EXPECT_EQ((*reversed)[16], 16 + 11);
  EXPECT_EQ((*reversed)[16 + 11], 16);

  const auto greedy = Make(Custom("paint", "too_much"));
  ASSERT_TRUE(greedy.ok());
  const auto refused = Apply(**greedy, 0);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("it requests 1 TiB of scratch for "));
}

TEST_F(OperatorTransformTest, AFailureIsABadSample) {
  for (const auto& [config, says] :
       {std::pair{"fail", "it fails always"},
        std::pair{"no_reason", "it failed without a reason"}}) {
    const auto op = Make(Custom("paint", config));
    ASSERT_TRUE(op.ok());
    const auto result = Apply(**op, 0);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(result.status().message(),
                HasSubstr("transforms[5]: transform paint 1.0: "));
    EXPECT_THAT(result.status().message(), HasSubstr(says));
    EXPECT_EQ(GetErrorDetail(result.status()).stage(), "augment");
  }
  const auto odd = Make(Custom("paint", "odd_result"));
  EXPECT_EQ(Apply(**odd, 0).status().code(), absl::StatusCode::kInternal);
}

TEST_F(OperatorTransformTest, WhatCreateRefusesIsRefused) {
  const auto config = Make(Custom("paint", "bad_config"));
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(config.status().message(),
            "transforms[5]: transform paint 1.0: config cannot be this");
  EXPECT_EQ(Make(Custom("paint", "grey_only"), 3).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Make(Custom("paint", "grey_only"), 1).ok());
  const auto reshaped = Make(Custom("paint", "reshape"));
  EXPECT_EQ(reshaped.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(reshaped.status().message(), HasSubstr("bug of the library"));
}

TEST_F(OperatorTransformTest, NotesAreForPeople) {
  Log log;
  log_ = &log;
  ASSERT_TRUE(Apply(**Make(Custom("paint", "draw")), 3).ok());
  ASSERT_TRUE(Apply(**Make(Custom("paint", "draw", 0)), 3).ok());
  EXPECT_THAT(log.lines, ElementsAre("painted", "not applied"));
}

TEST_F(OperatorTransformTest, MakesATensorOfAnother) {
  const TensorType bytes = {DTYPE_UINT8, {2, 3}};
  const auto op = MakeTensor("", bytes);
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ((*op)->input(), bytes);
  EXPECT_EQ((*op)->result(), (TensorType{DTYPE_FLOAT32, {2, 3}}));
  EXPECT_EQ((*op)->scratch_bytes(), 0);
  const std::vector<uint8_t> in = {0, 1, 2, 3, 4, 255};
  std::vector<uint8_t> out(24);
  ASSERT_TRUE((*op)->Apply(in, Context(0), absl::MakeSpan(out)).ok());
  float values[6];
  std::memcpy(values, out.data(), sizeof(values));
  EXPECT_THAT(values, ElementsAre(0, 0.5, 1, 1.5, 2, 127.5));

  // Wrong sizes are our own mistake, and seen.
  EXPECT_EQ(
      (*op)->Apply(in, Context(0), absl::MakeSpan(out).subspan(0, 23)).code(),
      absl::StatusCode::kInternal);
}

TEST_F(OperatorTransformTest, ATensorThatIsLeftOutKeepsItsType) {
  const TensorType bytes = {DTYPE_UINT8, {4}};
  const auto same = MakeTensor("same", bytes, 0.5);
  ASSERT_TRUE(same.ok()) << same.status();
  const std::vector<uint8_t> in = {1, 2, 3, 4};
  int applied = 0;
  for (uint64_t key = 0; key < 100; ++key) {
    std::vector<uint8_t> out(4);
    ASSERT_TRUE((*same)->Apply(in, Context(key), absl::MakeSpan(out)).ok());
    applied += out == std::vector<uint8_t>{2, 3, 4, 5};
    EXPECT_TRUE(out == in || out[0] == 2);
  }
  EXPECT_GT(applied, 25);
  EXPECT_LT(applied, 75);
}

TEST_F(OperatorTransformTest, ResultsThatCannotBeAreTheLibrarysMistake) {
  for (const char* config : {"odd_type", "odd_dims", "huge"}) {
    const auto op = MakeTensor(config, {DTYPE_UINT8, {4}});
    EXPECT_EQ(op.status().code(), absl::StatusCode::kInternal) << config;
    EXPECT_THAT(op.status().message(), HasSubstr("not a tensor type"));
  }
  EXPECT_EQ(MakeTensor("", {DTYPE_INT32, {4}}).status().message(),
            "transforms[5]: transform rescale 1.0: uint8 alone");
  EXPECT_EQ(
      MakeTensor("", {DTYPE_UINT8, std::vector<int64_t>(9, 1)}).status().code(),
      absl::StatusCode::kInvalidArgument);
}

// The example of docs/extending.md against a plain reference.
TEST_F(OperatorTransformTest, CutoutPaintsASquare) {
  const auto op = Make(Custom("cutout", "6"));
  ASSERT_TRUE(op.ok()) << op.status();
  for (uint64_t key = 0; key < 50; ++key) {
    std::vector<uint8_t> image(20 * 30 * 3, 9);
    ASSERT_TRUE((*op)->Apply({image.data(), 20, 30, 3, 90}, Context(key)).ok());
    augment::CounterRandom random(key, kPlace);
    random.Uniform();
    const int64_t y = static_cast<int64_t>((random.Next64() >> 32) * 20 >> 32);
    const int64_t x = static_cast<int64_t>((random.Next64() >> 32) * 30 >> 32);
    for (int64_t row = 0; row < 20; ++row) {
      for (int64_t column = 0; column < 30; ++column) {
        const bool inside =
            row >= y - 3 && row < y + 3 && column >= x - 3 && column < x + 3;
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(image[(row * 30 + column) * 3 + c], inside ? 0 : 9);
        }
      }
    }
  }
  for (const char* config :
       {"", "0", "x", "12x", "16385", "1234567890123456"}) {
    const auto bad = Make(Custom("cutout", config));
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(bad.status().message(), HasSubstr("the side of the square"));
  }
}

}  // namespace
}  // namespace millrace::pipeline
