// `millrace-data pack --format=csv`: tables of paths and labels become datasets
// with the samples of their rows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/subprocess.h"

namespace millrace::data_tool {
namespace {

using storage::Scalar;
using storage::WriteFile;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CsvPackTest : public ::testing::Test {
 protected:
  CsvPackTest() {
    uint64_t seed = 0;
    for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"}) {
      Write(absl::StrCat("images/", name), Jpeg(seed++));
    }
  }
  void Write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    WriteFile(file, bytes);
  }
  std::string Image(const std::string& name) {
    return storage::ReadFile(folder_ / ("images/" + name));
  }
  // `options`: "?label=class".
  Result Pack(const std::string& table, const std::string& options = "",
              std::vector<std::string> more = {}) {
    if (!table.empty()) Write("labels.csv", table);
    std::vector<std::string> args = {
        "pack", "--format=csv", "--input=" + folder_ / "labels.csv" + options,
        "--output=" + output_, "--overwrite"};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }
  // Packs and reads.
  storage::Samples Packed(const std::string& table,
                          const std::string& options = "") {
    const Result packed = Pack(table, options);
    EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
    EXPECT_EQ(packed.err, "");
    return packed.code == program::kExitOk ? Read(output_) : storage::Samples();
  }
  storage::Samples Read(const std::string& uri) {
    const auto source =
        storage::OpenRecordSource(uri, {.cache_dir = folder_ / "cache"});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    info_ = (*source)->info();
    const auto samples = storage::ReadAll(**source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.ok() ? *samples : storage::Samples();
  }
  void ExpectRefused(const std::string& table, const std::string& options,
                     const std::string& sentence, int code,
                     std::vector<std::string> more = {}) {
    const Result refused = Pack(table, options, more);
    EXPECT_EQ(refused.code, code) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(sentence));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  }
  std::vector<std::string> ClassNames(int field = 1) const {
    const auto& names = info_.schema().fields(field).class_names();
    return {names.begin(), names.end()};
  }

  storage::TempFolder folder_;
  std::string output_ = "lmdb:" + folder_ / "out";
  DatasetInfo info_;  // of the last Read()
};

TEST_F(CsvPackTest, ATableOfNamesIsTheDatasetOfItsFolder) {
  const std::string table =
      "file,class\nimages/cat/1.jpg,cat\nimages/cat/2.jpg,cat\n"
      "images/dog/1.jpg,dog\n";
  for (const std::string& scheme : storage::Schemes()) {
    const std::string from_folder = scheme + ":" + folder_ / (scheme + "1");
    ASSERT_EQ(Call({"pack", "--format=imagefolder",
                    "--input=" + folder_ / "images", "--output=" + from_folder})
                  .code,
              program::kExitOk);
    const storage::Samples expected = Read(from_folder);
    const DatasetInfo folder = info_;
    output_ = scheme + ":" + folder_ / (scheme + "2");
    EXPECT_EQ(Packed(table), expected);
    EXPECT_EQ(info_.fingerprint(), folder.fingerprint());
    EXPECT_EQ(info_.schema().DebugString(), folder.schema().DebugString());
    EXPECT_EQ(info_.train_preset(), folder.train_preset());
    EXPECT_EQ(info_.eval_preset(), folder.eval_preset());
    EXPECT_EQ(Call({"verify", output_}).code, program::kExitOk);
    if (scheme == "parquet") {
      EXPECT_THAT(storage::ReadFile(folder_ / "parquet2"),
                  AllOf(HasSubstr("images/cat/1.jpg"),
                        Not(HasSubstr(folder_ / "images"))));
    }
  }
}

TEST_F(CsvPackTest, SamplesHaveTheOrderOfTheRows) {
  EXPECT_THAT(Packed("class,note,file\ndog,x,images/dog/1.jpg\n\n"
                     "cat,\"two\nlines\",./images/cat/2.jpg\r\n"
                     "\"a, \"\"b\"\"\",," +
                         folder_ / "images/cat/1.jpg" + "\n",
                     "?path=file&label=class"),
              ElementsAre(ElementsAre(Image("dog/1.jpg"), Scalar<int64_t>(2)),
                          ElementsAre(Image("cat/2.jpg"), Scalar<int64_t>(1)),
                          ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(0))));
  EXPECT_THAT(ClassNames(), ElementsAre("a, \"b\"", "cat", "dog"));
}

