#include "server/storage/chunks/column_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/storage/chunks/raw_image.h"
#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ColumnDraft Draft(const std::string& name, ColumnKind kind,
                  StoredType stored = StoredType::kBytes) {
  ColumnDraft draft;
  draft.name = name;
  draft.kind = kind;
  draft.stored = stored;
  return draft;
}

ColumnDraft Image(const std::string& name) {
  return Draft(name, ColumnKind::kImage);
}
ColumnDraft Int(const std::string& name,
                StoredType stored = StoredType::kInt64) {
  return Draft(name, ColumnKind::kScalar, stored);
}
ColumnDraft Element(ColumnDraft draft) {
  draft.unnamed = true;
  return draft;
}

// The rule of a first record with `values`.
absl::StatusOr<std::unique_ptr<ColumnRule>> Choose(
    std::vector<ColumnDraft> drafts, const FormatOptions& options = {},
    std::vector<std::string> values = {}) {
  values.resize(drafts.size());
  return ChooseFields(std::move(drafts), options, SpanOf(SizedRecord(values)));
}

// "NAME KIND DTYPE [SHAPE]" of each field.
std::vector<std::string> FieldsOf(
    const absl::StatusOr<std::unique_ptr<ColumnRule>>& rule) {
  std::vector<std::string> fields;
  if (!rule.ok()) return {rule.status().ToString()};
  for (const Field& field : (*rule)->schema().fields()) {
    std::string text = field.name();
    switch (field.kind()) {
      case FIELD_KIND_ENCODED_IMAGE:
        absl::StrAppend(&text, " image");
        break;
      case FIELD_KIND_RAGGED:
        absl::StrAppend(&text, " ragged ", field.dtype());
        break;
      default:
        absl::StrAppend(&text, " ", field.dtype());
        for (const int64_t extent : field.shape()) {
          absl::StrAppend(&text, ",", extent);
        }
    }
    fields.push_back(text);
  }
  if ((*rule)->class_field() >= 0) {
    absl::StrAppend(&fields[(*rule)->class_field()], " class");
  }
  return fields;
}

TEST(ColumnChoiceTest, TheOnlyImageAndTheNamedIntegerAreImageAndLabel) {
  EXPECT_THAT(FieldsOf(Choose({Int("class"), Int("id"), Image("jpg")})),
              ElementsAre("image image", "label 4 class", "id 4"));
  for (const char* name : {"cls", "y", "target", "label"}) {
    EXPECT_THAT(FieldsOf(Choose({Int(name)})), ElementsAre("label 4 class"))
        << name;
  }
  EXPECT_THAT(FieldsOf(Choose({Int("number")})), ElementsAre("number 4"));
}

TEST(ColumnChoiceTest, AColumnWithTheNameComesFirst) {
  EXPECT_THAT(FieldsOf(Choose({Image("a"), Image("image"), Int("cls"),
                               Int("label", StoredType::kUint8)})),
              ElementsAre("image image", "label 4 class", "a image", "cls 4"));
  // A label that is text stays text, and no other column is the label.
  EXPECT_THAT(
      FieldsOf(Choose({Draft("label", ColumnKind::kBytes), Int("cls")})),
      ElementsAre("cls 4", "label ragged 1"));
}

TEST(ColumnChoiceTest, TwoCandidatesAreNone) {
  EXPECT_THAT(
      FieldsOf(Choose({Image("a"), Image("b"), Int("cls"), Int("target")})),
      ElementsAre("a image", "b image", "cls 4", "target 4"));
}

TEST(ColumnChoiceTest, ElementsOfTuplesNeedNoName) {
  EXPECT_THAT(FieldsOf(Choose({Element(Image("0")), Element(Int("1"))})),
              ElementsAre("image image", "label 4 class"));
  EXPECT_THAT(FieldsOf(Choose({Element(Int("0")), Element(Int("1"))})),
              ElementsAre("0 4", "1 4"));
}

TEST(ColumnChoiceTest, OptionsNameImageAndLabel) {
  EXPECT_THAT(FieldsOf(Choose({Image("a"), Draft("b", ColumnKind::kBytes),
                               Int("cls"), Int("other", StoredType::kUint16)},
                              {{"image", "b"}, {"label", "other"}})),
              ElementsAre("image image", "label 4 class", "a image", "cls 4"));
}

