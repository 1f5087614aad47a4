// csv: datasets: the index of the files that a table names, its cache, and
// reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "server/storage/csv/csv_format.h"
#include "server/storage/extents/extent_cache.h"
#include "server/storage/extents/extent_source.h"
#include "server/storage/objects/local_objects.h"
#include "server/storage/sample_files.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CsvSourceTest : public ::testing::Test {
 protected:
  CsvSourceTest() {
    options_.cache_dir = folder_ / "cache";
    for (const char* name : {"images/a.jpg", "images/b.jpg", "images/c.jpg"}) {
      Write(name, absl::StrCat("image ", name));
    }
    Write("labels.csv",
          "file,class\nimages/b.jpg,dog\nimages/a.jpg,cat\nimages/c.jpg,dog\n");
  }
  void Write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    WriteFile(file, bytes);
  }
  static Samples All() {
    return {{"image images/b.jpg", Scalar<int64_t>(1)},
            {"image images/a.jpg", Scalar<int64_t>(0)},
            {"image images/c.jpg", Scalar<int64_t>(1)}};
  }
  absl::StatusOr<std::unique_ptr<RecordSource>> TryOpen(
      const std::string& options = "",
      const std::string& table = "labels.csv") {
    ::testing::internal::CaptureStderr();
    auto source =
        OpenExtentSource(CsvFormat(), folder_ / table + options, options_);
    log_ = ::testing::internal::GetCapturedStderr();
    return source;
  }
  std::unique_ptr<RecordSource> Open(const std::string& options = "",
                                     const std::string& table = "labels.csv") {
    auto source = TryOpen(options, table);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }
  // The message of the refusal.
  std::string Refused(const std::string& table, absl::StatusCode code,
                      const std::string& options = "") {
    Write("labels.csv", table);
    const auto source = TryOpen(options);
    EXPECT_EQ(source.status().code(), code) << source.status();
    return std::string(source.status().message());
  }
  // `millrace-data index`.
  absl::StatusOr<std::unique_ptr<const ExtentIndex>> Index(
      const std::string& options = "") {
    const auto uri =
        ExtentUri::Parse("csv", folder_ / "labels.csv" + options, true);
    LocalObjects objects;
    std::string file;
    return MakeExtentIndex(CsvFormat(), *uri, objects, options_.cache_dir,
                           {.threads = 3, .content = true, .progress = {}},
                           &file);
  }
  int CountIndexes() const {
    int count = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.cache_dir)) {
      count += entry.path().extension() == ".mrindex" ? 1 : 0;
    }
    return count;
  }
  static absl::Status Read(const RecordSource& source, int64_t index,
                           const std::vector<bool>& used = {}) {
    const auto reader = source.NewReader();
    EXPECT_TRUE((*reader)->UseFields(used).ok());
    return (*reader)->Read(
        index, [](const EncodedSample&) { return absl::OkStatus(); });
  }

  TempFolder folder_;
  OpenSourceOptions options_;
  std::string log_;
};

TEST_F(CsvSourceTest, RowsAreSamples) {
  const auto source = Open();
  EXPECT_EQ(*ReadAll(*source), All());
  const DatasetInfo& info = source->info();
  EXPECT_EQ(info.format(), "csv");
  EXPECT_EQ(info.train_preset(), "imagenet_train");
  ASSERT_EQ(info.shards_size(), 1);
  EXPECT_EQ(info.shards(0).name(), "labels.csv");
  EXPECT_EQ(info.shards(0).samples(), 3);
  EXPECT_EQ(info.shards(0).bytes(), 3 * 18);
  const Field& label = info.schema().fields(1);
  EXPECT_EQ(label.num_classes(), 2);
  EXPECT_THAT(label.class_names(), ElementsAre("cat", "dog"));
  ASSERT_NE(source->sample_files(), nullptr);
  EXPECT_EQ(source->sample_files()->FileOf(1), "images/a.jpg");
  EXPECT_EQ(source->BytesOf(1, {}), 18 + 8);
  EXPECT_EQ(source->BytesOf(1, {false, true}), 8);
  for (const int64_t index : {-1, 3}) {
    EXPECT_TRUE(absl::IsOutOfRange(Read(*source, index)));
  }
}

TEST_F(CsvSourceTest, LabelsAloneNeedNoFile) {
  const auto source = Open();
  std::filesystem::remove_all(folder_ / "images");
  EXPECT_TRUE(Read(*source, 1, {false, true}).ok());
  EXPECT_FALSE(Read(*source, 1, {true, false}).ok());
}

