// What is special to Parquet: the schema that other programs see, and the
// files of other programs, written here by Arrow as they write them.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/io_util.h>
#include <arrow/util/key_value_metadata.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/error_detail.h"
#include "server/storage/columns/arrow_error.h"
#include "server/storage/columns/column_map.h"
#include "server/storage/open.h"
#include "server/storage/parquet/foreign_fingerprint.h"
#include "server/storage/parquet/parquet_file.h"
#include "server/storage/parquet/parquet_writer.h"
#include "server/storage/parquet/row_group.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// A JSON list of rows as an array.
std::shared_ptr<arrow::Array> Binary(std::vector<const char*> values,
                                     bool text = false) {
  arrow::BinaryBuilder binary;
  arrow::StringBuilder utf8;
  arrow::BinaryBuilder& builder = text ? utf8 : binary;
  for (const char* value : values) {
    EXPECT_TRUE((value == nullptr ? builder.AppendNull()
                                  : builder.Append(value, strlen(value)))
                    .ok());
  }
  return *builder.Finish();
}

template <typename Builder, typename T>
std::shared_ptr<arrow::Array> Numbers(std::vector<T> values) {
  Builder builder;
  EXPECT_TRUE(builder.AppendValues(values).ok());
  return *builder.Finish();
}

std::shared_ptr<arrow::Array> Int64(std::vector<int64_t> values) {
  return Numbers<arrow::Int64Builder>(std::move(values));
}

std::shared_ptr<arrow::Array> Images(std::vector<const char*> values) {
  std::vector<const char*> paths(values.size(), "a.jpg");
  return *arrow::StructArray::Make(
      {Binary(values), Binary(paths, /*text=*/true)},
      std::vector<std::string>{"bytes", "path"});
}

struct NamedArray {
  std::string name;
  std::shared_ptr<arrow::Array> array;
};

void WriteParquet(const std::string& path, std::vector<NamedArray> columns,
                  const std::string& features = "", int64_t group_rows = 2,
                  std::shared_ptr<parquet::WriterProperties> properties =
                      parquet::default_writer_properties()) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const NamedArray& column : columns) {
    fields.push_back(arrow::field(column.name, column.array->type()));
    arrays.push_back(column.array);
  }
  auto schema = arrow::schema(fields);
  if (!features.empty()) {
    schema = schema->WithMetadata(
        arrow::key_value_metadata({"huggingface"}, {features}));
  }
  const auto file = *arrow::io::FileOutputStream::Open(path);
  const arrow::Status status = parquet::arrow::WriteTable(
      *arrow::Table::Make(schema, arrays), arrow::default_memory_pool(), file,
      group_rows, std::move(properties),
      parquet::ArrowWriterProperties::Builder().store_schema()->build());
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(file->Close().ok());
}

constexpr char kCatDog[] =
    R"({"info": {"features": {"image": {"_type": "Image"}, )"
    R"("label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}})";

class ParquetSourceTest : public ::testing::Test {
 protected:
  std::string Uri(absl::string_view name) const {
    return absl::StrCat("parquet:", folder_ / name);
  }
  absl::StatusOr<std::unique_ptr<RecordSource>> Open(absl::string_view name) {
    return OpenRecordSource(Uri(name), {});
  }
  absl::Status Read(absl::string_view name, int64_t index) {
    const auto source = Open(name);
    if (!source.ok()) return source.status();
    const auto reader = (*source)->NewReader();
    return (*reader)->Read(
        index, [](const EncodedSample&) { return absl::OkStatus(); });
  }
  TempFolder folder_;
};

TEST_F(ParquetSourceTest, PackedFilesHaveTheSchemaThatDatasetsWrites) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(150), ImageSamples(150)).ok());
  const auto reader =
      *parquet::arrow::OpenFile(*arrow::io::ReadableFile::Open(folder_ / "d"),
                                arrow::default_memory_pool());
  std::shared_ptr<arrow::Schema> schema;
  ASSERT_TRUE(reader->GetSchema(&schema).ok());
  ASSERT_EQ(schema->num_fields(), 2);
  EXPECT_EQ(schema->field(0)->name(), "image");
  EXPECT_TRUE(schema->field(0)->type()->Equals(
      arrow::struct_({arrow::field("bytes", arrow::binary()),
                      arrow::field("path", arrow::utf8())})))
      << schema->field(0)->type()->ToString();
  EXPECT_TRUE(schema->field(0)->nullable());
  EXPECT_EQ(schema->field(1)->name(), "label");
  EXPECT_TRUE(schema->field(1)->type()->Equals(arrow::int64()));
  // In the Arrow schema, where `datasets` looks, and beside it.
  const std::string features =
      R"({"info": {"features": {"image": {"_type": "Image"}, "label": )"
      R"({"names": ["cat", "dog", "eel \"x\""], "_type": "ClassLabel"}}}})";
  EXPECT_EQ(schema->metadata()->Get("huggingface").ValueOrDie(), features);
  const auto metadata = reader->parquet_reader()->metadata();
  EXPECT_EQ(metadata->key_value_metadata()->Get("huggingface").ValueOrDie(),
            features);
  EXPECT_TRUE(metadata->key_value_metadata()->Contains("ARROW:schema"));
  EXPECT_TRUE(metadata->key_value_metadata()->Contains("millrace"));

  const auto table = *reader->ReadTable();
  const auto& images =
      static_cast<const arrow::StructArray&>(*table->column(0)->chunk(0));
  EXPECT_EQ(static_cast<const arrow::BinaryArray&>(*images.field(0)).GetView(7),
            ImageSamples(8)[7][0]);
  EXPECT_EQ(static_cast<const arrow::StringArray&>(*images.field(1)).GetView(7),
            "f/7.jpg");
}