TEST_F(CsvPackTest, WholeNumbersAreClassIndices) {
  const std::string rows = "images/dog/1.jpg;4\nimages/cat/1.jpg;0\n";
  EXPECT_THAT(Packed(rows, "?header=no&separator=semicolon"),
              ElementsAre(ElementsAre(Image("dog/1.jpg"), Scalar<int64_t>(4)),
                          ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(0))));
  EXPECT_EQ(info_.schema().fields(1).num_classes(), 5);
  EXPECT_THAT(ClassNames(), IsEmpty());
  EXPECT_EQ(info_.train_preset(), "imagenet_train");

  Packed(rows, "?header=no&separator=semicolon&num_classes=10");
  EXPECT_EQ(info_.schema().fields(1).num_classes(), 10);
  Write("names", "a\nb\nc\nd\ne\n");
  EXPECT_THAT(Pack("f,l\nimages/dog/1.jpg,5\nimages/cat/1.jpg,1\n",
                   "?label_offset=-1&classes=" + folder_ / "names")
                  .err,
              HasSubstr("3 classes have no sample: b, c, d"));
  EXPECT_THAT(Read(output_),
              ElementsAre(ElementsAre(Image("dog/1.jpg"), Scalar<int64_t>(4)),
                          ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(0))));
  EXPECT_THAT(ClassNames(), ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(CsvPackTest, OtherNumbersArePlainValues) {
  EXPECT_THAT(Packed("f,l\nimages/dog/1.jpg,-3\nimages/cat/1.jpg,8\n"),
              ElementsAre(ElementsAre(Image("dog/1.jpg"), Scalar<int64_t>(-3)),
                          ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(8))));
  EXPECT_EQ(info_.schema().fields(1).num_classes(), 0);
  EXPECT_THAT(Packed("f,l\nimages/dog/1.jpg,1.5\nimages/cat/1.jpg,8\n"),
              ElementsAre(ElementsAre(Image("dog/1.jpg"), Scalar<float>(1.5)),
                          ElementsAre(Image("cat/1.jpg"), Scalar<float>(8))));
}

TEST_F(CsvPackTest, SeveralLabelsAreFieldsOfTheirNames) {
  EXPECT_THAT(
      Packed("file,age,sex\nimages/dog/1.jpg,7,m\nimages/cat/1.jpg,3,f\n",
             "?label=sex,age"),
      ElementsAre(ElementsAre(Image("dog/1.jpg"), Scalar<int64_t>(1),
                              Scalar<int64_t>(7)),
                  ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(0),
                              Scalar<int64_t>(3))));
  EXPECT_EQ(info_.schema().fields(1).name(), "sex");
  EXPECT_THAT(ClassNames(), ElementsAre("f", "m"));
  EXPECT_EQ(info_.schema().fields(2).name(), "age");
  EXPECT_EQ(info_.train_preset(), "");
}

// A part of a dataset may lack classes of another part.
TEST_F(CsvPackTest, AFileOfNamesGivesTheOrderOfTheClasses) {
  const std::string table = "f,l\nimages/dog/1.jpg,dog\nimages/cat/1.jpg,cat\n";
  const std::string names = "?classes=" + folder_ / "names";
  Write("names", "dog\nbird\ncat\n");
  EXPECT_THAT(Pack(table, names).err, HasSubstr("1 class has no sample: bird"));
  EXPECT_THAT(Read(output_),
              ElementsAre(ElementsAre(Image("dog/1.jpg"), Scalar<int64_t>(0)),
                          ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(2))));
  EXPECT_THAT(ClassNames(), ElementsAre("dog", "bird", "cat"));
  std::filesystem::remove(folder_ / "out");
  Write("names", "dog\nbird\n");
  ExpectRefused(table, names,
                "labels.csv: line 3 has the class 'cat', and " +
                    folder_ / "names has no such name",
                program::kExitUsage);
  Write("names", "dog\ncat\ndog\n");
  ExpectRefused(table, names, "has the name 'dog' twice", program::kExitUsage);
}

