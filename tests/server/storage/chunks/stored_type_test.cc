#include "server/storage/chunks/stored_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "proto/dtype.h"
#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

template <typename To>
absl::StatusOr<To> Converted(StoredType from, const std::string& value,
                             DType to) {
  To number{};
  const absl::Status status =
      Convert(from, SpanOf(value), to, reinterpret_cast<uint8_t*>(&number));
  if (!status.ok()) return status;
  return number;
}

TEST(StoredTypeTest, SmallScalarsAreWidenedAsInParquet) {
  const struct {
    const char* name;
    DType scalar, array;
  } cases[] = {
      {"bool", DTYPE_BOOL, DTYPE_BOOL},
      {"uint8", DTYPE_UINT8, DTYPE_UINT8},
      {"int8", DTYPE_INT32, DTYPE_INT8},
      {"uint16", DTYPE_INT32, DTYPE_UINT16},
      {"int16", DTYPE_INT32, DTYPE_INT16},
      {"uint32", DTYPE_INT64, DTYPE_INT64},
      {"int32", DTYPE_INT32, DTYPE_INT32},
      {"uint64", DTYPE_INT64, DTYPE_INT64},
      {"int64", DTYPE_INT64, DTYPE_INT64},
      {"float16", DTYPE_FLOAT16, DTYPE_FLOAT16},
      {"bfloat16", DTYPE_BFLOAT16, DTYPE_BFLOAT16},
      {"float32", DTYPE_FLOAT32, DTYPE_FLOAT32},
      {"float64", DTYPE_FLOAT64, DTYPE_FLOAT64},
  };
  for (const auto& [name, scalar, array] : cases) {
    const StoredType type = StoredTypeNamed(name);
    ASSERT_NE(type, StoredType::kBytes) << name;
    EXPECT_EQ(ScalarDType(type), scalar) << name;
    EXPECT_EQ(ArrayDType(type), array) << name;
    EXPECT_TRUE(CanConvert(type, scalar)) << name;
    EXPECT_TRUE(CanConvert(type, array)) << name;
    EXPECT_EQ(IsSame(type, scalar), DTypeName(scalar) == name) << name;
  }
  for (const char* name : {"", "complex64", "str", "int", "UINT8"}) {
    EXPECT_EQ(StoredTypeNamed(name), StoredType::kBytes) << name;
  }
}

TEST(StoredTypeTest, OnlyIntegersBecomeIntegers) {
  for (int i = 0; i < kStoredTypes; ++i) {
    const auto type = static_cast<StoredType>(i);
    EXPECT_EQ(CanConvert(type, DTYPE_INT64), IsInteger(type)) << i;
  }
  EXPECT_FALSE(CanConvert(StoredType::kInt64, DTYPE_INT32));
  EXPECT_FALSE(CanConvert(StoredType::kUint32, DTYPE_INT32));
  EXPECT_FALSE(CanConvert(StoredType::kIntText, DTYPE_INT32));
  EXPECT_FALSE(CanConvert(StoredType::kBytes, DTYPE_UINT8));
  EXPECT_FALSE(CanConvert(StoredType::kFloat32, DTYPE_FLOAT64));
}

TEST(StoredTypeTest, ConversionsKeepTheNumber) {
  EXPECT_EQ(*Converted<int32_t>(StoredType::kInt8, RawBytes<int8_t>(-128),
                                DTYPE_INT32),
            -128);
  EXPECT_EQ(*Converted<int32_t>(StoredType::kUint16, RawBytes<uint16_t>(65535),
                                DTYPE_INT32),
            65535);
  EXPECT_EQ(*Converted<int32_t>(StoredType::kInt16, RawBytes<int16_t>(-5),
                                DTYPE_INT32),
            -5);
  EXPECT_EQ(*Converted<int64_t>(StoredType::kUint32,
                                RawBytes<uint32_t>(4'000'000'000), DTYPE_INT64),
            4'000'000'000);
  EXPECT_EQ(*Converted<int64_t>(StoredType::kUint8, RawBytes<uint8_t>(200),
                                DTYPE_INT64),
            200);
  EXPECT_EQ(*Converted<int64_t>(StoredType::kInt32, RawBytes<int32_t>(-7),
                                DTYPE_INT64),
            -7);
  EXPECT_EQ(
      *Converted<int64_t>(StoredType::kIntText, "-123456789012", DTYPE_INT64),
      -123456789012);
  EXPECT_EQ(*Converted<double>(StoredType::kFloatText, "1e-05", DTYPE_FLOAT64),
            1e-05);
}

TEST(StoredTypeTest, ANumberThatDoesNotFitIsDamage) {
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(
      *Converted<int64_t>(StoredType::kUint64, RawBytes(kLargest), DTYPE_INT64),
      std::numeric_limits<int64_t>::max());
  const auto large = Converted<int64_t>(StoredType::kUint64,
                                        RawBytes(kLargest + 1), DTYPE_INT64);
  EXPECT_TRUE(absl::IsDataLoss(large.status()));
  EXPECT_THAT(large.status().message(),
              HasSubstr("9223372036854775808 is larger than an int64"));
  for (const char* text : {"", "12a", "9223372036854775808"}) {
    EXPECT_TRUE(absl::IsDataLoss(
        Converted<int64_t>(StoredType::kIntText, text, DTYPE_INT64).status()))
        << text;
  }
  EXPECT_THAT(Converted<double>(StoredType::kFloatText, "a\nb", DTYPE_FLOAT64)
                  .status()
                  .message(),
              HasSubstr("the value 'a\\nb' is no number"));
}

TEST(StoredTypeTest, ABoolIsZeroOrOne) {
  const std::string good("\0\1", 2);
  EXPECT_TRUE(CheckBools(SpanOf(good)).ok());
  EXPECT_TRUE(absl::IsDataLoss(CheckBools(SpanOf("\2"))));
}

}  // namespace
}  // namespace millrace::storage
