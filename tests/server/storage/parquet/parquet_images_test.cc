// JPEGs in a binary column of a foreign Parquet file: what `check` advises, and
// that the file that comes of it passes.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/data_tool/commands.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<arrow::Array> Photographs() {
  arrow::BinaryBuilder builder;
  for (int i = 0; i < 4; ++i) {
    const std::vector<uint8_t> jpeg = WriteJpeg(JpegKind(), i);
    EXPECT_TRUE(
        builder.Append(jpeg.data(), static_cast<int32_t>(jpeg.size())).ok());
  }
  return *builder.Finish();
}

class ParquetImagesTest : public ::testing::Test {
 protected:
  void Write(const std::string& column, std::shared_ptr<arrow::Array> array) {
    const auto table = arrow::Table::Make(
        arrow::schema({arrow::field(column, array->type())}), {array});
    const auto out =
        *arrow::io::FileOutputStream::Open(folder_ / "photos.parquet");
    ASSERT_TRUE(
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 4)
            .ok());
    ASSERT_TRUE(out->Close().ok());
  }

  // What `check` prints of a spec with this text.
  std::string Check(const std::string& text, int exit_code) {
    const std::string path = folder_ / "p.textproto";
    WriteFile(path, absl::StrCat("batch_size: 2 ", text));
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(data_tool::RunDataTool({"check",
                                      absl::StrCat("--dataset=parquet:",
                                                   folder_ / "photos.parquet"),
                                      path},
                                     std::cout),
              exit_code)
        << text;
    std::cout.flush();
    return ::testing::internal::GetCapturedStdout() +
           ::testing::internal::GetCapturedStderr();
  }

  TempFolder folder_;
};

constexpr char kAdvice[] =
    "the server reads encoded images from a Parquet column of binary values "
    "that is named image, or that is a struct with a binary child bytes";
constexpr char kDecodeImage[] =
    "transforms { decode_image {} } "
    "transforms { center_crop { height: 8 width: 8 } }";
constexpr char kDecodeJpeg[] =
    "transforms { decode_image { field: 'jpeg' } } "
    "transforms { center_crop { fields: 'jpeg' height: 8 width: 8 } }";

// "A column of fixed-size lists is served as a tensor", "write a pipeline file"
// and "is no image": none of them says how to serve JPEGs.
TEST_F(ParquetImagesTest, AnyOtherNameIsRefusedWithAdviceThatWorks) {
  Write("jpeg", Photographs());
  EXPECT_THAT(Check("", program::kExitFailed),
              HasSubstr("encoded images as a binary column named image or a "
                        "struct with a binary child bytes "
                        "(docs/formats.md#images-in-other-columns)"));
  EXPECT_THAT(Check("preset: 'imagenet_eval'", program::kExitFailed),
              AllOf(HasSubstr("its field jpeg contains bytes or strings; "),
                    HasSubstr(kAdvice)));
  EXPECT_THAT(
      Check(kDecodeJpeg, program::kExitFailed),
      AllOf(HasSubstr("field jpeg is not an image"), HasSubstr(kAdvice)));
  EXPECT_THAT(Check(kDecodeImage, program::kExitFailed),
              AllOf(HasSubstr("has no field \"image\"; its only field is jpeg; "
                              "its field jpeg contains bytes or strings; "),
                    HasSubstr(kAdvice)));
  // Both ways of docs/formats.md.
  Write("image", Photographs());
  Check("preset: 'imagenet_eval'", program::kExitOk);
  Write("jpeg", *arrow::StructArray::Make({Photographs()},
                                          std::vector<std::string>{"bytes"}));
  Check(kDecodeJpeg, program::kExitOk);
}

// It was told to be renamed to `image`.
TEST_F(ParquetImagesTest, AStringColumnOfTheRightNameIsToldItsType) {
  Write("image", *Photographs()->View(arrow::utf8()));
  for (const char* text : {"", "preset: 'imagenet_eval'", kDecodeImage}) {
    EXPECT_THAT(
        Check(text, program::kExitFailed),
        AllOf(HasSubstr("pa.binary() in pyarrow"), Not(HasSubstr("rename"))));
  }
}

TEST_F(ParquetImagesTest, APresetSaysHowToDecodeImagesOfAnotherName) {
  Write("jpeg", *arrow::StructArray::Make({Photographs()},
                                          std::vector<std::string>{"bytes"}));
  EXPECT_THAT(Check("preset: 'imagenet_eval'", program::kExitFailed),
              HasSubstr("write a pipeline file that begins with transforms { "
                        "decode_image { field: \"jpeg\" } }"));
}

}  // namespace
}  // namespace millrace::storage