TEST_F(CsvSourceTest, TheIndexIsKeptUntilTheTableChanges) {
  const std::string first = Open()->info().fingerprint();
  EXPECT_THAT(log_, HasSubstr("scanned 3 files of a table"));
  EXPECT_EQ(Open()->info().fingerprint(), first);
  EXPECT_THAT(log_, AllOf(HasSubstr("3 files of a table by the index"),
                          Not(HasSubstr("scanned"))));
  Write("labels.csv", "file,class\nimages/a.jpg,cat\nimages/b.jpg,cat\n");
  const auto source = Open();
  EXPECT_THAT(log_, HasSubstr("labels.csv has changed"));
  EXPECT_EQ(source->info().samples(), 2);
  EXPECT_NE(source->info().fingerprint(), first);
  EXPECT_EQ(CountIndexes(), 1);
}

// The labels of the index are those of the file of names.
TEST_F(CsvSourceTest, TheFileOfNamesIsPartOfTheTable) {
  Write("names.txt", "dog\nbird\ncat\n");
  const std::string options = "?classes=" + folder_ / "names.txt";
  const auto source = Open(options);
  EXPECT_THAT(
      *ReadAll(*source),
      ElementsAre(ElementsAre("image images/b.jpg", Scalar<int64_t>(0)),
                  ElementsAre("image images/a.jpg", Scalar<int64_t>(2)),
                  ElementsAre("image images/c.jpg", Scalar<int64_t>(0))));
  EXPECT_THAT(source->info().schema().fields(1).class_names(),
              ElementsAre("dog", "bird", "cat"));
  EXPECT_EQ(source->info().shards_size(), 1);
  Write("names.txt", "cat\ndog\n");
  EXPECT_EQ(*ReadAll(*Open(options)), All());
  EXPECT_THAT(log_, HasSubstr("names.txt has changed"));
  Write("names.txt", "cat\n");
  const auto missing = TryOpen(options);
  EXPECT_TRUE(absl::IsInvalidArgument(missing.status())) << missing.status();
  EXPECT_TRUE(IsUsageError(missing.status()));
  EXPECT_THAT(missing.status().message(),
              HasSubstr("line 2 has the class 'dog'"));
}

TEST_F(CsvSourceTest, OptionsOfIndices) {
  Write("labels.csv", "f,l\nimages/a.jpg,1\nimages/b.jpg,3\n");
  const auto source = Open("?label_offset=-1&num_classes=10");
  EXPECT_THAT(
      *ReadAll(*source),
      ElementsAre(ElementsAre("image images/a.jpg", Scalar<int64_t>(0)),
                  ElementsAre("image images/b.jpg", Scalar<int64_t>(2))));
  EXPECT_EQ(source->info().schema().fields(1).num_classes(), 10);
  EXPECT_EQ(Open()->info().schema().fields(1).num_classes(), 4);
}

TEST_F(CsvSourceTest, LabelsOfManyBytesAndBoxesAreInTheIndex) {
  std::string table = "file,boxes";
  std::string rows[2] = {"images/a.jpg,\"[[1,2,3,4]]\"", "images/b.jpg,"};
  std::string labels;
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&table, ",n", i);
    absl::StrAppend(&labels, i == 0 ? "" : ",", "n", i);
    absl::StrAppend(&rows[0], ",", i);
    absl::StrAppend(&rows[1], ",", -i);
  }
  Write("labels.csv", table + "\n" + rows[0] + "\n" + rows[1] + "\n");
  const auto source = Open("?boxes=boxes&label=" + labels);
  const Schema& schema = source->info().schema();
  ASSERT_EQ(schema.fields_size(), 42);
  EXPECT_EQ(schema.fields(40).name(), "n39");
  EXPECT_EQ(schema.fields(41).name(), "boxes");
  EXPECT_EQ(schema.fields(41).kind(), FIELD_KIND_RAGGED);
  const auto samples = ReadAll(*source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ((*samples)[0][40], Scalar<int64_t>(39));
  EXPECT_EQ((*samples)[1][40], Scalar<int64_t>(-39));
  EXPECT_EQ((*samples)[0][41], Scalar<float>(1) + Scalar<float>(2) +
                                   Scalar<float>(3) + Scalar<float>(4));
  EXPECT_EQ((*samples)[1][41], "");
  EXPECT_TRUE(Index("?boxes=boxes&label=" + labels).ok());
}

TEST_F(CsvSourceTest, ATableMayHaveNoLabels) {
  Write("labels.csv", "file\nimages/b.jpg\nimages/a.jpg\n");
  EXPECT_THAT(*ReadAll(*Open("?label=")),
              ElementsAre(ElementsAre("image images/b.jpg"),
                          ElementsAre("image images/a.jpg")));
}