TEST_F(ParquetSourceTest, RowGroupsAreSmall) {
  DatasetInfo info = ImageDataset(70);
  Samples samples;
  for (int i = 0; i < 70; ++i) {
    // One of ten megabytes, some of almost one, many small ones.
    const size_t size = i == 3 ? 10 << 20 : i > 60 ? 900 << 10 : 100;
    samples.push_back({std::string(size, 'x'), Scalar<int64_t>(0)});
  }
  ASSERT_TRUE(Pack(Uri("d"), info, samples).ok());
  const auto file = parquet::ParquetFileReader::OpenFile(folder_ / "d");
  std::vector<int64_t> rows;
  for (int i = 0; i < file->metadata()->num_row_groups(); ++i) {
    const auto group = file->metadata()->RowGroup(i);
    rows.push_back(group->num_rows());
    EXPECT_LE(group->num_rows(), kMaxRowGroupRows);
    if (group->num_rows() > 1) {
      EXPECT_LE(group->total_byte_size(), kMaxRowGroupBytes + (64 << 10));
    }
    // Images are stored as they are.
    EXPECT_EQ(group->ColumnChunk(0)->compression(),
              parquet::Compression::UNCOMPRESSED);
    EXPECT_FALSE(group->ColumnChunk(0)->has_dictionary_page());
  }
  // The large one stands alone; 2 MiB hold two of 900 KiB and the small ones.
  EXPECT_THAT(rows, ElementsAre(3, 1, 59, 2, 2, 2, 1));
}

TEST_F(ParquetSourceTest, HuggingFaceFilesAreImagesAndClasses) {
  WriteParquet(
      folder_ / "d",
      {{"image", Images({"aa", "b", ""})}, {"label", Int64({1, 0, 1})}},
      kCatDog);
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  // As for a folder of the same images.
  EXPECT_EQ((*source)->info().train_preset(), "imagenet_train");
  EXPECT_EQ((*source)->info().eval_preset(), "imagenet_eval");
  const Schema& schema = (*source)->info().schema();
  EXPECT_EQ(schema.fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_EQ(schema.fields(1).num_classes(), 2);
  EXPECT_THAT(schema.fields(1).class_names(), ElementsAre("cat", "dog"));
  const auto read = ReadAll(**source);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, (Samples{{"aa", Scalar<int64_t>(1)},
                            {"b", Scalar<int64_t>(0)},
                            {"", Scalar<int64_t>(1)}}));
}

// "its type dictionary<...> cannot become a field", without an action.
TEST(WhyLeftOut, SaysWhatToWriteInstead) {
  const auto why = [](std::shared_ptr<arrow::DataType> type) {
    return WhyLeftOut(*arrow::field("label", std::move(type)));
  };
  EXPECT_THAT(why(arrow::dictionary(arrow::int32(), arrow::utf8())),
              EndsWith("cannot become a field: write class names as int64 "
                       "class numbers "
                       "(docs/formats.md#labels-in-other-columns)"));
  EXPECT_THAT(why(arrow::dictionary(arrow::int8(), arrow::float32())),
              EndsWith(": write the column as float without a dictionary"));
  EXPECT_THAT(why(arrow::date32()),
              EndsWith("cannot become a field: write the column as int64"));
  EXPECT_THAT(why(arrow::decimal128(9, 2)),
              EndsWith(": write the column as float64"));
  EXPECT_THAT(why(arrow::list(arrow::utf8())),
              EndsWith("cannot become a field"));
}