TEST(ColumnChoiceTest, AColumnWhoseNameIsTakenKeepsItsValues) {
  const auto rule = Choose({Image("image"), Int("label"), Int("fine"),
                            Draft("photo", ColumnKind::kBytes)},
                           {{"image", "photo"}, {"label", "fine"}});
  EXPECT_THAT(FieldsOf(rule),
              ElementsAre("image image", "label 4 class", "image_column image",
                          "label_column 4"));
  ASSERT_TRUE(rule.ok());
  for (const ChunkColumn& column : (*rule)->columns()) {
    const std::string& field = (*rule)->schema().fields(column.field).name();
    EXPECT_EQ(field, column.name == "photo"   ? "image"
                     : column.name == "fine"  ? "label"
                     : column.name == "image" ? "image_column"
                                              : "label_column");
  }
  // Names that columns have already, and text.
  EXPECT_THAT(
      FieldsOf(Choose({Draft("label", ColumnKind::kBytes), Int("label_column"),
                       Int("label_column2"), Int("m")},
                      {{"label", "m"}})),
      ElementsAre("label 4 class", "label_column 4", "label_column2 4",
                  "label_column3 ragged 1"));
  // No field has the name of the column.
  EXPECT_THAT(FieldsOf(Choose({Image("image"), Image("a")}, {{"image", ""}})),
              ElementsAre("a image", "image image"));
}

TEST(ColumnChoiceTest, AnEmptyOptionChoosesNoColumn) {
  EXPECT_THAT(FieldsOf(Choose({Int("y"), Image("a"), Int("label")},
                              {{"image", ""}, {"label", ""}})),
              ElementsAre("a image", "label 4", "y 4"));
}

TEST(ColumnChoiceTest, OptionsThatDoNotFitAreRefused) {
  const auto message = [](const FormatOptions& options) {
    const auto rule = Choose({Image("a"), Int("n"), Image("image")}, options);
    EXPECT_TRUE(absl::IsInvalidArgument(rule.status()));
    return std::string(rule.status().message());
  };
  EXPECT_EQ(message({{"image", "b"}}),
            "option image=b: there is no such column; there are a, n, image");
  EXPECT_EQ(message({{"image", "n"}}),
            "option image=n: the column holds no image");
  EXPECT_EQ(
      message({{"label", "a"}}),
      "option label=a: a label is one integer, and the column holds none");
  EXPECT_EQ(message({{"tensor", "a"}}),
            "option tensor=a: the column holds no array");
  EXPECT_THAT(message({{"ragged", "a,b"}}), HasSubstr("ragged=b"));
  EXPECT_THAT(CheckChunkOptions("mds", {{"images", "a"}}).message(),
              HasSubstr("mds: has no option 'images'"));
  EXPECT_FALSE(CheckChunkOptions("mds", {{"ragged", ""}}).ok());
  EXPECT_TRUE(CheckChunkOptions("mds", {{"image", ""}, {"label", ""}}).ok());
  EXPECT_TRUE(CheckChunkOptions("mds", {{"image", "a"}, {"tensor", "b"}}).ok());
}

TEST(ColumnChoiceTest, NumbersHaveTheTypesOfParquet) {
  EXPECT_THAT(
      FieldsOf(Choose(
          {Int("a", StoredType::kUint16), Int("b", StoredType::kUint64),
           Int("c", StoredType::kFloatText), Int("d", StoredType::kBool)})),
      ElementsAre("a 3", "b 4", "c 6", "d 2"));
}

TEST(ColumnChoiceTest, PlainArraysAreRaggedUnlessTheyAreNamedTensors) {
  const auto draft = [] {
    return Draft("x", ColumnKind::kPlainArray, StoredType::kFloat32);
  };
  EXPECT_THAT(FieldsOf(Choose({draft()})), ElementsAre("x ragged 5"));
  EXPECT_THAT(FieldsOf(Choose({draft()}, {{"ragged", "x"}})),
              ElementsAre("x ragged 5"));
  EXPECT_THAT(
      FieldsOf(Choose({draft()}, {{"tensor", "x"}}, {std::string(12, 'x')})),
      ElementsAre("x 5,3"));
  EXPECT_THAT(Choose({draft()}, {{"tensor", "x"}}, {"123"}).status().message(),
              HasSubstr("the first sample has 3 bytes"));
  EXPECT_FALSE(Choose({draft()}, {{"tensor", "x"}}, {""}).ok());
  const auto tensor =
      Choose({draft()}, {{"tensor", "x"}}, {std::string(12, 'x')});
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  RecordFields fields(1);
  EXPECT_EQ((*tensor)
                ->Split(SpanOf(SizedRecord({std::string(8, 'x')})), {}, &fields)
                .message(),
            "field 'x': the value has 8 bytes, not the 12 of its type and "
            "shape; for arrays of different lengths, write ragged=x in the "
            "place of tensor=x in the URI");
  // No RAGGED field has elements of uint32.
  EXPECT_THAT(FieldsOf(Choose(
                  {Draft("x", ColumnKind::kPlainArray, StoredType::kUint32)})),
              ElementsAre("x ragged 1"));
}