// The server reads the same samples of the table itself.
TEST_F(CsvPackTest, TheTableAsASourceIsThePackedDataset) {
  Write("names", "fox\ndog\ncat\n");
  const std::string names = "&classes=" + folder_ / "names";
  const std::string table =
      "x1,y1,x2,y2,file,class,index,note,list\n"
      "1,2,3,4,images/dog/1.jpg,dog,3,0.5,\"[[1,2,3,4]]\"\n"
      "5,6,7,8,images/cat/2.jpg,cat,1,-1,[]\n"
      "9,8,9,9.5,images/cat/1.jpg,cat,1,2e3,\"[1,2,3,4,5,6,7,8]\"\n";
  int number = 0;
  for (const std::string& options :
       {std::string("?path=file&label=class"), "?path=file&label=class" + names,
        std::string("?path=file&label=index&label_offset=-1"),
        std::string("?path=file&label=index&num_classes=7&boxes=list"),
        std::string("?path=file&label=note"),
        std::string("?path=file&label=class,index,note&boxes=x1,y1,x2,y2"),
        std::string("?path=file&label=&boxes=list")}) {
    SCOPED_TRACE(options);
    output_ = "lmdb:" + folder_ / absl::StrCat("out", number++);
    const Result packed = Pack(table, options);
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    const storage::Samples expected = Read(output_);
    const DatasetInfo info = info_;
    const std::string uri = "csv:" + folder_ / "labels.csv" + options;
    const std::string cache = "--cache_dir=" + folder_ / "cache";
    const Result indexed = Call({"index", uri, cache});
    EXPECT_EQ(indexed.code, program::kExitOk) << indexed.err;
    EXPECT_EQ(Read(uri), expected);
    EXPECT_EQ(info_.fingerprint(), info.fingerprint());
    EXPECT_EQ(info_.schema().DebugString(), info.schema().DebugString());
    EXPECT_EQ(info_.train_preset(), info.train_preset());
    EXPECT_EQ(info_.eval_preset(), info.eval_preset());
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"diff", uri, output_},
          std::vector<std::string>{"verify", uri},
          std::vector<std::string>{"inspect", uri},
          std::vector<std::string>{"head", uri}}) {
      std::vector<std::string> args = command;
      args.push_back(cache);
      const Result result = Call(args);
      EXPECT_EQ(result.code, program::kExitOk) << command[0] << result.err;
    }
    const std::string again = absl::StrCat(output_, "b");
    const Result copied =
        Call({"pack", "--input=" + uri, "--output=" + again, cache});
    EXPECT_EQ(copied.code, program::kExitOk) << copied.err;
    EXPECT_EQ(Read(again), expected);
    EXPECT_EQ(info_.fingerprint(), info.fingerprint());
  }
}

// Numbers that are no classes need no read of the images.
TEST_F(CsvPackTest, TheLabelsOfASourceAreKnownWithoutAnIndexOfTheContent) {
  Write("labels.csv", "f,l\nimages/dog/1.jpg,-3\nimages/cat/1.jpg,8\n");
  const std::string uri = "csv:" + folder_ / "labels.csv";
  const Result packed = Call({"pack", "--input=" + uri, "--output=" + output_,
                              "--cache_dir=" + folder_ / "cache"});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  Read(uri);
  EXPECT_EQ(info_.shards(0).content_sum(), "");
}

TEST_F(CsvPackTest, ASourceIsTheImageFolderOfTheSameFiles) {
  Write("labels.csv",
        "file,class\nimages/cat/1.jpg,cat\nimages/cat/2.jpg,cat\n"
        "images/dog/1.jpg,dog\n");
  const std::string cache = "--cache_dir=" + folder_ / "cache";
  const std::string csv = "csv:" + folder_ / "labels.csv";
  const std::string images = "imagefolder:" + folder_ / "images";
  for (const std::string& uri : {csv, images}) {
    EXPECT_EQ(Call({"index", uri, cache}).code, program::kExitOk);
  }
  const storage::Samples expected = Read(images);
  const std::string fingerprint = info_.fingerprint();
  EXPECT_EQ(Read(csv), expected);
  EXPECT_EQ(info_.fingerprint(), fingerprint);
  const Result equal = Call({"diff", csv, images, cache});
  EXPECT_EQ(equal.code, program::kExitOk) << equal.err;
}

