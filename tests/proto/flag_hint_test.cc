#include "proto/flag_hint.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// "(as a flag: --outputs=label)" was printed by programs without that flag.
TEST(FlagHint, AFlagIsNamedByTheProgramsThatHaveIt) {
  const std::string outputs = absl::StrCat(
      "field x is missing. To do without, ", ListOutputs({"image", "label"}));
  EXPECT_EQ(outputs,
            "field x is missing. To do without, list the outputs: outputs { "
            "field: \"image\" } outputs { field: \"label\" }");
  absl::Status status = absl::InvalidArgumentError(outputs);
  status.SetPayload("url", absl::Cord("kept"));
  EXPECT_EQ(WithOwnFlag(status, {}), status);
  EXPECT_EQ(WithOwnFlag(status, {"last_batch"}), status);
  const absl::Status named = WithOwnFlag(status, {"last_batch", "outputs"});
  EXPECT_EQ(named.code(), status.code());
  EXPECT_EQ(std::string(named.message()),
            absl::StrCat(outputs, " (as a flag: --outputs=image,label)"));
  EXPECT_EQ(named.GetPayload("url"), absl::Cord("kept"));

  const absl::Status batch = absl::InvalidArgumentError(
      absl::StrCat("take a smaller batch_size, or ", kPadLastBatch));
  EXPECT_EQ(WithOwnFlag(batch, {"outputs"}), batch);
  EXPECT_EQ(std::string(WithOwnFlag(batch, {"last_batch"}).message()),
            absl::StrCat(batch.message(), " (as a flag: --last_batch=pad)"));
  const absl::Status drop =
      absl::InvalidArgumentError(absl::StrCat("use ", kDropLastBatch));
  EXPECT_EQ(std::string(WithOwnFlag(drop, {"last_batch"}).message()),
            absl::StrCat(drop.message(), " (as a flag: --last_batch=drop)"));
}

// `--outputs=a b` was advised without quotes, and names with a comma, a line
// end or a quote were, too.
TEST(FlagHint, ANameThatTheFlagCannotTakeIsNotAdvised) {
  const auto flag_of = [](const std::vector<absl::string_view>& fields) {
    const std::string list = ListOutputs(fields);
    const std::string named(
        WithOwnFlag(absl::InvalidArgumentError(list), {"outputs"}).message());
    return named.substr(list.size());
  };
  EXPECT_EQ(flag_of({"a-b", "größe"}), " (as a flag: --outputs=a-b,größe)");
  EXPECT_EQ(flag_of({"a b", "$x"}), " (as a flag: --outputs='a b,$x')");
  for (const char* name :
       {"a,b", "a\nb", "a\033[31m", "it's", " a", "a\\b", "say \"x\" }", ""}) {
    EXPECT_EQ(flag_of({name, "label"}), "") << name;
  }
  EXPECT_EQ(ListOutputs({"a\n\"b\""}),
            "list the outputs: outputs { field: \"a\\n\\\"b\\\"\" }");
}

// One that was cut on its way would be another flag.
TEST(FlagHint, WhatDoesNotEndSoHasNoFlag) {
  EXPECT_TRUE(WithOwnFlag(absl::OkStatus(), {"outputs"}).ok());
  for (const char* text :
       {"list the outputs:", "list the outputs: outputs { field: \"a",
        "list the outputs: outputs { field: \"a\" } out ... (cut)",
        "list the outputs", "last_batch: LAST_BATCH_PAD is what it says"}) {
    const absl::Status status = absl::InvalidArgumentError(text);
    EXPECT_EQ(WithOwnFlag(status, {"outputs", "last_batch"}), status);
  }
}

}  // namespace
}  // namespace millrace