TEST_F(ParquetSourceTest, EveryKindOfColumnIsMappedOrLeftOut) {
  const auto list_values = Numbers<arrow::Int32Builder, int32_t>({1, 2, 3, 4});
  const auto fixed = *arrow::FixedSizeListArray::FromArrays(list_values, 2);
  const auto lists = *arrow::ListArray::FromArrays(
      *Numbers<arrow::Int32Builder, int32_t>({0, 3, 4}), *list_values);
  const auto unreadable = *arrow::ListArray::FromArrays(
      *Numbers<arrow::Int32Builder, int32_t>({0, 1, 2}), *Binary({"a", "b"}));
  WriteParquet(
      folder_ / "d",
      {{"image", Binary({"i", "j"})},
       {"payload", Binary({"p", "qq"})},
       {"text", Binary({"t", ""}, /*text=*/true)},
       {"bool", Numbers<arrow::BooleanBuilder, bool>({true, false})},
       {"i8", Numbers<arrow::Int8Builder, int8_t>({-1, 2})},
       {"u16", Numbers<arrow::UInt16Builder, uint16_t>({65535, 2})},
       {"u32", Numbers<arrow::UInt32Builder, uint32_t>({4294967295u, 2})},
       {"f32", Numbers<arrow::FloatBuilder, float>({1.5f, 2})},
       {"u64", Numbers<arrow::UInt64Builder, uint64_t>({1, 2})},
       {"fixed", fixed},
       {"lists", lists},
       {"unreadable", unreadable},
       {"label", Numbers<arrow::UInt8Builder, uint8_t>({1, 0})}},
      kCatDog);
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->info().left_out_size(), 2);
  EXPECT_EQ((*source)->info().left_out(0).name(), "u64");
  EXPECT_THAT((*source)->info().left_out(0).reason(), HasSubstr("int64"));
  EXPECT_EQ((*source)->info().left_out(1).name(), "unreadable");
  EXPECT_THAT((*source)->info().left_out(1).reason(), HasSubstr("list<"));
  std::vector<std::string> names;
  for (const Field& field : (*source)->info().schema().fields()) {
    names.push_back(absl::StrCat(
        field.name(), " ", FieldKind_Name(field.kind()).substr(11), " ",
        DType_Name(field.dtype()).substr(6), " ", field.shape_size()));
  }
  EXPECT_THAT(names,
              ElementsAre("image ENCODED_IMAGE UNSPECIFIED 0",
                          "payload RAGGED UINT8 0", "text RAGGED UINT8 0",
                          "bool TENSOR BOOL 0", "i8 TENSOR INT32 0",
                          "u16 TENSOR INT32 0", "u32 TENSOR INT64 0",
                          "f32 TENSOR FLOAT32 0", "fixed TENSOR INT32 1",
                          "lists RAGGED INT32 0", "label TENSOR INT64 0"));
  const auto read = ReadAll(**source);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto ints = [](std::vector<int32_t> values) {
    std::string bytes;
    for (int32_t value : values) bytes += Scalar(value);
    return bytes;
  };
  EXPECT_EQ(*read,
            (Samples{{"i", "p", "t", Scalar<uint8_t>(1), ints({-1}),
                      ints({65535}), Scalar<int64_t>(4294967295), Scalar(1.5f),
                      ints({1, 2}), ints({1, 2, 3}), Scalar<int64_t>(1)},
                     {"j", "qq", "", Scalar<uint8_t>(0), ints({2}), ints({2}),
                      Scalar<int64_t>(2), Scalar(2.0f), ints({3, 4}), ints({4}),
                      Scalar<int64_t>(0)}}));
}

// `values` in lists of sizes.back() of lists of ... sizes.front().
std::shared_ptr<arrow::Array> Nest(std::shared_ptr<arrow::Array> values,
                                   std::vector<int32_t> sizes) {
  for (; !sizes.empty(); sizes.pop_back()) {
    values = *arrow::FixedSizeListArray::FromArrays(values, sizes.back());
  }
  return values;
}

template <typename Builder, typename T>
std::shared_ptr<arrow::Array> CountUp(int count, T first = 0) {
  std::vector<T> values(count);
  for (T& value : values) value = first++;
  return Numbers<Builder>(std::move(values));
}

template <typename T>
std::string CountedBytes(int count, T first) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += Scalar<T>(first++);
  return bytes;
}

// Boxes are [K, 4], raw masks [H, W, 1].
TEST_F(ParquetSourceTest, FixedSizeListsInEachOtherAreTensors) {
  const auto bools = Numbers<arrow::BooleanBuilder, bool>(
      {true, false, false, true, false, true, true, true, true, false, false,
       false, true, true, false, true, false, false});
  const auto ends = Numbers<arrow::Int32Builder, int32_t>({0, 2, 4, 6});
  WriteParquet(
      folder_ / "d",
      {{"boxes", Nest(CountUp<arrow::FloatBuilder, float>(24), {2, 4})},
       {"mask", Nest(CountUp<arrow::UInt8Builder, uint8_t>(18), {2, 3, 1})},
       {"four", Nest(CountUp<arrow::Int64Builder, int64_t>(24), {2, 1, 2, 2})},
       {"bools", Nest(bools, {3, 2})},
       {"five",
        Nest(CountUp<arrow::Int64Builder, int64_t>(3), {1, 1, 1, 1, 1})},
       {"i16", Nest(CountUp<arrow::Int16Builder, int16_t>(12), {2, 2})},
       {"ragged",
        *arrow::ListArray::FromArrays(
            *ends, *Nest(CountUp<arrow::FloatBuilder, float>(24), {4}))}});
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::string> fields;
  for (const Field& field : (*source)->info().schema().fields()) {
    EXPECT_EQ(field.kind(), FIELD_KIND_TENSOR);
    fields.push_back(absl::StrCat(field.name(), " ",
                                  DType_Name(field.dtype()).substr(6), " ",
                                  absl::StrJoin(field.shape(), "x")));
  }
  EXPECT_THAT(fields, ElementsAre("boxes FLOAT32 2x4", "mask UINT8 2x3x1",
                                  "four INT64 2x1x2x2", "bools BOOL 3x2"));
  const auto read = ReadAll(**source);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 3u);  // in two row groups
  const std::string bits[] = {std::string("\1\0\0\1\0\1", 6),
                              std::string("\1\1\1\0\0\0", 6),
                              std::string("\1\1\0\1\0\0", 6)};
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ((*read)[row],
              (std::vector<std::string>{
                  CountedBytes<float>(8, 8 * row),
                  CountedBytes<uint8_t>(6, static_cast<uint8_t>(6 * row)),
                  CountedBytes<int64_t>(8, 8 * row), bits[row]}));
  }
}