TEST_F(CsvPackTest, PathsHaveOddBytes) {
  const std::string name = "images/\xFF\x01, \"x\".bin";
  Write(name, Jpeg(9));
  for (const std::string& scheme : storage::Schemes()) {
    output_ = scheme + ":" + folder_ / scheme;
    EXPECT_THAT(Packed("f,l\n\"images/\xFF\x01, \"\"x\"\".bin\",a\n"),
                ElementsAre(ElementsAre(Jpeg(9), Scalar<int64_t>(0))));
    EXPECT_EQ(Call({"verify", output_}).code, program::kExitOk);
    // A column of paths in Parquet has UTF-8 alone.
    const std::string copy = absl::StrCat(output_, "2");
    const Result copied =
        Call({"pack", "--input=csv:" + folder_ / "labels.csv",
              "--output=" + copy, "--cache_dir=" + folder_ / "cache"});
    EXPECT_EQ(copied.code, program::kExitOk) << copied.err;
    EXPECT_EQ(Call({"verify", copy}).code, program::kExitOk);
  }
}

TEST_F(CsvPackTest, BadFilesAreNamedWithTheirLinesOrLeftOut) {
  Write("images/empty.jpg", "");
  Write("images/notes.txt", "no image");
  Write("images/text.jpg", "no image");
  Write("images/cut.jpg", Jpeg(5).substr(0, Jpeg(5).size() / 2));
  const std::string table =
      "f,l\nimages/cut.jpg,fox\nimages/cat/1.jpg,cat\nimages/gone.jpg,dog\n"
      "images/empty.jpg,dog\nimages/notes.txt,dog\nimages/text.jpg,dog\n"
      "images/./cat/1.jpg,dog\nimages,dog\nimages/dog/1.jpg,dog\n";
  ExpectRefused(table, "", "6 rows cannot be packed: line 4: cannot open ",
                program::kExitFailed);
  const std::string err = Pack(table).err;
  for (const std::string& part :
       {folder_ / "labels.csv: 6 rows", folder_ / "images/gone.jpg",
        "line 5: " + folder_ / "images/empty.jpg is empty",
        "line 6: " + folder_ / "images/notes.txt is not a JPEG, PNG or WebP "
                               "image; line 7",
        "line 7: " + folder_ / "images/text.jpg is not a JPEG, PNG or WebP "
                               "image, although its name says so",
        "line 8: " + folder_ / "images/./cat/1.jpg is already named by line 3",
        "line 9: " + folder_ / "images is not a regular file",
        std::string("; repair or remove them, or skip such rows with "
                    "--skip_bad")}) {
    EXPECT_THAT(err, HasSubstr(part));
  }
  const Result skipped = Pack("", "", {"--skip_bad"});
  EXPECT_EQ(skipped.code, program::kExitOk) << skipped.err;
  EXPECT_THAT(skipped.err,
              AllOf(HasSubstr("7 bad rows of "), HasSubstr("line 2: "),
                    HasSubstr("cut.jpg does not decode: "),
                    HasSubstr("1 class has no sample: fox")));
  EXPECT_THAT(skipped.out, HasSubstr("packed 2 samples"));
  EXPECT_THAT(Read(output_),
              ElementsAre(ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(0)),
                          ElementsAre(Image("dog/1.jpg"), Scalar<int64_t>(1))));
}

TEST_F(CsvPackTest, ATruncatedImageIsFoundUnlessNothingIsDecoded) {
  Write("images/cut.jpg", Jpeg(5).substr(0, Jpeg(5).size() / 2));
  const std::string table = "f,l\nimages/cat/1.jpg,1\nimages/cut.jpg,0\n";
  ExpectRefused(
      table, "",
      "labels.csv: line 3: " + folder_ / "images/cut.jpg does not decode: ",
      program::kExitFailed);
  ExpectRefused("f,l\nimages/cut.jpg,0\n", "", "no row of ",
                program::kExitFailed, {"--skip_bad"});
  const Result blind = Pack(table, "", {"--no_decode"});
  EXPECT_EQ(blind.code, program::kExitOk) << blind.err;
  EXPECT_THAT(blind.out, AllOf(HasSubstr("packed 2 samples"),
                               HasSubstr("not decoded (--no_decode)")));
}