TEST_F(CsvSourceTest, ContentGivesTheFingerprintOfCopies) {
  const std::string listed = Open()->info().fingerprint();
  const auto index = Index();
  ASSERT_TRUE(index.ok()) << index.status();
  const std::string content = Open()->info().fingerprint();
  EXPECT_NE(content, listed);
  EXPECT_EQ(Open()->info().shards(0).content_sum(),
            (*index)->head().content_sum());
  // chmod changes the identities of files, and not the listing.
  ASSERT_EQ(chmod((folder_ / "images/a.jpg").c_str(), 0600), 0);
  ASSERT_EQ(chmod((folder_ / "labels.csv").c_str(), 0600), 0);
  const auto source = Open();
  EXPECT_EQ(source->info().fingerprint(), content);
  EXPECT_THAT(log_, HasSubstr("is kept without reading it again"));
  EXPECT_EQ(*ReadAll(*source), All());
  // A copy with other times.
  std::filesystem::create_directory(folder_ / "copy");
  std::filesystem::copy(folder_ / "images", folder_ / "copy/images",
                        std::filesystem::copy_options::recursive);
  Write("copy/labels.csv", ReadFile(folder_ / "labels.csv"));
  Write("copy/images/a.jpg", "image images/a.jpg");
  const auto uri = ExtentUri::Parse("csv", folder_ / "copy/labels.csv", true);
  LocalObjects objects;
  std::string file;
  ASSERT_TRUE(MakeExtentIndex(CsvFormat(), *uri, objects, options_.cache_dir,
                              {.threads = 1, .content = true, .progress = {}},
                              &file)
                  .ok());
  EXPECT_EQ(Open("", "copy/labels.csv")->info().fingerprint(), content);
  // The same images in another order are another dataset.
  Write("labels.csv",
        "file,class\nimages/c.jpg,dog\nimages/a.jpg,cat\nimages/b.jpg,dog\n");
  ASSERT_TRUE(Index().ok());
  EXPECT_NE(Open()->info().fingerprint(), content);
}

// The next start makes a new index, and serves the new file.
TEST_F(CsvSourceTest, AFileThatChangesIsADamagedSample) {
  const auto source = Open();
  EXPECT_EQ(CountIndexes(), 1);
  Write("images/a.jpg", "image images/x.jpg");
  std::filesystem::rename(folder_ / "images/a.jpg", folder_ / "images/new");
  Write("images/a.jpg", "image images/y.jpg");
  ::testing::internal::CaptureStderr();
  const absl::Status status = Read(*source, 1);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(folder_ / "images/a.jpg was "));
  EXPECT_EQ(GetErrorDetail(status).shard(), "images/a.jpg");
  EXPECT_THAT(log, HasSubstr("removed the index"));
  EXPECT_EQ(CountIndexes(), 0);
  EXPECT_TRUE(Read(*source, 0).ok());
  EXPECT_TRUE(source->CheckFiles().ok());
  EXPECT_EQ((*ReadAll(*Open()))[1][0], "image images/y.jpg");
}

// One that was made meanwhile stays.
TEST_F(CsvSourceTest, ANewerIndexIsNotRemoved) {
  const auto source = Open();
  Write("images/a.jpg", "another image");
  ASSERT_TRUE(Index().ok());
  EXPECT_TRUE(absl::IsDataLoss(Read(*source, 1)));
  EXPECT_EQ(CountIndexes(), 1);
}

