#include "server/storage/content_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::storage {
namespace {

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Hash128 Sample(int64_t index, std::vector<absl::string_view> fields) {
  std::vector<absl::Span<const uint8_t>> spans;
  for (absl::string_view field : fields) spans.push_back(Bytes(field));
  return HashSample(index, spans);
}

// The published value of XXH3-128 for an empty input.
TEST(ContentHashTest, HashesAreXxh3) {
  EXPECT_EQ(HashToHex(HashBytes({})), "99aa06d3014798d86001c324468d497f");
}

TEST(ContentHashTest, HexGoesBothWays) {
  const Hash128 hash{.low = 0x0123456789abcdef, .high = 0x00000000000000ff};
  EXPECT_EQ(HashToHex(hash), "00000000000000ff0123456789abcdef");
  Hash128 back;
  ASSERT_TRUE(HashFromHex(HashToHex(hash), &back));
  EXPECT_EQ(back, hash);
  for (const char* bad : {"", "0", "00000000000000FF0123456789abcdef",
                          "00000000000000ff0123456789abcdeg",
                          "00000000000000ff0123456789abcdef0"}) {
    EXPECT_FALSE(HashFromHex(bad, &back)) << bad;
  }
}

TEST(ContentHashTest, ASampleHashIsOfIndexLengthsAndBytes) {
  // As docs/formats.md writes it down.
  std::string text("\x05\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0ab\0\0\0\0\0\0\0\0",
                   26);
  EXPECT_EQ(Sample(5, {"ab", ""}), HashBytes(Bytes(text)));
  EXPECT_NE(Sample(5, {"ab", ""}), Sample(6, {"ab", ""}));
  EXPECT_NE(Sample(5, {"ab", ""}), Sample(5, {"a", "b"}));
}

TEST(ContentHashTest, TheSumCarriesAndDoesNotDependOnOrder) {
  ContentSum sum;
  sum.Add(Hash128{.low = UINT64_MAX, .high = 1});
  sum.Add(Hash128{.low = 2, .high = UINT64_MAX});
  EXPECT_EQ(sum.value(), (Hash128{.low = 1, .high = 1}));

  ContentSum forward, backward;
  for (int i = 0; i < 100; ++i) forward.Add(Sample(i, {"x"}));
  for (int i = 99; i >= 0; --i) backward.Add(Sample(i, {"x"}));
  EXPECT_EQ(forward.value(), backward.value());
}

TEST(ContentHashTest, TheFingerprintSeesEveryPartOfTheSchema) {
  Schema schema;
  Field* field = schema.add_fields();
  field->set_name("x");
  field->set_kind(FIELD_KIND_TENSOR);
  field->set_dtype(DTYPE_INT64);
  const std::string base = DatasetFingerprint(3, schema, {});
  // A constant of the format: files carry what it was made of.
  EXPECT_EQ(base, DatasetFingerprint(3, schema, {}));
  EXPECT_NE(base, DatasetFingerprint(4, schema, {}));
  EXPECT_NE(base, DatasetFingerprint(3, schema, {.low = 1}));
  EXPECT_NE(base, DatasetFingerprint(3, schema, {.high = 1}));
  const auto changed = [&](auto change) {
    Schema other = schema;
    change(other.mutable_fields(0));
    return DatasetFingerprint(3, other, {});
  };
  EXPECT_NE(base, changed([](Field* f) { f->set_name("y"); }));
  EXPECT_NE(base, changed([](Field* f) { f->set_kind(FIELD_KIND_RAGGED); }));
  EXPECT_NE(base, changed([](Field* f) { f->set_dtype(DTYPE_INT32); }));
  EXPECT_NE(base, changed([](Field* f) { f->add_shape(1); }));
  EXPECT_NE(base, changed([](Field* f) { f->set_num_classes(2); }));
  EXPECT_NE(base, changed([](Field* f) { f->add_class_names("a"); }));
}

}  // namespace
}  // namespace millrace::storage
