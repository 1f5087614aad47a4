// Datasets of HDF5 files, written by h5py (tests/testdata/hdf5) and by libhdf5:
// fields, values, what is served as it is, what only commands in order read,
// and what is refused.

#include "server/storage/hdf5/hdf5_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/byte_budget.h"
#include "common/usage_error.h"
#include "tests/server/storage/hdf5/hdf5_writer.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const char kData[] = "tests/testdata/hdf5/";

std::string Data(absl::string_view name) { return absl::StrCat(kData, name); }

absl::StatusOr<std::unique_ptr<RecordSource>> InOrder(absl::string_view rest) {
  return OpenHdf5(rest, {}, Hdf5Use::kInOrder);
}
absl::StatusOr<std::unique_ptr<RecordSource>> AtRandom(absl::string_view rest) {
  return OpenHdf5(rest, {}, Hdf5Use::kAtRandom);
}

// "image TENSOR uint8 [5,4,3]; label TENSOR int64 [] 4 classes"
std::string SchemaText(const RecordSource& source) {
  std::vector<std::string> fields;
  for (const Field& field : source.info().schema().fields()) {
    std::string text = absl::StrCat(field.name(), " ",
                                    FieldKind_Name(field.kind()).substr(11));
    if (field.kind() != FIELD_KIND_ENCODED_IMAGE) {
      absl::StrAppend(&text, " ", DType_Name(field.dtype()).substr(6), " [",
                      absl::StrJoin(field.shape(), ","), "]");
    }
    if (field.num_classes() > 0) {
      absl::StrAppend(&text, " ", field.num_classes(), " classes");
    }
    fields.push_back(std::move(text));
  }
  return absl::StrJoin(fields, "; ");
}

