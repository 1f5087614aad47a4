// One precedence for the flags of all programs and the options of the C
// interface: a choice of the user, the pipeline's own value, a default.

#include "proto/spec_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/usage_error.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<std::string> NobodyAsks() {
  ADD_FAILURE() << "asks for the recommended preset";
  return "";
}

std::string WriteFile(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/choices.textproto";
  std::ofstream(path) << text;
  return path;
}

// Every choice differs from the value of this text.
constexpr char kFull[] =
    "sources { dataset: 'stored' } seed: 1 batch_size: 8 "
    "shuffle { mode: BLOCK block_size: 4 } last_batch: LAST_BATCH_PAD "
    "outputs { field: 'image' name: 'x' } outputs { field: 'label' } "
    "compression: COMPRESSION_ZSTD";

PipelineSpec Replaced(const SpecChoices& choices, PipelineSpec spec,
                      const SpecChoices::Names& names = {}) {
  const absl::Status status = choices.Replace(names, spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

TEST(SpecChoicesTest, StartsWithTheFileThenThePresetThenTheRecommendation) {
  SpecChoices choices;
  choices.pipeline = WriteFile("seed: 3");
  EXPECT_EQ(choices.Start(NobodyAsks)->ShortDebugString(), "seed: 3");
  choices.pipeline = "";
  choices.preset = "mnist";
  EXPECT_EQ(choices.Start(NobodyAsks)->ShortDebugString(), "preset: \"mnist\"");
  choices.preset = "";
  EXPECT_EQ(choices.Start([] { return "cifar_train"; })->preset(),
            "cifar_train");
  EXPECT_EQ(choices.Start([] { return ""; })->ShortDebugString(), "");
  EXPECT_TRUE(absl::IsUnavailable(
      choices.Start([] { return absl::UnavailableError("no server"); })
          .status()));
}

TEST(SpecChoicesTest, AFileThatIsNoPipelineIsAUsageErrorWithItsPlace) {
  SpecChoices choices;
  choices.pipeline = WriteFile("seed: 3\nsead: 4\n");
  const absl::Status wrong = choices.Start(NobodyAsks).status();
  EXPECT_TRUE(IsUsageError(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()),
              StartsWith(choices.pipeline + ":2:"));
  choices.pipeline = "/no/such/file";
  const absl::Status absent = choices.Start(NobodyAsks).status();
  EXPECT_TRUE(absl::IsNotFound(absent) && IsUsageError(absent)) << absent;
  EXPECT_THAT(std::string(absent.message()), HasSubstr("/no/such/file"));
}

TEST(SpecChoicesTest, WithoutChoicesThePipelineStays) {
  SpecChoices choices;
  choices.pipeline = WriteFile(kFull);
  const PipelineSpec spec = *choices.Start(NobodyAsks);
  EXPECT_EQ(Replaced(choices, spec).ShortDebugString(),
            spec.ShortDebugString());
}

TEST(SpecChoicesTest, EachChoiceReplacesThePipelinesValue) {
  SpecChoices choices;
  choices.pipeline = WriteFile(kFull);
  const PipelineSpec spec = *choices.Start(NobodyAsks);
  choices.dataset = "photos";
  choices.outputs = "label,image";
  choices.batch_size = 32;
  choices.seed = 0;
  choices.shuffle = "sequential";
  choices.last_batch = "drop";
  choices.compression = "none";
  PipelineSpec replaced = Replaced(choices, spec);
  EXPECT_EQ(replaced.sources(0).dataset(), "photos");
  ASSERT_EQ(replaced.outputs_size(), 2);
  EXPECT_EQ(replaced.outputs(0).field(), "label");
  EXPECT_EQ(replaced.outputs(1).name(), "x") << "an output keeps its name";
  EXPECT_EQ(replaced.batch_size(), 32u);
  EXPECT_EQ(replaced.seed(), 0u) << "0 is a seed";
  EXPECT_EQ(replaced.shuffle().mode(), Shuffle::SEQUENTIAL);
  EXPECT_EQ(replaced.shuffle().block_size(), 0u);
  EXPECT_EQ(replaced.last_batch(), LAST_BATCH_DROP);
  EXPECT_EQ(replaced.compression(), COMPRESSION_NONE);
  choices.shuffle = "global";
  choices.last_batch = "partial";
  choices.compression = "zstd";
  replaced = Replaced(choices, spec);
  EXPECT_EQ(replaced.shuffle().mode(), Shuffle::GLOBAL);
  EXPECT_EQ(replaced.last_batch(), LAST_BATCH_PARTIAL);
  EXPECT_EQ(replaced.compression(), COMPRESSION_ZSTD);
  choices.last_batch = "pad";
  EXPECT_EQ(Replaced(choices, spec).last_batch(), LAST_BATCH_PAD);
}

TEST(SpecChoicesTest, TheBatchSizeIsTheChoiceThenThePipelinesThenTheDefault) {
  PipelineSpec spec;
  EXPECT_EQ(Replaced({}, spec).batch_size(), kDefaultBatchSize);
  EXPECT_EQ(Replaced({}, spec, {.default_batch_size = 0}).batch_size(), 0u);
  spec.set_batch_size(8);
  EXPECT_EQ(Replaced({}, spec).batch_size(), 8u);
  SpecChoices choices;
  choices.batch_size = 9;
  EXPECT_EQ(Replaced(choices, spec).batch_size(), 9u);
}

TEST(SpecChoicesTest, ADatasetIsAddedOrReplacesTheOnlySource) {
  SpecChoices choices;
  EXPECT_TRUE(Replaced(choices, PipelineSpec()).sources().empty());
  choices.dataset = "photos";
  PipelineSpec spec = Replaced(choices, PipelineSpec());
  ASSERT_EQ(spec.sources_size(), 1);
  EXPECT_EQ(spec.sources(0).dataset(), "photos");
  spec.mutable_sources(0)->mutable_subset()->set_to(0.5);
  choices.dataset = "faces";
  spec = Replaced(choices, spec);
  EXPECT_EQ(spec.sources(0).dataset(), "faces");
  EXPECT_EQ(spec.sources(0).subset().to(), 0.5) << "the part stays";
  spec.add_sources()->set_dataset("more");
  const absl::Status status =
      choices.Replace({.prefix = "option ", .pipeline = "my.textproto"}, spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status) && IsUsageError(status));
  EXPECT_EQ(status.message(),
            "option dataset=faces cannot replace the 2 sources of "
            "my.textproto");
}

TEST(SpecChoicesTest, RefusesMalformedOutputs) {
  SpecChoices choices;
  choices.outputs = "image,image";
  PipelineSpec spec;
  const absl::Status status = choices.Replace({}, spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status) && IsUsageError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("names image twice"));
}

}  // namespace
}  // namespace millrace