TEST_F(CsvPackTest, BadRowsAreRefusedWithTheirLines) {
  for (const auto& more : {std::vector<std::string>(), {"--skip_bad"}}) {
    ExpectRefused("f,l\nimages/cat/1.jpg,a\nimages/cat/2.jpg\n", "",
                  folder_ / "labels.csv: line 3 has 1 cell, and line 1 has 2",
                  program::kExitFailed, more);
  }
  ExpectRefused("images/cat/1.jpg,a\n", "", "add header=no",
                program::kExitFailed);
}

TEST_F(CsvPackTest, WrongOptionsAreUsageErrors) {
  const std::string table = "file,a,b\nimages/cat/1.jpg,1,x\n";
  const struct {
    const char* options;
    const char* says;
  } cases[] = {
      {"", "name the columns of the labels, for example label=class"},
      {"?label=c", "there is no column 'c'; its columns are 'file', 'a', 'b'"},
      {"?lable=a", "did you mean"},
      {"?header=maybe", "write yes or no"},
      {"?label", "?label is no list of options"},
      {"?label=a&num_classes=1", "num_classes=1, but the largest class index"},
      {"?label=a&label_offset=-2",
       "line 2 has the label 1 (label_offset=-2), which is no class index"},
      {"?label=b&num_classes=3", "the labels of "},
      {"?label=a,b&num_classes=3", "need a field with a class index"},
      {"?label=a&boxes=b,b", "write the name of one column, or of four"},
      {"?label=a&boxes=c", "there is no column 'c'"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.options);
    ExpectRefused(table, each.options, each.says, program::kExitUsage);
  }
  ExpectRefused(table, "?label=a", "--split has no effect with --format=csv",
                program::kExitUsage, {"--split=train"});
  std::filesystem::remove(folder_ / "labels.csv");
  ExpectRefused("", "?label=a",
                "there is no file " + folder_ /
                                          "labels.csv; set --input to "
                                          "the table",
                program::kExitUsage);
}

// A '?' in the name of an existing table begins no options. Paths are relative
// to the folder of a link, not to that of the file behind it.
TEST_F(CsvPackTest, TheTableKeepsItsNameAndFolder) {
  Write("tables/real", "f,l\nimages/cat/1.jpg,1\n");
  std::filesystem::create_symlink("tables/real", folder_ / "a?b=c.csv");
  for (const char* options : {"", "?label=l"}) {
    const Result packed = Call({"pack", "--format=csv",
                                "--input=" + folder_ / "a?b=c.csv" + options,
                                "--output=" + output_, "--overwrite"});
    EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  }
}

TEST_F(CsvPackTest, DecodersOfOperatorsKnowMoreImages) {
  const std::string pnm = absl::StrCat("P6 4 4 255\n", std::string(48, 'x'));
  Write("images/1.ppm", pnm);
  const std::string table = "f,l\nimages/1.ppm,a\nimages/cat/1.jpg,b\n";
  ExpectRefused(table, "", "images/1.ppm is not a JPEG, PNG or WebP image",
                program::kExitFailed);
  const std::string flag =
      "--operators=" + testing::ProgramPath("docs/example/operators/pnm.so");
  const Result packed = Pack(table, "", {flag});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(Read(output_),
              ElementsAre(ElementsAre(pnm, Scalar<int64_t>(0)),
                          ElementsAre(Image("cat/1.jpg"), Scalar<int64_t>(1))));
}

TEST_F(CsvPackTest, JpegsBecomeSeekable) {
  const Result packed =
      Pack("f,l\nimages/cat/1.jpg,1\nimages/cat/2.jpg,0\n", "", {"--seekable"});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.out, HasSubstr("of 2 images seekable"));
}

}  // namespace
}  // namespace millrace::data_tool