template <typename T>
std::string Bytes(std::vector<T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

// What make_hdf5.py writes into pixels.h5 and its other forms.
Samples TableSamples() {
  Samples samples;
  const int64_t labels[] = {0, 2, 1, 0, 1, 3};
  for (int i = 0; i < 6; ++i) {
    std::vector<uint8_t> pixels(60);
    std::iota(pixels.begin(), pixels.end(), static_cast<uint8_t>(60 * i));
    std::vector<float> boxes;
    for (int k = 4 * i; k < 4 * i + 4; ++k) {
      boxes.push_back(static_cast<float>(k) / 2);
    }
    samples.push_back({Bytes(pixels), Scalar(labels[i]), Bytes(boxes)});
  }
  return samples;
}
constexpr char kTableSchema[] =
    "image TENSOR UINT8 [5,4,3]; label TENSOR INT64 [] 4 classes; "
    "boxes TENSOR FLOAT32 [4]";

class Hdf5SourceTest : public ::testing::Test {
 protected:
  // Two rows of int32 `name` in a file of its own.
  std::string WriteNumbers(absl::string_view file,
                           const Hdf5Writer::Layout& layout = {}) {
    const std::string path = folder_ / file;
    Hdf5Writer writer(path);
    const int32_t values[] = {5, 6, 7};
    writer.Add("x", H5T_STD_I32LE, H5T_NATIVE_INT32, {3}, values, layout);
    return path;
  }

  const TempFolder folder_;
};

TEST_F(Hdf5SourceTest, ContiguousDataAndChunksOfRowsAreServedAsTheyAre) {
  for (const char* file : {"pixels.h5", "chunks.h5"}) {
    SCOPED_TRACE(file);
    const auto source = AtRandom(Data(file));
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(SchemaText(**source), kTableSchema);
    EXPECT_EQ((*source)->info().samples(), 6);
    EXPECT_EQ((*source)->info().format(), "hdf5");
    EXPECT_EQ((*source)->info().left_out_size(), 0);
    const auto samples = ReadAll(**source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(*samples, TableSamples());
  }
}

TEST_F(Hdf5SourceTest, CompressedDataAreReadInOrderAndRefusedAtRandom) {
  for (const char* file : {"gzip.h5", "lzf.h5", "scaled.h5"}) {
    SCOPED_TRACE(file);
    const auto source = InOrder(Data(file));
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(SchemaText(**source), kTableSchema);
    const auto samples = ReadAll(**source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(*samples, TableSamples());
    EXPECT_TRUE((*source)->CheckFiles().ok());

    const absl::Status refused = AtRandom(Data(file)).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_TRUE(IsUsageError(refused));
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("dataset 'images' of "), HasSubstr(file),
                      HasSubstr("is compressed ("),
                      HasSubstr("millrace-data pack --input=hdf5:")));
  }
  EXPECT_THAT(std::string(AtRandom(Data("gzip.h5")).status().message()),
              HasSubstr("(shuffle, gzip, fletcher32)"));
}

TEST_F(Hdf5SourceTest, AnyOrderGivesTheSameSamples) {
  const Samples expected = TableSamples();
  const auto source = InOrder(Data("gzip.h5"));
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  ASSERT_TRUE(reader.ok());
  for (const int64_t i : {5, 0, 3, 3, 1, 4, 2}) {
    const absl::Status read =
        (*reader)->Read(i, [&](const EncodedSample& sample) {
          EXPECT_EQ(sample.row, i);
          EXPECT_EQ(
              std::string(sample.fields[0].begin(), sample.fields[0].end()),
              expected[static_cast<size_t>(i)][0]);
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
  }
  EXPECT_TRUE(absl::IsOutOfRange((*reader)->Read(
      6, [](const EncodedSample&) { return absl::OkStatus(); })));
}

TEST_F(Hdf5SourceTest, UnusedFieldsAreNotRead) {
  for (const char* file : {"pixels.h5", "gzip.h5"}) {
    const auto source = InOrder(Data(file));
    ASSERT_TRUE(source.ok()) << source.status();
    const auto reader = (*source)->NewReader();
    ASSERT_TRUE(reader.ok());
    ASSERT_TRUE((*reader)->UseFields({false, true, false}).ok());
    const absl::Status read =
        (*reader)->Read(1, [](const EncodedSample& sample) {
          EXPECT_TRUE(sample.fields[0].empty());
          EXPECT_EQ(
              std::string(sample.fields[1].begin(), sample.fields[1].end()),
              Scalar(int64_t{2}));
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
  }
}

TEST_F(Hdf5SourceTest, JpegsOfVariableLengthAreImages) {
  const auto source = AtRandom(Data("photos.h5"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(SchemaText(**source),
            "image ENCODED_IMAGE; label TENSOR INT64 [] 3 classes; "
            "caption RAGGED UINT8 []");
  EXPECT_EQ((*source)->info().train_preset(), "imagenet_train");
  const auto samples = ReadAll(**source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(
        (*samples)[i][0],
        ReadFile(absl::StrCat("tests/testdata/images/exif_", i + 1, ".jpg")));
    EXPECT_EQ((*samples)[i][1], Scalar(int64_t{i % 3}));
    EXPECT_EQ((*samples)[i][2], absl::StrCat("photo ", i));
  }
}

TEST_F(Hdf5SourceTest, ValuesOfVariableLengthAreServedWhereTheyLie) {
  constexpr int kRows = 300;
  std::vector<std::vector<float>> expected;
  std::vector<hvl_t> values;
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  for (int i = 0; i < kRows; ++i) {
    // Some of no element, some larger than a collection of the heap.
    const int length = i % 50 == 7 ? 3'000 : i % 5;
    expected.emplace_back(length);
    std::iota(expected.back().begin(), expected.back().end(),
              static_cast<float>(i));
    texts.push_back(std::string(i % 40, static_cast<char>('a' + i % 26)));
  }
  for (int i = 0; i < kRows; ++i) {
    values.push_back({expected[i].size(), expected[i].data()});
    pointers.push_back(texts[i].c_str());
  }
  const auto write = [&](const std::string& path,
                         const Hdf5Writer::Layout& layout) {
    Hdf5Writer writer(path);
    const hid_t floats = H5Tvlen_create(H5T_IEEE_F32LE);
    writer.Add("floats", floats, floats, {kRows}, values.data(), layout);
    H5Tclose(floats);
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    writer.Add("text", text, text, {kRows}, pointers.data(), layout);
    H5Tclose(text);
    return path;
  };
  const auto check = [&](const RecordSource& source) {
    const auto samples = ReadAll(source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    ASSERT_EQ(samples->size(), size_t{kRows});
    for (size_t i = 0; i < kRows; ++i) {
      EXPECT_EQ((*samples)[i][0], Bytes(expected[i])) << i;
      EXPECT_EQ((*samples)[i][1], texts[i]) << i;
    }
  };
  for (const auto& path : {write(folder_ / "contiguous.h5", {}),
                           write(folder_ / "chunks.h5", {.chunk = {7}})}) {
    const auto source = AtRandom(path);
    ASSERT_TRUE(source.ok()) << source.status();
    check(**source);
  }
  const std::string packed =
      write(folder_ / "packed.h5", {.chunk = {7}, .more = [](hid_t properties) {
                                      H5Pset_deflate(properties, 1);
                                    }});
  EXPECT_THAT(std::string(AtRandom(packed).status().message()),
              HasSubstr("is compressed (gzip)"));
  const auto source = InOrder(packed);
  ASSERT_TRUE(source.ok()) << source.status();
  check(**source);
}

TEST_F(Hdf5SourceTest, EachTypeBecomesItsFieldOrIsNamed) {
  const auto source = InOrder(Data("every.h5"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(
      SchemaText(**source),
      "image TENSOR UINT8 [2,2,1]; label TENSOR INT64 [] 3 classes; "
      "array.big TENSOR UINT16 [2]; array.int16 TENSOR INT16 [1,3]; "
      "number.big_float TENSOR FLOAT64 []; number.big_int TENSOR INT32 []; "
      "number.bool TENSOR BOOL []; number.float16 TENSOR FLOAT16 []; "
      "number.float32 TENSOR FLOAT32 []; number.float64 TENSOR FLOAT64 []; "
      "number.int64 TENSOR INT64 []; number.int8 TENSOR INT32 []; "
      "number.uint16 TENSOR INT32 []; number.uint32 TENSOR INT64 []; "
      "opaque RAGGED UINT8 []; ragged RAGGED FLOAT32 []; "
      "text.empty RAGGED UINT8 []; text.fixed RAGGED UINT8 []; "
      "text.variable RAGGED UINT8 []");
  EXPECT_THAT((*source)->info().schema().fields(1).class_names(),
              ElementsAre("cat", "dog", "eel"));
  const auto samples = ReadAll(**source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  const uint16_t half = 0x3C00;
  EXPECT_THAT(
      (*samples)[0],
      ElementsAre(Bytes<uint8_t>({1, 2, 3, 4}), Scalar(int64_t{1}),
                  Bytes<uint16_t>({1, 2}), Bytes<int16_t>({1, -2, 3}),
                  Scalar(1.0), Scalar(int32_t{1}), std::string("\1"),
                  Scalar(half), Scalar(1.0f), Scalar(1.0), Scalar(int64_t{1}),
                  Scalar(int32_t{1}), Scalar(int32_t{1}), Scalar(int64_t{1}),
                  std::string("\1\0", 2), Bytes<float>({1.5}), "", "one",
                  "eins"));
  EXPECT_THAT((*samples)[1], ::testing::Contains(Bytes<float>({2.5, 3.5})));
  EXPECT_EQ((*samples)[1][18], "dr\xC3\xA9i");

  std::vector<std::string> left_out;
  for (const LeftOutColumn& column : (*source)->info().left_out()) {
    left_out.push_back(absl::StrCat(column.name(), ": ", column.reason()));
  }
  EXPECT_THAT(
      left_out,
      ElementsAre(HasSubstr("bad.compound: the dataset has a compound type"),
                  HasSubstr("bad.external: the dataset is a link to another"),
                  HasSubstr("bad.long_double: the dataset has numbers of 128"),
                  HasSubstr("bad.null: the dataset is empty"),
                  HasSubstr("bad.outside: the dataset has its values in other"),
                  HasSubstr("bad.reference: the dataset has references"),
                  HasSubstr("bad.scalar: the dataset is a single value"),
                  HasSubstr("bad.soft: the dataset is a soft link"),
                  HasSubstr("bad.texts: the dataset has several texts"),
                  HasSubstr("bad.virtual: the dataset is a virtual dataset")));
  EXPECT_THAT(
      std::string(
          AtRandom(Data("every.h5?fields=number.big_int")).status().message()),
      HasSubstr("has big-endian numbers"));
  EXPECT_THAT(
      std::string(
          InOrder(Data("every.h5?fields=bad.virtual")).status().message()),
      AllOf(HasSubstr("dataset 'bad.virtual' cannot be a field: it is "
                      "a virtual dataset")));
}

TEST_F(Hdf5SourceTest, FixedTextsAreServedAsTheyAre) {
  const auto source = AtRandom(Data("every.h5?fields=text.fixed,number.int8"));
  ASSERT_TRUE(source.ok()) << source.status();
  const auto samples = ReadAll(**source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(*samples, (Samples{{Scalar(int32_t{1}), "one"},
                               {Scalar(int32_t{0}), "three"}}));
}

TEST_F(Hdf5SourceTest, GroupsAndFieldsChooseATable) {
  const absl::Status mixed = InOrder(Data("groups.h5")).status();
  EXPECT_TRUE(IsUsageError(mixed));
  EXPECT_THAT(
      std::string(mixed.message()),
      AllOf(HasSubstr("different numbers of rows"), HasSubstr("'test/x' has 2"),
            HasSubstr("'train/y' has 4"), HasSubstr("?group=GROUP")));

  const auto group = AtRandom(Data("groups.h5?group=/train"));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(SchemaText(**group),
            "image TENSOR UINT8 [5,4,3]; label TENSOR INT64 [] 3 classes");

  const auto fields =
      AtRandom(Data("groups.h5?fields=test/x&label=test/y&num_classes=10"));
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ(SchemaText(**fields),
            "image TENSOR UINT8 [5,4,3]; label TENSOR INT64 [] 10 classes");

  const auto unlabelled =
      AtRandom(Data("pixels.h5?label=&fields=labels,boxes"));
  ASSERT_TRUE(unlabelled.ok()) << unlabelled.status();
  EXPECT_EQ(SchemaText(**unlabelled),
            "boxes TENSOR FLOAT32 [4]; labels TENSOR INT32 []");

  EXPECT_THAT(
      std::string(InOrder(Data("groups.h5?group=val")).status().message()),
      HasSubstr("there is no dataset in group 'val/'"));
  EXPECT_THAT(
      std::string(InOrder(Data("groups.h5?fields=x")).status().message()),
      AllOf(HasSubstr("there is no dataset 'x'"), HasSubstr("'train/x'")));
  EXPECT_THAT(
      std::string(InOrder(Data("pixels.h5?lable=x")).status().message()),
      HasSubstr("hdf5: has no option 'lable'"));
}

TEST_F(Hdf5SourceTest, LabelsThatAreNoClassIndicesArePlainNumbers) {
  const std::string path = folder_ / "negative.h5";
  {
    Hdf5Writer writer(path);
    const int32_t values[] = {-1, 4, 2};
    writer.Add("label", H5T_STD_I32LE, H5T_NATIVE_INT32, {3}, values);
  }
  const auto plain = AtRandom(path);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(SchemaText(**plain), "label TENSOR INT32 []");
  const absl::Status asked = AtRandom(path + "?label=label").status();
  EXPECT_TRUE(IsUsageError(asked)) << asked;
  EXPECT_THAT(std::string(asked.message()), HasSubstr("from -1 to 4"));
  const auto moved = AtRandom(path + "?label_offset=1");
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(SchemaText(**moved), "label TENSOR INT64 [] 6 classes");
  const auto samples = ReadAll(**moved);
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ((*samples)[0][0], Scalar(int64_t{0}));
}

// Those of the other ending would be missing from the dataset.
TEST_F(Hdf5SourceTest, AFolderHasFilesOfOneEnding) {
  std::filesystem::copy_file(Data("pixels.h5"), folder_ / "a.hdf5");
  const auto source = InOrder(folder_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().samples(), 6);
  std::filesystem::copy_file(Data("pixels.h5"), folder_ / "b.h5");
  const absl::Status refused = InOrder(folder_.path()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(" holds *.h5 and *.hdf5 files (b.h5, a.hdf5)"),
                    HasSubstr("by a glob, such as " + folder_ / "* for")));
}

TEST_F(Hdf5SourceTest, SeveralFilesAreOneDataset) {
  std::filesystem::copy_file(Data("pixels.h5"), folder_ / "a.h5");
  std::filesystem::copy_file(Data("chunks.h5"), folder_ / "b.h5");
  std::filesystem::copy_file(Data("gzip.h5"), folder_ / "c.h5");
  for (const std::string& path :
       {folder_.path(), folder_ / "*.h5", folder_ / "{a,b,c}.h5"}) {
    if (path.find('{') != path.npos) continue;  // ranges of numbers only
    const auto source = InOrder(path);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->info().samples(), 18);
    EXPECT_EQ((*source)->info().shards_size(), 3);
    Samples expected = TableSamples();
    for (int i = 0; i < 12; ++i) {
      expected.push_back(TableSamples()[static_cast<size_t>(i) % 6]);
    }
    const auto samples = ReadAll(**source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(*samples, expected);
  }
  std::filesystem::copy_file(Data("photos.h5"), folder_ / "d.h5");
  EXPECT_THAT(
      std::string(InOrder(folder_.path()).status().message()),
      AllOf(HasSubstr("d.h5: dataset 'boxes' is missing"), HasSubstr("a.h5")));
}

TEST_F(Hdf5SourceTest, RowsThatWereNeverWrittenAreOnlyReadInOrder) {
  const std::string path = folder_ / "sparse.h5";
  {
    Hdf5Writer writer(path);
    writer.Add("x", H5T_STD_I32LE, H5T_NATIVE_INT32, {100}, nullptr,
               {.chunk = {10}});
    writer.Add("z", H5T_STD_I32LE, H5T_NATIVE_INT32, {100}, nullptr,
               {.more = [](hid_t properties) {
                 const int32_t seven = 7;
                 H5Pset_fill_value(properties, H5T_NATIVE_INT32, &seven);
               }});
  }
  EXPECT_THAT(std::string(AtRandom(path).status().message()),
              AllOf(HasSubstr("has rows that were never written"),
                    HasSubstr("was never written")));
  const auto source = InOrder(path);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto samples = ReadAll(**source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->back(),
            (std::vector<std::string>{Scalar(int32_t{0}), Scalar(int32_t{7})}));
}

TEST_F(Hdf5SourceTest, ManyChunksAndPartsOfRows) {
  constexpr int kRows = 5000;
  std::vector<int16_t> values(kRows * 6);
  std::iota(values.begin(), values.end(), int16_t{0});
  const auto write = [&](const char* name, std::vector<hsize_t> chunk) {
    Hdf5Writer writer(folder_ / name);
    writer.Add("x", H5T_STD_I16LE, H5T_NATIVE_INT16, {kRows, 3, 2},
               values.data(), {.chunk = std::move(chunk)});
    return folder_ / name;
  };
  const auto check = [&](const RecordSource& source) {
    const auto samples = ReadAll(source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    std::string all;
    for (const auto& sample : *samples) all += sample[0];
    EXPECT_EQ(all, Bytes(values));
  };
  for (const hsize_t rows : {1, 7, 5000}) {
    const auto source = AtRandom(
        write(absl::StrCat("rows", rows, ".h5").c_str(), {rows, 3, 2}));
    ASSERT_TRUE(source.ok()) << source.status();
    check(**source);
  }
  const std::string parts = write("parts.h5", {64, 3, 1});
  EXPECT_THAT(std::string(AtRandom(parts).status().message()),
              HasSubstr("has chunks that do not consist of whole rows"));
  const auto source = InOrder(parts);
  ASSERT_TRUE(source.ok()) << source.status();
  check(**source);
}

TEST_F(Hdf5SourceTest, DamagedFilesAreNamedWithTheReason) {
  WriteFile(folder_ / "text.h5", "this is no HDF5 file");
  EXPECT_THAT(std::string(InOrder(folder_ / "text.h5").status().message()),
              AllOf(HasSubstr("text.h5: it is not an HDF5 file")));
  WriteFile(folder_ / "empty.h5", "");
  EXPECT_TRUE(absl::IsDataLoss(InOrder(folder_ / "empty.h5").status()));

  const std::string whole = ReadFile(Data("pixels.h5"));
  WriteFile(folder_ / "cut.h5", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(std::string(InOrder(folder_ / "cut.h5").status().message()),
              HasSubstr("cut.h5: it is truncated"));

  EXPECT_TRUE(absl::IsNotFound(InOrder(folder_ / "none.h5").status()));
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_FALSE(InOrder(folder_ / "folder").ok());
}

// Whatever bytes are wrong, the answer is data or an error: libhdf5 may crash,
// this process does not.
TEST_F(Hdf5SourceTest, EveryDamagedByteIsDataOrAnError) {
  for (const char* file : {"pixels.h5", "gzip.h5", "photos.h5"}) {
    const std::string whole = ReadFile(Data(file));
    for (size_t at = 0; at < whole.size(); at += 197) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
      WriteFile(folder_ / "damaged.h5", damaged);
      const auto source = InOrder(folder_ / "damaged.h5");
      if (!source.ok()) {
        EXPECT_THAT(std::string(source.status().message()),
                    HasSubstr("damaged.h5"));
        continue;
      }
      const auto samples = ReadAll(**source);
      if (!samples.ok()) {
        EXPECT_THAT(std::string(samples.status().message()),
                    HasSubstr("damaged.h5"));
      }
    }
  }
}

TEST_F(Hdf5SourceTest, DamagedChunksAreErrorsOfTheirRows) {
  const std::string path = folder_ / "sums.h5";
  std::vector<int32_t> values(64);
  {
    Hdf5Writer writer(path);
    std::iota(values.begin(), values.end(), 1'000'000);
    writer.Add("x", H5T_STD_I32LE, H5T_NATIVE_INT32, {64}, values.data(),
               {.chunk = {16}, .more = [](hid_t properties) {
                  H5Pset_fletcher32(properties);
                }});
  }
  std::string bytes = ReadFile(path);
  const int32_t in_third_chunk = 1'000'000 + 40;
  const size_t at = bytes.find(Scalar(in_third_chunk));
  ASSERT_NE(at, bytes.npos);
  bytes[at] ^= 1;
  WriteFile(path, bytes);
  const auto source = InOrder(path);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  ASSERT_TRUE(reader.ok());
  const auto visit = [](const EncodedSample&) { return absl::OkStatus(); };
  EXPECT_TRUE((*reader)->Read(31, visit).ok());
  EXPECT_TRUE((*reader)->Read(48, visit).ok());
  const absl::Status failed = (*reader)->Read(40, visit);
  EXPECT_TRUE(absl::IsDataLoss(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()),
              AllOf(HasSubstr("sums.h5"), HasSubstr("dataset 'x'")));
}

TEST_F(Hdf5SourceTest, FilesOfWritersAreRefused) {
  const std::string path = folder_ / "open.h5";
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  Hdf5Writer writer(path, access);
  H5Pclose(access);
  const int32_t values[] = {1, 2};
  writer.Add("x", H5T_STD_I32LE, H5T_NATIVE_INT32, {2}, values, {.chunk = {1}});
  ASSERT_GE(H5Fstart_swmr_write(writer.file()), 0);
  const absl::Status refused = InOrder(path).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("open for writing in another program"));
  writer.Close();
  EXPECT_TRUE(InOrder(path).ok());
}

TEST_F(Hdf5SourceTest, AFileThatChangesIsNoticed) {
  const std::string path = WriteNumbers("x.h5");
  const auto served = AtRandom(path);
  const auto in_order = InOrder(WriteNumbers(
      "z.h5", {.chunk = {3}, .more = [](hid_t p) { H5Pset_deflate(p, 1); }}));
  ASSERT_TRUE(served.ok()) << served.status();
  ASSERT_TRUE(in_order.ok()) << in_order.status();
  ASSERT_TRUE(ReadAll(**served).ok());
  for (const char* name : {"x.h5", "z.h5"}) {
    std::string bytes = ReadFile(folder_ / name);
    WriteFile(folder_ / name, bytes + "more");
  }
  const absl::Status failed = ReadAll(**served).status();
  EXPECT_TRUE(absl::IsDataLoss(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("grew from"));
  EXPECT_TRUE(absl::IsUnavailable((*in_order)->CheckFiles()));
}

TEST_F(Hdf5SourceTest, FilesWithoutATableAreRefused) {
  {
    Hdf5Writer writer(folder_ / "rows.h5");
    writer.Add("x", H5T_STD_I32LE, H5T_NATIVE_INT32, {0}, nullptr,
               {.chunk = {1}});
  }
  EXPECT_THAT(std::string(InOrder(folder_ / "rows.h5").status().message()),
              HasSubstr("the datasets have no rows"));
  { const Hdf5Writer writer(folder_ / "none.h5"); }
  EXPECT_THAT(std::string(InOrder(folder_ / "none.h5").status().message()),
              HasSubstr("the file contains no dataset"));
  {
    Hdf5Writer writer(folder_ / "many.h5");
    const int32_t value = 1;
    for (int i = 0; i < 4097; ++i) {
      writer.Add(absl::StrCat("sample", i), H5T_STD_I32LE, H5T_NATIVE_INT32,
                 {1}, &value);
    }
  }
  EXPECT_THAT(std::string(InOrder(folder_ / "many.h5").status().message()),
              HasSubstr("more than 4096 datasets"));
}

TEST_F(Hdf5SourceTest, GroupsInACircleEnd) {
  const std::string path = WriteNumbers("circle.h5");
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t group =
      H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Lcreate_hard(file, "/", group, "up", H5P_DEFAULT, H5P_DEFAULT),
            0);
  H5Gclose(group);
  H5Fclose(file);
  const auto source = AtRandom(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(SchemaText(**source), "x TENSOR INT32 []");
}

TEST_F(Hdf5SourceTest, UnknownFiltersAreNamed) {
  const std::string path = folder_ / "filter.h5";
  {
    Hdf5Writer writer(path);
    writer.Add("x", H5T_STD_I32LE, H5T_NATIVE_INT32, {3}, nullptr,
               {.chunk = {3}, .more = [](hid_t properties) {
                  // The number of Blosc; optional, so that the file can be
                  // made.
                  H5Pset_filter(properties, 32001, H5Z_FLAG_OPTIONAL, 0,
                                nullptr);
                }});
  }
  EXPECT_THAT(
      std::string(InOrder(path).status().message()),
      AllOf(HasSubstr("no dataset can be a field"), HasSubstr("filter 32001")));
}

TEST_F(Hdf5SourceTest, FingerprintsFollowTheContentAndTheOptions) {
  const auto print = [](const std::string& rest) {
    const auto source = InOrder(rest);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? (*source)->info().fingerprint() : "";
  };
  const std::string first = print(Data("pixels.h5"));
  EXPECT_EQ(first.size(), 32u);
  std::filesystem::copy_file(Data("pixels.h5"), folder_ / "copy.h5");
  EXPECT_EQ(print(folder_ / "copy.h5"), first);
  EXPECT_NE(print(Data("pixels.h5?fields=images,labels")), first);
  std::string bytes = ReadFile(folder_ / "copy.h5");
  bytes.back() ^= 1;
  WriteFile(folder_ / "copy.h5", bytes);
  EXPECT_NE(print(folder_ / "copy.h5"), first);
}

TEST_F(Hdf5SourceTest, MemoryIsReservedAndRefused) {
  ByteBudget lists(1 << 20);
  ByteBudget reads(1 << 20);
  const auto source = OpenHdf5(
      Data("pixels.h5"),
      {.metadata_budget = &lists, .read_budget = &reads, .read_bytes = 1 << 20},
      Hdf5Use::kAtRandom);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_GT(lists.used(), 0u);
  EXPECT_EQ((*source)->metadata_bytes(), lists.used());
  const auto samples = ReadAll(**source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(*samples, TableSamples());

  ByteBudget small(64);
  const absl::Status refused =
      OpenHdf5(Data("pixels.h5"), {.metadata_budget = &small},
               Hdf5Use::kAtRandom)
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
}

TEST_F(Hdf5SourceTest, FilesWithoutPermissionAreNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const std::string path = WriteNumbers("secret.h5");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const absl::Status refused = InOrder(path).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
}

}  // namespace
}  // namespace millrace::storage