TEST_F(ParquetSourceTest, ANullInsideListsInEachOtherIsAnErrorOfItsRow) {
  arrow::FloatBuilder elements;
  ASSERT_TRUE(elements.AppendValues({1, 2, 3, 4, 5}).ok());
  ASSERT_TRUE(elements.AppendNull().ok());
  ASSERT_TRUE(elements.AppendValues({7, 8, 9, 10, 11, 12}).ok());
  WriteParquet(folder_ / "d", {{"boxes", Nest(*elements.Finish(), {2, 2})}}, "",
               /*group_rows=*/3);
  EXPECT_TRUE(Read("d", 0).ok());
  const absl::Status status = Read("d", 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'boxes' has a null"));
  EXPECT_TRUE(Read("d", 2).ok());
}

TEST_F(ParquetSourceTest, AListThatIsNullInsideOfAnotherIsAnErrorOfItsRow) {
  arrow::TypedBufferBuilder<bool> valid;
  for (bool bit : {true, true, true, false})
    ASSERT_TRUE(valid.Append(bit).ok());
  const auto rows = *arrow::FixedSizeListArray::FromArrays(
      CountUp<arrow::FloatBuilder, float>(8), 2, *valid.Finish());
  WriteParquet(folder_ / "d", {{"boxes", Nest(rows, {2})}});
  EXPECT_TRUE(Read("d", 0).ok());
  const absl::Status status = Read("d", 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'boxes' has a null"));
}

// Row `row` of `array`, as a row group hands it out.
absl::StatusOr<std::string> RowOf(std::shared_ptr<arrow::Array> array,
                                  DType dtype, int64_t row) {
  RowGroup group(array->length(), std::make_shared<BoundedPool>(0, nullptr));
  absl::Status status = group.Add(
      /*field=*/0, {array},
      {.name = "x", .form = ColumnForm::kFixedList, .dtype = dtype});
  if (!status.ok()) return status;
  absl::Span<const uint8_t> view;
  status = group.Row(row, absl::MakeSpan(&view, 1));
  if (!status.ok()) return status;
  return std::string(view.begin(), view.end());
}

TEST(RowGroup, ListsInEachOtherMayBeSlicesAtEveryDepth) {
  const auto flat = CountUp<arrow::Int32Builder, int32_t>(43)->Slice(3);
  const auto inner = Nest(flat, {2})->Slice(2);  // 7 8, 9 10, ...
  const auto outer = Nest(inner, {3})->Slice(1, 4);
  for (int row = 0; row < 4; ++row) {
    EXPECT_EQ(*RowOf(outer, DTYPE_INT32, row),
              CountedBytes<int32_t>(6, 13 + 6 * row));
  }
}

TEST(RowGroup, FindsNullsAtEveryDepthOfSlices) {
  const auto nulls_at = [](int count, int null) {
    arrow::TypedBufferBuilder<bool> bits;
    for (int i = 0; i < count; ++i) EXPECT_TRUE(bits.Append(i != null).ok());
    return *bits.Finish();
  };
  for (int depth = 0; depth < 3; ++depth) {
    // 5 rows of 3 of 2, the null in the fourth of them.
    auto array = arrow::MakeArray(arrow::ArrayData::Make(
        arrow::int32(), 30,
        {depth == 0 ? nulls_at(30, 20) : nullptr,
         CountUp<arrow::Int32Builder, int32_t>(30)->data()->buffers[1]}));
    array = *arrow::FixedSizeListArray::FromArrays(
        array, 2, depth == 1 ? nulls_at(15, 11) : nullptr);
    array = *arrow::FixedSizeListArray::FromArrays(
        array, 3, depth == 2 ? nulls_at(5, 3) : nullptr);
    array = array->Slice(1);
    for (int row = 0; row < 4; ++row) {
      const auto read = RowOf(array, DTYPE_INT32, row);
      if (row == 2) {
        EXPECT_TRUE(absl::IsDataLoss(read.status())) << depth;
      } else {
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ(*read, CountedBytes<int32_t>(6, 6 + 6 * row));
      }
    }
  }
}

TEST_F(ParquetSourceTest, NothingReadableIsRefused) {
  WriteParquet(folder_ / "d",
               {{"u64", Numbers<arrow::UInt64Builder, uint64_t>({1, 2})}});
  const absl::Status status = Open("d").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("u64"));
}

TEST_F(ParquetSourceTest, AFileWithoutRowsIsRefused) {
  WriteParquet(folder_ / "d", {{"label", Int64({})}});
  EXPECT_TRUE(absl::IsInvalidArgument(Open("d").status()));
}

TEST_F(ParquetSourceTest, NullsAndWrongClassesNameShardAndRow) {
  std::filesystem::create_directory(folder_ / "d");
  WriteParquet(folder_ / "d/a.parquet",
               {{"image", Images({"x", "y"})}, {"label", Int64({0, 1})}},
               kCatDog);
  WriteParquet(folder_ / "d/b.parquet",
               {{"image", Images({"x", nullptr, "z", "u"})},
                {"label", Int64({0, 1, 2, -1})}},
               kCatDog);
  EXPECT_TRUE(Read("d", 2).ok());
  for (int64_t index : {3, 4, 5}) {
    const absl::Status status = Read("d", index);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(GetErrorDetail(status).shard(), "b.parquet");
    EXPECT_EQ(GetErrorDetail(status).row(), index - 2);
    EXPECT_EQ(GetErrorDetail(status).sample(), index);
  }
  EXPECT_THAT(std::string(Read("d", 3).message()), HasSubstr("no image bytes"));
  EXPECT_THAT(std::string(Read("d", 4).message()), HasSubstr("class 2"));
  EXPECT_THAT(std::string(Read("d", 5).message()), HasSubstr("class -1"));
}

TEST_F(ParquetSourceTest, NullsInNumbersAndListsAreErrorsOfTheirRows) {
  arrow::Int64Builder scalars;
  ASSERT_TRUE(scalars.AppendValues({1, 2, 3}).ok());
  ASSERT_TRUE(scalars.AppendNull().ok());
  arrow::Int32Builder elements;
  ASSERT_TRUE(elements.AppendValues({1, 2, 3}).ok());
  ASSERT_TRUE(elements.AppendNull().ok());
  const std::shared_ptr<arrow::Array> values = *elements.Finish();
  const auto lists = *arrow::ListArray::FromArrays(
      *Numbers<arrow::Int32Builder, int32_t>({0, 1, 2, 4, 4}), *values);
  WriteParquet(folder_ / "d", {{"x", *scalars.Finish()}, {"lists", lists}}, "",
               /*group_rows=*/4);
  EXPECT_TRUE(Read("d", 0).ok());
  EXPECT_TRUE(Read("d", 1).ok());
  EXPECT_THAT(std::string(Read("d", 2).message()), HasSubstr("'lists'"));
  EXPECT_THAT(std::string(Read("d", 3).message()), HasSubstr("'x'"));
}

TEST_F(ParquetSourceTest, ForeignShardsAreReadInTheOrderOfTheirNames) {
  std::filesystem::create_directory(folder_ / "d");
  WriteParquet(folder_ / "d/10.parquet", {{"x", Int64({3, 4})}});
  WriteParquet(folder_ / "d/1.parquet", {{"x", Int64({1, 2})}});
  WriteParquet(folder_ / "d/2.parquet", {{"x", Int64({5})}});
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  const auto read = ReadAll(**source);
  // Bytewise: "1.parquet" < "10.parquet" < "2.parquet".
  EXPECT_EQ(*read, (Samples{{Scalar<int64_t>(1)},
                            {Scalar<int64_t>(2)},
                            {Scalar<int64_t>(3)},
                            {Scalar<int64_t>(4)},
                            {Scalar<int64_t>(5)}}));
  // Copies of the files are the same dataset, wherever they lie.
  std::filesystem::copy(folder_ / "d", folder_ / "copy");
  EXPECT_EQ((*Open("copy"))->info().fingerprint(),
            (*source)->info().fingerprint());
  WriteParquet(folder_ / "copy/2.parquet", {{"x", Int64({6})}});
  EXPECT_NE((*Open("copy"))->info().fingerprint(),
            (*source)->info().fingerprint());
}

TEST_F(ParquetSourceTest, ColumnsOfOneNameAreLeftOutAndNamed) {
  WriteParquet(folder_ / "d",
               {{"x", Int64({1})}, {"y", Int64({1})}, {"x", Int64({2})}});
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().schema().fields_size(), 1);
  ASSERT_EQ((*source)->info().left_out_size(), 2);
  EXPECT_EQ((*source)->info().left_out(0).name(), "x");
  EXPECT_THAT((*source)->info().left_out(0).reason(),
              HasSubstr("2 columns have this name"));
}

