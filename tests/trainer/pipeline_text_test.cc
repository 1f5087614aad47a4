#include "trainer/pipeline_text.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace::trainer {
namespace {

PipelineSpec Spec(const std::string& text) {
  PipelineSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

TEST(DifferenceOfPipelines, NamesWhatOneDoesAndTheOtherDoesNot) {
  EXPECT_EQ(
      DifferenceOfPipelines(
          Spec("transforms { decode_image {} } "
               "transforms { random_crop { height: 8 width: 8 } } "
               "transforms { horizontal_flip {} } "
               "transforms { normalize { mean: 0.5 stddev: 0.5 } } "
               "bad_samples { action: ZERO } batch_size: 8"),
          Spec("transforms { decode_image {} } "
               "transforms { center_crop { height: 8 width: 8 } } "
               "transforms { normalize { mean: 0.4 stddev: 0.5 } } "
               "batch_size: 4 shuffle { mode: SEQUENTIAL }")),
      "transforms (training alone has random_crop, horizontal_flip; evaluation "
      "alone has center_crop; normalize has other parameters), bad_samples "
      "(ZERO for training, FAIL for evaluation)");
}

TEST(DifferenceOfPipelines, IsEmptyForTheSameWork) {
  const std::string work =
      "transforms { decode_image {} } outputs { field: 'image' } ";
  EXPECT_EQ(
      DifferenceOfPipelines(Spec(work + "sources { dataset: 'a' } seed: 1"),
                            Spec(work + "sources { dataset: 'b' } compression: "
                                        "COMPRESSION_ZSTD")),
      "");
}

TEST(DifferenceOfPipelines, SeesOrderOutputsAndRoles) {
  EXPECT_EQ(DifferenceOfPipelines(Spec("transforms { horizontal_flip {} } "
                                       "transforms { vertical_flip {} } "
                                       "outputs { field: 'image' } "
                                       "field_roles { field: 'm' role: MASK }"),
                                  Spec("transforms { vertical_flip {} } "
                                       "transforms { horizontal_flip {} } "
                                       "outputs { field: 'mask' }")),
            "transforms (their order), outputs, field_roles");
}

TEST(DifferenceOfPipelines, CallsAnOperatorByItsName) {
  EXPECT_EQ(DifferenceOfPipelines(
                Spec("transforms { custom { name: 'rescale' } }"), Spec("")),
            "transforms (training alone has rescale)");
}

}  // namespace
}  // namespace millrace::trainer