std::string Raw(uint32_t width, uint32_t height, const std::string& mode,
                size_t pixels) {
  return RawBytes(width) + RawBytes(height) +
         RawBytes(static_cast<uint32_t>(mode.size())) + mode +
         std::string(pixels, 'p');
}

TEST(ColumnChoiceTest, ArraysWithHeadersHaveTheShapeOfTheFirstSample) {
  const auto draft = [] {
    ColumnDraft draft = Draft("x", ColumnKind::kHeaderArray);
    draft.parse_header = ParseRawImage;
    return draft;
  };
  const std::string value = Raw(4, 2, "RGB", 24);
  const auto rule = Choose({draft()}, {}, {value});
  EXPECT_THAT(FieldsOf(rule), ElementsAre("x 1,2,4,3"));
  RecordFields fields(1);
  ASSERT_TRUE((*rule)->Split(SpanOf(SizedRecord({value})), {}, &fields).ok());
  EXPECT_EQ(fields.all()[0].size(), 24u);
  EXPECT_THAT(
      (*rule)
          ->Split(SpanOf(SizedRecord({Raw(2, 4, "RGB", 24)})), {}, &fields)
          .message(),
      HasSubstr("type or shape differ"));
  EXPECT_THAT(
      (*rule)
          ->Split(SpanOf(SizedRecord({Raw(4, 2, "RGB", 23)})), {}, &fields)
          .message(),
      HasSubstr("the value has 23 bytes, not the 24"));
  EXPECT_THAT(FieldsOf(Choose({draft()}, {{"tensor", "x"}}, {value})),
              ElementsAre("x 1,2,4,3"));
  // As an image it is pixels, not a file.
  EXPECT_THAT(FieldsOf(Choose({draft()}, {{"image", "x"}}, {value})),
              ElementsAre("image 1,2,4,3"));

  EXPECT_THAT(FieldsOf(Choose({draft()}, {{"ragged", "x"}}, {value})),
              ElementsAre("x ragged 1"));
  // No shape of a field: one bit a pixel, no pixel, too many.
  for (const std::string& other : {Raw(4, 2, "1", 2), Raw(0, 2, "L", 0),
                                   Raw(1u << 31, 1u << 31, "L", 9)}) {
    EXPECT_THAT(FieldsOf(Choose({draft()}, {}, {other})),
                ElementsAre("x ragged 1"));
  }
  EXPECT_THAT(Choose({draft()}, {}, {"short"}).status().message(),
              HasSubstr("field 'x': the raw image has 5 bytes"));
  EXPECT_TRUE(absl::IsDataLoss(
      Choose({draft()}, {}, {Raw(4, 2, "RGB", 0).substr(0, 14)}).status()));
}

TEST(ColumnChoiceTest, AFirstRecordOfOtherColumnsIsDamaged) {
  const auto rule = ChooseFields({Image("a"), Int("n")}, {}, SpanOf("short"));
  EXPECT_TRUE(absl::IsDataLoss(rule.status()));
}

TEST(RawImageTest, ModesHaveTheirTypes) {
  const struct {
    const char* mode;
    StoredType stored;
    std::vector<int64_t> shape;
  } cases[] = {{"L", StoredType::kUint8, {2, 4}},
               {"RGBA", StoredType::kUint8, {2, 4, 4}},
               {"I", StoredType::kInt32, {2, 4}},
               {"F", StoredType::kFloat32, {2, 4}},
               {"I;16", StoredType::kUint16, {2, 4}}};
  for (const auto& [mode, stored, shape] : cases) {
    const auto header = ParseRawImage(SpanOf(Raw(4, 2, mode, 0)));
    ASSERT_TRUE(header.ok() && header->has_value()) << mode;
    EXPECT_EQ((*header)->stored, stored) << mode;
    EXPECT_EQ((*header)->shape, shape) << mode;
    EXPECT_EQ((*header)->bytes, 12 + std::string(mode).size()) << mode;
  }
}

}  // namespace
}  // namespace millrace::storage