// Protobuf refuses to read strings that are not UTF-8.
TEST_F(ParquetSourceTest, NamesThatAreNotUtf8AreEscaped) {
  WriteParquet(folder_ / "d\xff.parquet",
               {{"x", Int64({1})}, {"caf\xe9", Int64({2})}});
  ASSERT_TRUE(
      Pack(Uri("p"), ImageDataset(4), ImageSamples(4), {.shards = 1}).ok());
  std::filesystem::rename(folder_ / "p", folder_ / "p\xff.parquet");
  for (const char* name : {"d\xff.parquet", "p\xff.parquet"}) {
    const auto source = Open(name);
    ASSERT_TRUE(source.ok()) << source.status();
    DatasetInfo read;
    EXPECT_TRUE(read.ParseFromString((*source)->info().SerializeAsString()));
    EXPECT_EQ(read.shards(0).name().substr(1), "\\377.parquet");
  }
  const auto source = Open("d\xff.parquet");
  EXPECT_EQ((*source)->info().schema().fields_size(), 1);
  ASSERT_EQ((*source)->info().left_out_size(), 1);
  EXPECT_EQ((*source)->info().left_out(0).name(), "caf\\351");
  EXPECT_THAT((*source)->info().left_out(0).reason(), HasSubstr("UTF-8"));
}

