// What is checked of a received batch before the client trusts it.

#include "proto/wire/batch_view.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/wire_samples.h"

namespace millrace::wire {
namespace {

using ::testing::HasSubstr;

class BatchViewTest : public ::testing::Test {
 protected:
  absl::Status Check(const BatchHeader& header) {
    return ValidateBatchHeader(header, expect_);
  }

  google::protobuf::RepeatedPtrField<TensorSpec> tensors_ =
      testing::SampleTensors();
  BatchExpectation expect_{.tensors = &tensors_,
                           .epoch = 4,
                           .step = 17,
                           .rank = 1,
                           .world_size = 2,
                           .max_payload_bytes = 384,
                           .max_rows = 3};
};

TEST_F(BatchViewTest, TakesAGoodBatch) {
  EXPECT_TRUE(Check(testing::SampleHeader()).ok())
      << Check(testing::SampleHeader());
  EXPECT_TRUE(
      ValidatePayload(testing::SampleHeader(), testing::SamplePayload()).ok());
}

TEST_F(BatchViewTest, TakesARankWithoutRows) {
  BatchHeader header = testing::SampleHeader();
  header.set_rows(0);
  header.set_local_valid(0);
  header.set_payload_bytes(64);
  for (TensorHeader& tensor : *header.mutable_tensors()) {
    tensor.set_offset(0);
    tensor.set_bytes(0);
    tensor.set_values_offset(0);
    tensor.set_values_bytes(0);
  }
  header.mutable_tensors(2)->set_bytes(8);  // one offset: 0
  EXPECT_TRUE(Check(header).ok()) << Check(header);
  EXPECT_TRUE(ValidatePayload(header, std::vector<uint8_t>(64, 0)).ok());
}

struct Damage {
  const char* says;
  std::function<void(BatchHeader&)> change;
};

TEST_F(BatchViewTest, RefusesHeadersThatCannotBeRight) {
  const auto tensor = [](BatchHeader& h, int i) {
    return h.mutable_tensors(i);
  };
  const std::vector<Damage> cases = {
      {"the request was for", [](auto& h) { h.set_epoch(5); }},
      {"the request was for", [](auto& h) { h.set_step(16); }},
      {"the request was for", [](auto& h) { h.set_rank(0); }},
      {"the request was for", [](auto& h) { h.set_world_size(4); }},
      {"the plan allows 384", [](auto& h) { h.set_payload_bytes(385); }},
      {"the plan allows 384", [](auto& h) { h.set_payload_bytes(UINT64_MAX); }},
      {"the plan allows 3", [](auto& h) { h.set_rows(4); }},
      {"the plan allows 3", [](auto& h) { h.set_rows(UINT64_MAX); }},
      {"rows are valid", [](auto& h) { h.set_local_valid(4); }},
      {"rows are valid", [](auto& h) { h.set_global_valid(1); }},
      {"4 tensors", [](auto& h) { h.mutable_tensors()->RemoveLast(); }},
      {"6 tensors", [](auto& h) { *h.add_tensors() = h.tensors(0); }},
      {"but the plan has", [&](auto& h) { tensor(h, 0)->set_name("mask"); }},
      {"but the plan has",
       [&](auto& h) { tensor(h, 0)->set_dtype(DTYPE_BOOL); }},
      {"but the plan has",
       [&](auto& h) { tensor(h, 0)->set_sample_shape(0, 3); }},
      {"but the plan has", [&](auto& h) { tensor(h, 0)->add_sample_shape(1); }},
      {"35 bytes for 3 rows of 12",
       [&](auto& h) { tensor(h, 0)->set_bytes(35); }},
      {"37 bytes for 3 rows of 12",
       [&](auto& h) { tensor(h, 0)->set_bytes(37); }},
      {"not a multiple of 64", [&](auto& h) { tensor(h, 1)->set_offset(65); }},
      {"of a payload of 384", [&](auto& h) { tensor(h, 1)->set_offset(384); }},
      {"of a payload of 384",
       [&](auto& h) { tensor(h, 1)->set_offset(uint64_t{0} - 64); }},
      {"overlap at byte", [&](auto& h) { tensor(h, 1)->set_offset(0); }},
      {"overlap at byte",
       [&](auto& h) { tensor(h, 2)->set_values_offset(64); }},
      {"dense and has ragged",
       [&](auto& h) { tensor(h, 0)->set_values_bytes(1); }},
      {"bytes of offsets for 3 rows",
       [&](auto& h) { tensor(h, 2)->set_bytes(24); }},
      {"of a payload of 384",
       [&](auto& h) { tensor(h, 2)->set_values_bytes(UINT64_MAX); }},
      {"not a multiple of 64",
       [&](auto& h) { tensor(h, 2)->set_values_offset(193); }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    BatchHeader header = testing::SampleHeader();
    cases[i].change(header);
    const absl::Status status = Check(header);
    EXPECT_TRUE(absl::IsDataLoss(status)) << i << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(cases[i].says)) << i;
  }
}

TEST_F(BatchViewTest, RefusesSizesThatOverflow) {
  // 2^62 rows of 12 bytes, and a shape whose product leaves 64 bits: neither
  // may wrap around to a small number that fits.
  BatchHeader header = testing::SampleHeader();
  expect_.max_rows = 0;
  header.set_rows(uint64_t{1} << 62);
  header.mutable_tensors(0)->set_bytes((uint64_t{1} << 62) * 12);
  EXPECT_TRUE(absl::IsDataLoss(Check(header)));

  header = testing::SampleHeader();
  for (int64_t huge : {INT64_MAX, int64_t{-1}, int64_t{-2}}) {
    header.mutable_tensors(0)->set_sample_shape(1, huge);
    tensors_.Mutable(0)->set_sample_shape(1, huge);
    EXPECT_TRUE(absl::IsDataLoss(Check(header))) << huge;
  }
}

TEST_F(BatchViewTest, RefusesAnUnknownType) {
  BatchHeader header = testing::SampleHeader();
  header.mutable_tensors(0)->set_dtype(static_cast<DType>(99));
  tensors_.Mutable(0)->set_dtype(static_cast<DType>(99));
  EXPECT_TRUE(absl::IsDataLoss(Check(header)));
}

TEST_F(BatchViewTest, RefusesPayloadsThatCannotBeRight) {
  const BatchHeader header = testing::SampleHeader();
  const uint64_t offsets = header.tensors(2).offset();
  const uint64_t valid = header.tensors(4).offset();
  const auto damage = [&](uint64_t at, int64_t value, size_t bytes) {
    std::vector<uint8_t> payload = testing::SamplePayload();
    std::memcpy(payload.data() + at, &value, bytes);
    return ValidatePayload(header, payload);
  };
  EXPECT_THAT(std::string(damage(offsets, 1, 8).message()),
              HasSubstr("offset 1 at row 0"));
  EXPECT_THAT(std::string(damage(offsets + 8, 6, 8).message()),
              HasSubstr("offset 5 at row 2 after 6"));
  EXPECT_THAT(std::string(damage(offsets + 8, -4, 8).message()),
              HasSubstr("offset -4"));
  EXPECT_THAT(std::string(damage(offsets + 24, 6, 8).message()),
              HasSubstr("ends at value 6 of 5"));
  EXPECT_THAT(std::string(damage(valid, 2, 1).message()),
              HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(std::string(damage(valid, 0, 1).message()),
              HasSubstr("marks 1 rows, the header says 2"));
  std::vector<uint8_t> cut = testing::SamplePayload();
  cut.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(ValidatePayload(header, cut)));
}

}  // namespace
}  // namespace millrace::wire