TEST_F(CsvSourceTest, BadRowsAreNamedWithTheirLines) {
  Write("images/empty.jpg", "");
  ASSERT_EQ(mkfifo((folder_ / "images/fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop.jpg", folder_ / "images/loop.jpg");
  const std::string refused = Refused(
      "f,l\nimages/gone.jpg,1\nimages/a.jpg,1\nimages/empty.jpg,1\n"
      "images,1\nimages/fifo,1\nimages/loop.jpg,1\n"
      "images/../images/a.jpg,0\n\"images/\x01\xFF\n.jpg\",1\n",
      absl::StatusCode::kDataLoss);
  for (const std::string& part :
       {folder_ / "labels.csv: 7 rows cannot be used: line 2: ",
        folder_ / "images/gone.jpg",
        "line 4: " + folder_ / "images/empty.jpg is empty",
        "line 5: " + folder_ / "images is not a regular file",
        "line 6: " + folder_ / "images/fifo is not a regular file",
        std::string("line 7: "), folder_ / "images/loop.jpg",
        "line 8: " + folder_ / "images/../images/a.jpg is already named by "
                               "line 3",
        std::string("line 9: "),
        std::string("; repair or remove them, or pack the table without such "
                    "rows (`millrace-data pack --format=csv --skip_bad "
                    "--input=") +
            folder_ / "labels.csv --output=lmdb:FILE`)"}) {
    EXPECT_THAT(refused, HasSubstr(part));
  }
  EXPECT_FALSE(std::filesystem::exists(options_.cache_dir));
}

TEST_F(CsvSourceTest, BadTablesAreRefused) {
  using absl::StatusCode;
  EXPECT_THAT(Refused("", StatusCode::kDataLoss), HasSubstr("has no rows"));
  EXPECT_THAT(Refused("f,l\n", StatusCode::kDataLoss),
              HasSubstr("has a header and no rows"));
  EXPECT_THAT(Refused("f,l\nimages/a.jpg,\"x\n", StatusCode::kDataLoss),
              HasSubstr(folder_ / "labels.csv: line 2: a quote is not closed"));
  EXPECT_THAT(
      Refused("f,l,b\nimages/a.jpg,1,1 2 3\n", StatusCode::kDataLoss,
              "?label=l&boxes=b"),
      HasSubstr(folder_ / "labels.csv: line 2 has the boxes '1 2 3', and "));
  EXPECT_THAT(Refused("f,l,m\nimages/a.jpg,1,2\n", StatusCode::kInvalidArgument,
                      "?label=x"),
              HasSubstr("there is no column 'x'"));
  EXPECT_THAT(Refused("f,l\nimages/a.jpg,1\n", StatusCode::kInvalidArgument,
                      "?lable=l"),
              HasSubstr("did you mean"));
  std::filesystem::remove(folder_ / "labels.csv");
  const auto gone = TryOpen();
  EXPECT_TRUE(absl::IsNotFound(gone.status())) << gone.status();
  EXPECT_THAT(gone.status().message(),
              HasSubstr("there is no file " + folder_ / "labels.csv"));
  Write("labels.csv", "f,l\nimages/a.jpg,1\n");
  EXPECT_TRUE(
      absl::IsNotFound(TryOpen("?classes=" + folder_ / "none").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(TryOpen("", "images").status()));
}

TEST_F(CsvSourceTest, AFileWithoutPermissionIsADamagedSample) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const auto source = Open();
  ASSERT_EQ(chmod((folder_ / "images/a.jpg").c_str(), 0), 0);
  EXPECT_TRUE(absl::IsDataLoss(Read(*source, 1)));
  EXPECT_TRUE(absl::IsDataLoss(Index().status()));
}

TEST_F(CsvSourceTest, AFileThatChangesWhileItIsIndexedIsNamed) {
  const auto uri = ExtentUri::Parse("csv", folder_ / "labels.csv", true);
  LocalObjects objects;
  std::string file;
  int calls = 0;
  const auto index =
      MakeExtentIndex(CsvFormat(), *uri, objects, options_.cache_dir,
                      {.threads = 1,
                       .content = true,
                       .progress =
                           [&](int64_t done, int64_t, int64_t) {
                             if (++calls == 2)
                               Write("images/c.jpg", "longer than before");
                             EXPECT_LE(done, 3);
                             return true;
                           }},
                      &file);
  EXPECT_TRUE(absl::IsDataLoss(index.status())) << index.status();
  EXPECT_THAT(index.status().message(),
              HasSubstr(folder_ / "labels.csv: line 4: "));
  const auto stopped = MakeExtentIndex(
      CsvFormat(), *uri, objects, options_.cache_dir,
      {.threads = 1,
       .content = true,
       .progress = [](int64_t, int64_t, int64_t) { return false; }},
      &file);
  EXPECT_TRUE(absl::IsCancelled(stopped.status()));
}

// Paths are relative to the folder of a link to the table, as pack has it.
TEST_F(CsvSourceTest, ALinkToTheTableStays) {
  Write("tables/real.csv", ReadFile(folder_ / "labels.csv"));
  std::filesystem::create_symlink("tables/real.csv", folder_ / "link.csv");
  EXPECT_EQ(*ReadAll(*Open("", "link.csv")), All());
  EXPECT_TRUE(absl::IsDataLoss(TryOpen("", "tables/real.csv").status()));
}

TEST_F(CsvSourceTest, AbsolutePathsAndOddNames) {
  const std::string name = "images/\xFF\x01, \"x\".bin";
  Write(name, "odd");
  Write("other/labels.csv", "f,l\n" + folder_ / "images/a.jpg" + ",1\n" +
                                "\"../images/\xFF\x01, \"\"x\"\".bin\",0\n");
  const auto source = Open("", "other/labels.csv");
  EXPECT_THAT(*ReadAll(*source),
              ElementsAre(ElementsAre("image images/a.jpg", Scalar<int64_t>(1)),
                          ElementsAre("odd", Scalar<int64_t>(0))));
  EXPECT_EQ(source->sample_files()->FileOf(0), folder_ / "images/a.jpg");
}

TEST_F(CsvSourceTest, TheIndexAndTheLargestFileCountInTheBudget) {
  ByteBudget budget(1 << 20);
  options_.read_budget = &budget;
  options_.metadata_budget = &budget;
  Write("images/a.jpg", std::string(700 << 10, 'x'));
  {
    const auto source = Open();
    EXPECT_GE(budget.used(), 700u << 10);
    EXPECT_GE(source->metadata_bytes(), 700u << 10);
  }
  EXPECT_EQ(budget.used(), 0);
  Write("images/a.jpg", std::string(2 << 20, 'x'));
  std::filesystem::remove_all(options_.cache_dir);
  const auto refused = TryOpen();
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(),
              HasSubstr("the largest file of csv:"));
}

// Many files: several tasks of several threads, and pages of the map.
TEST_F(CsvSourceTest, ManyFilesKeepTheirOrder) {
  constexpr int kFiles = 1000;
  std::string table = "f,l\n";
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = absl::StrCat("many/", (i * 7) % kFiles, ".jpg");
    Write(name, name);
    absl::StrAppend(&table, name, ",", i % 17, "\n");
  }
  Write("labels.csv", table);
  const auto index = Index();
  ASSERT_TRUE(index.ok()) << index.status();
  const auto source = Open();
  const auto samples = ReadAll(*source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  for (int i = 0; i < kFiles; ++i) {
    EXPECT_EQ((*samples)[i][0],
              absl::StrCat("many/", (i * 7) % kFiles, ".jpg"));
    EXPECT_EQ((*samples)[i][1], Scalar<int64_t>(i % 17));
  }
  EXPECT_EQ((*index)->ListingSum(), [&] {
    Hash128 sum;
    HashFromHex((*index)->head().listing_sum(), &sum);
    return sum;
  }());
}

// As pandas, polars and duckdb write them (tests/testdata/csv/make_csv.py).
TEST_F(CsvSourceTest, TablesOfOtherProgramsAreRead) {
  const std::vector<std::string> names = {"photos/a 1.jpg",
                                          "photos/b, \"two\".jpg",
                                          "photos/\u00fc.jpg", "photos/d.jpg"};
  for (const std::string& name : names) Write(name, "image " + name);
  for (const char* table :
       {"pandas.csv", "pandas.tsv", "polars.csv", "duckdb.csv"}) {
    SCOPED_TRACE(table);
    Write(table, ReadFile(absl::StrCat("tests/testdata/csv/", table)));
    const auto source =
        Open("?label=class,count,score&boxes=boxes&path=file", table);
    ASSERT_NE(source, nullptr);
    const auto samples = ReadAll(*source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    ASSERT_EQ(samples->size(), 4);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ((*samples)[i][0], "image " + names[i]);
      EXPECT_EQ((*samples)[i][1],
                Scalar<int64_t>(std::vector<int>{2, 1, 2, 0}[i]));
      EXPECT_EQ((*samples)[i][2],
                Scalar<int64_t>(std::vector<int>{3, 0, 12, 7}[i]));
      EXPECT_EQ((*samples)[i][3],
                Scalar<float>(std::vector<float>{0.5, 1, -2.25, 1e-3}[i]));
      EXPECT_EQ((*samples)[i][4].size(),
                std::vector<size_t>({16, 0, 32, 16})[i]);
    }
    EXPECT_EQ((*samples)[0][4], Scalar<float>(10) + Scalar<float>(20) +
                                    Scalar<float>(30) + Scalar<float>(40.5));
    EXPECT_THAT(source->info().schema().fields(1).class_names(),
                ElementsAre("asteroid", "planet, small", "ship"));
  }
  Write("c.csv", ReadFile("tests/testdata/csv/pandas_corners.csv"));
  const auto source = Open("?boxes=x1,y1,x2,y2", "c.csv");
  EXPECT_EQ(source->info().schema().fields(2).kind(), FIELD_KIND_TENSOR);
  EXPECT_THAT(source->info().schema().fields(2).shape(), ElementsAre(1, 4));
  EXPECT_EQ((*ReadAll(*source))[0][2], Scalar<float>(10) + Scalar<float>(20) +
                                           Scalar<float>(30) +
                                           Scalar<float>(40.5));
}

}  // namespace
}  // namespace millrace::storage