// Files of one writer whose footers say nothing of the values.
class ForeignFingerprintTest : public ParquetSourceTest {
 protected:
  static constexpr int64_t kRows = 100'000;

  // A file of labels 0, 1, 0, ... where row `changed` has another one.
  std::string WriteLabels(const std::string& name, int64_t changed) {
    std::vector<int64_t> labels(kRows);
    for (int64_t i = 0; i < kRows; ++i) labels[i] = i % 2;
    if (changed >= 0) labels[changed] = 5;
    const std::string path = folder_ / name;
    const auto file = *arrow::io::FileOutputStream::Open(path);
    const auto table = arrow::Table::Make(
        arrow::schema({arrow::field("label", arrow::int64())}),
        {Int64(std::move(labels))});
    EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(),
                                           file, kRows,
                                           parquet::WriterProperties::Builder()
                                               .disable_dictionary()
                                               ->disable_statistics()
                                               ->build())
                    .ok());
    EXPECT_TRUE(file->Close().ok());
    return path;
  }

  static std::string Footer(const std::string& path) {
    return *(*ParquetFile::Open(path))->ReadFooter();
  }

  static std::string Fingerprint(const std::string& path, int64_t whole_bytes,
                                 int threads) {
    const ColumnPlan label = {.name = "label", .dtype = DTYPE_INT64, .leaf = 0};
    const ForeignShard shard = {.file = *ParquetFile::Open(path),
                                .columns = {&label, 1}};
    const auto fingerprint =
        ForeignFingerprint({&shard, 1}, whole_bytes, threads);
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status();
    return fingerprint.value_or("");
  }
};

TEST_F(ForeignFingerprintTest, EqualFootersOfOtherLabelsDiffer) {
  const std::string before = WriteLabels("before.parquet", -1);
  for (const int64_t row : {int64_t{0}, kRows / 2, kRows - 1}) {
    const std::string after = WriteLabels("after.parquet", row);
    ASSERT_EQ(Footer(before), Footer(after));
    EXPECT_NE((*Open("before.parquet"))->info().fingerprint(),
              (*Open("after.parquet"))->info().fingerprint())
        << row;
  }
  WriteLabels("after.parquet", -1);
  EXPECT_EQ((*Open("before.parquet"))->info().fingerprint(),
            (*Open("after.parquet"))->info().fingerprint());
}

TEST_F(ForeignFingerprintTest, DoesNotDependOnThreads) {
  const std::string path = WriteLabels("d.parquet", -1);
  for (const int64_t whole_bytes : {int64_t{0}, kFingerprintWholeBytes}) {
    EXPECT_EQ(Fingerprint(path, whole_bytes, 1),
              Fingerprint(path, whole_bytes, 16));
  }
}

// What docs/formats.md says that it does not see.
TEST_F(ForeignFingerprintTest, OfLargeColumnsTheEndsCount) {
  const auto ends = [this](int64_t changed) {
    return Fingerprint(WriteLabels("d.parquet", changed), 0, 4);
  };
  const std::string before = ends(-1);
  EXPECT_NE(ends(0), before);
  EXPECT_NE(ends(kRows - 1), before);
  EXPECT_EQ(ends(kRows / 2), before);
}

TEST_F(ParquetSourceTest, DifferentSchemasAreRefused) {
  std::filesystem::create_directory(folder_ / "d");
  WriteParquet(folder_ / "d/1.parquet", {{"x", Int64({1, 2})}});
  WriteParquet(folder_ / "d/2.parquet", {{"y", Int64({1, 2})}});
  const absl::Status status = Open("d").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("2.parquet"));
}

TEST_F(ParquetSourceTest, SplitsInOneFolderAreNotMixed) {
  std::filesystem::create_directory(folder_ / "d");
  for (const char* name : {"test-00000-of-00001", "train-00000-of-00002",
                           "train-00001-of-00002"}) {
    WriteParquet(folder_ / absl::StrCat("d/", name, ".parquet"),
                 {{"x", Int64({1, 2})}});
  }
  EXPECT_THAT(std::string(Open("d").status().message()), HasSubstr("glob"));
  const auto train = Open("d/train-*.parquet");
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->info().samples(), 4);
  std::filesystem::remove(folder_ / "d/train-00000-of-00002.parquet");
  EXPECT_THAT(std::string(Open("d/train-*.parquet").status().message()),
              HasSubstr("train-00000-of-00002.parquet is missing"));
  // Naming the one file says that it alone is meant.
  EXPECT_TRUE(Open("d/train-00001-of-00002.parquet").ok());
}

