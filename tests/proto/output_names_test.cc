#include "proto/output_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(OutputNames, ReplaceTheListAndKeepWhatItSaysOfAField) {
  PipelineSpec spec;
  ASSERT_TRUE(SelectOutputs("image, label", spec).ok());
  ASSERT_EQ(spec.outputs_size(), 2);
  EXPECT_EQ(spec.outputs(0).field(), "image");
  EXPECT_EQ(spec.outputs(1).field(), "label");

  spec.mutable_outputs(1)->set_name("y");
  spec.mutable_outputs(1)->set_dtype(DTYPE_INT64);
  ASSERT_TRUE(SelectOutputs("label,mask", spec).ok());
  ASSERT_EQ(spec.outputs_size(), 2);
  EXPECT_EQ(spec.outputs(0).name(), "y");
  EXPECT_EQ(spec.outputs(0).dtype(), DTYPE_INT64);
  EXPECT_EQ(spec.outputs(1).field(), "mask");

  ASSERT_TRUE(SelectOutputs("", spec).ok());
  EXPECT_EQ(spec.outputs_size(), 2);
}

TEST(OutputNames, MistakesSayWhatToWrite) {
  for (const char* names : {"image,", ",", "image,,label", "image,image"}) {
    PipelineSpec spec;
    const absl::Status status = SelectOutputs(names, spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << names;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("for example --outputs=image,label"));
    EXPECT_EQ(spec.outputs_size(), 0);
  }
}

}  // namespace
}  // namespace millrace
