#include "client/audit/spec_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/spec_text.h"

namespace millrace::audit {
namespace {

using ::testing::IsEmpty;

PipelineSpec Spec(const std::string& text) {
  const auto spec = ParseSpecText("preset: 'mnist' " + text, "the test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

std::string Difference(const std::string& before, const std::string& after) {
  return DifferenceText(DifferencesOf(Spec(before), Spec(after)), "then",
                        "now");
}

TEST(SpecDifference, NamesFieldsAndBothValues) {
  EXPECT_THAT(DifferencesOf(Spec("batch_size: 8 compression: COMPRESSION_ZSTD"),
                            Spec("batch_size: 8")),
              IsEmpty())
      << "packing is no part of a plan";
  EXPECT_EQ(Difference("batch_size: 8", "batch_size: 16 seed: 3"),
            "seed (0 then, 3 now), batch_size (8 then, 16 now)");
  EXPECT_EQ(Difference("", "last_batch: LAST_BATCH_PAD"),
            "last_batch (LAST_BATCH_DROP then, LAST_BATCH_PAD now)");
  EXPECT_EQ(Difference("sources { dataset: 'a' }", "sources { dataset: 'b' }"),
            "sources (dataset: \"a\" then, dataset: \"b\" now)");
}

TEST(SpecDifference, NamesOfListsOnlyWhatTheOtherLacks) {
  const std::string flip = "transforms { horizontal_flip {} } ";
  const std::string decode = "transforms { decode_image {} } ";
  EXPECT_EQ(Difference(decode, decode + flip),
            "transforms (none then, horizontal_flip { } now)");
  EXPECT_EQ(Difference(decode + flip, flip + decode),
            "transforms (none then, another order now)");
  EXPECT_EQ(Difference("", "shuffle { mode: SEQUENTIAL }"),
            "shuffle (none then, mode: SEQUENTIAL now)");
}

TEST(SpecDifference, CutsLongTexts) {
  std::string many;
  for (int i = 0; i < 50; ++i) many += "transforms { horizontal_flip {} } ";
  const auto fields = DifferencesOf(Spec(""), Spec(many));
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_LT(fields[0].after.size(), 200u);
}

}  // namespace
}  // namespace millrace::audit