TEST_F(ParquetSourceTest, PackedAndForeignShardsAreNotMixed) {
  ASSERT_TRUE(
      Pack(Uri("d"), ImageDataset(4), ImageSamples(4), {.shards = 2}).ok());
  WriteParquet(folder_ / "d/x.parquet", {{"x", Int64({1, 2})}});
  EXPECT_THAT(std::string(Open("d").status().message()),
              HasSubstr("different programs"));
}

// pandas and pyarrow copy metadata into what they write.
TEST_F(ParquetSourceTest, AFileThatAnotherProgramDerivedIsForeign) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(10), ImageSamples(10)).ok());
  const auto reader =
      *parquet::arrow::OpenFile(*arrow::io::ReadableFile::Open(folder_ / "d"),
                                arrow::default_memory_pool());
  const auto table = *reader->ReadTable();
  const auto first = table->Slice(0, 10);  // as many rows
  ASSERT_TRUE(first->schema()->metadata()->Contains("millrace"));
  const auto out = *arrow::io::FileOutputStream::Open(folder_ / "derived");
  ASSERT_TRUE(
      parquet::arrow::WriteTable(*first, arrow::default_memory_pool(), out)
          .ok());
  ASSERT_TRUE(out->Close().ok());
  const auto derived = Open("derived");
  ASSERT_TRUE(derived.ok()) << derived.status();
  EXPECT_NE((*derived)->info().fingerprint(),
            (*Open("d"))->info().fingerprint());
  EXPECT_EQ(*ReadAll(**derived), ImageSamples(10));
}

// Arrow's words asked for a larger "schema depth limit", which is no setting of
// Millrace, and to copy the file again.
TEST_F(ParquetSourceTest, AColumnThatIsNestedTooDeepIsNamed) {
  for (const int levels : {99, 100}) {
    std::shared_ptr<arrow::DataType> type = arrow::int32();
    for (int i = 1; i < levels; ++i) {
      type = arrow::struct_({arrow::field("s", type)});
    }
    WriteParquet(folder_ / "d", {{"label", Int64({1, 2})},
                                 {"deep", *arrow::MakeArrayOfNull(type, 2)},
                                 {"x", Int64({3, 4})}});
    const absl::Status status = Open("d").status();
    if (levels == 99) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(
                    folder_ / "d",
                    " has a column 'deep' that is nested 100 levels deep, and "
                    "the maximum is 99; flatten the column, or write the file "
                    "without it")));
  }
}

// A flipped bit in a file with page checksums was served as a value, and
// `millrace-data verify` called the file whole.
TEST_F(ParquetSourceTest, PagesAreComparedWithTheirChecksums) {
  constexpr int64_t kValue = 0x0123456789abcdef;
  for (const bool checksums : {true, false}) {
    parquet::WriterProperties::Builder properties;
    // The value is in the file once.
    properties.disable_dictionary()->disable_statistics();
    if (checksums) properties.enable_page_checksum();
    WriteParquet(folder_ / "d",
                 {{"x", Int64({1, kValue, 2})}, {"y", Int64({3, 4, 5})}}, "",
                 /*group_rows=*/3, properties.build());
    EXPECT_TRUE(Read("d", 1).ok()) << Read("d", 1);
    std::string bytes = ReadFile(folder_ / "d");
    const size_t at = bytes.find(Scalar(kValue));
    ASSERT_NE(at, bytes.npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    WriteFile(folder_ / "d", bytes);
    const absl::Status status = Read("d", 1);
    EXPECT_EQ(status.ok(), !checksums) << status;
    if (!checksums) continue;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        ::testing::AllOf(HasSubstr("column 'x' of"), HasSubstr(folder_ / "d"),
                         HasSubstr("CRC checksum verification failed")));
  }
}

TEST_F(ParquetSourceTest, DamageInsideIsDataLossAndNeverMore) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(100), ImageSamples(100)).ok());
  const std::string whole = ReadFile(folder_ / "d");
  int refused = 0;
  for (size_t step = 0; step < 300; ++step) {
    std::string damaged = whole;
    damaged[step * 7919 % whole.size()] ^= 0x55;
    WriteFile(folder_ / "damaged", damaged);
    const auto source = Open("damaged");
    if (!source.ok() || !ReadAll(**source).ok()) ++refused;
  }
  // Most bytes are image bytes, which only the decoder can judge.
  EXPECT_GT(refused, 0);
  // The footer: every byte of its last 200.
  for (size_t at = whole.size() - 200; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 0x55;
    WriteFile(folder_ / "damaged", damaged);
    const auto source = Open("damaged");
    if (source.ok()) (void)ReadAll(**source);
  }
}

// The descriptor that this process has opened for `path`; -1: none.
int DescriptorOf(const std::filesystem::path& path) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the directory's own descriptor
    if (std::filesystem::read_symlink(entry.path(), gone) == path) {
      return std::stoi(entry.path().filename());
    }
  }
  return -1;
}

// Else a substitute would quietly take the place of a sample that is whole.
TEST_F(ParquetSourceTest, AReadThatTheSystemFailsIsNoDamage) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(100), ImageSamples(100)).ok());
  const auto source = Open("d");
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  ASSERT_TRUE(reader.ok());
  const auto read = [&] {
    return (*reader)->Read(
        0, [](const EncodedSample&) { return absl::OkStatus(); });
  };
  // The same file, open for writing alone: every read fails with EBADF.
  const int file = DescriptorOf(std::filesystem::canonical(folder_ / "d"));
  ASSERT_GE(file, 0);
  const int kept = dup(file);
  const int write_only = open((folder_ / "d").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(kept, 0);
  ASSERT_GE(write_only, 0);
  ASSERT_EQ(dup2(write_only, file), file);
  const absl::Status status = read();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Bad file descriptor"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(std::string(folder_ / "d")));
  ASSERT_EQ(dup2(kept, file), file);
  EXPECT_TRUE(read().ok());
  close(kept);
  close(write_only);
}

TEST(ArrowReadError, OnlyWhatIsReadIsCalledDamaged) {
  using arrow::internal::IOErrorFromErrno;
  const auto code = [](const arrow::Status& status) {
    return ArrowReadError(status, "read", "a.parquet").code();
  };
  for (int error : {EIO, ESTALE, ENFILE, ETIMEDOUT}) {
    EXPECT_EQ(code(IOErrorFromErrno(error, "read")),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(code(IOErrorFromErrno(ENOMEM, "read")),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(IOErrorFromErrno(EINVAL, "a negative offset")),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(arrow::Status::IOError("a bad page")),
            absl::StatusCode::kDataLoss);
}

TEST_F(ParquetSourceTest, RowsThatTheCacheCannotHoldAreRefused) {
  const std::string large(50'000, 'x');
  const char* const row = large.c_str();
  WriteParquet(folder_ / "d", {{"image", Images({"a", "b", row, "c"})}});
  ByteBudget budget(1 << 20);
  uint64_t advised = 0;
  const auto open = [&](uint64_t cache_bytes) {
    return OpenRecordSource(Uri("d"), {.cache_budget = &budget,
                                       .cache_bytes = cache_bytes,
                                       .cache_advice =
                                           [&](uint64_t bytes) {
                                             advised = bytes;
                                             return "give more by --flag";
                                           }})
        .status();
  };
  const absl::Status refused = open(40'000);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  for (const std::string& part :
       {std::string(folder_ / "d"), std::string("row group 1"),
        std::string("40000"), std::string("; give more by --flag, remove")}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(part));
  }
  // What it names is enough, and no more than that.
  EXPECT_TRUE(open(advised).ok()) << advised;
  EXPECT_FALSE(open(advised - 1).ok()) << advised;
  EXPECT_TRUE(open(500'000).ok()) << open(500'000);
  EXPECT_TRUE(Open("d").ok());
  // The cache's part of the budget is taken as a whole.
  ByteBudget::Reservation others;
  ASSERT_TRUE(budget.TryReserve(800'000, &others));
  EXPECT_TRUE(absl::IsResourceExhausted(open(500'000))) << open(500'000);
}

TEST_F(ParquetSourceTest, EncryptedFilesAreUnimplemented) {
  WriteFile(folder_ / "d", absl::StrCat("PARE", std::string(100, 'x'), "PARE"));
  EXPECT_TRUE(absl::IsUnimplemented(Open("d").status()));
}

TEST_F(ParquetSourceTest, ReadersOnManyThreadsSeeTheSame) {
  ASSERT_TRUE(Pack(Uri("d"), EveryKindDataset(500), EveryKindSamples(500),
                   {.shards = 2})
                  .ok());
  const Samples expected = EveryKindSamples(500);
  for (uint64_t bytes : {500'000, 1 << 20, 4 << 20}) {
    ByteBudget budget(bytes);
    const auto source = OpenRecordSource(
        Uri("d"), {.cache_budget = &budget, .cache_bytes = 4 << 20});
    ASSERT_TRUE(source.ok()) << source.status();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const auto reader = (*source)->NewReader();
        for (int64_t i = 0; i < 200; ++i) {
          const int64_t index = (i * 137 + t * 11) % 500;
          const absl::Status status =
              (*reader)->Read(index, [&](const EncodedSample& sample) {
                for (size_t f = 0; f < sample.fields.size(); ++f) {
                  EXPECT_EQ(std::string(sample.fields[f].begin(),
                                        sample.fields[f].end()),
                            expected[index][f]);
                }
                return absl::OkStatus();
              });
          EXPECT_TRUE(status.ok()) << status;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(budget.peak(), bytes);
  }
}

TEST_F(ParquetSourceTest, AFieldThatParquetCannotHoldIsRefused) {
  DatasetInfo info = EveryKindDataset(3);
  info.mutable_schema()->mutable_fields(8)->set_dtype(DTYPE_BFLOAT16);
  const auto writer = DatasetWriter::Create(Uri("d"), info, {});
  EXPECT_TRUE(absl::IsUnimplemented(writer.status())) << writer.status();
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("'f32'"));
  EXPECT_TRUE(folder_.Names().empty());
}

}  // namespace
}  // namespace millrace::storage
