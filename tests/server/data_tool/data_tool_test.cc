// The subcommands from end to end, as a user calls them: results, sentences
// and exit codes.

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <regex>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/png_encoder.h"
#include "server/storage/open.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::data_tool {
namespace {

using storage::ReadFile;
using storage::WriteFile;

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

MATCHER_P(FailsWith, sentence, "") {
  *result_listener << "exit code " << arg.code << ", stderr: " << arg.err;
  return arg.code == program::kExitFailed &&
         ::testing::Value(arg.err, HasSubstr(std::string(sentence)));
}

MATCHER_P(IsUsageError, sentence, "") {
  *result_listener << "exit code " << arg.code << ", stderr: " << arg.err;
  return arg.code == program::kExitUsage &&
         ::testing::Value(arg.err, HasSubstr(std::string(sentence)));
}

std::string BigEndian(uint32_t value) {
  return storage::Scalar(__builtin_bswap32(value));
}

std::string Idx(std::vector<uint32_t> shape, absl::string_view bytes) {
  std::string file("\0\0\x08", 3);
  file.push_back(static_cast<char>(shape.size()));
  for (uint32_t extent : shape) file += BigEndian(extent);
  return absl::StrCat(file, bytes);
}

std::string Gzip(absl::string_view bytes) {
  std::string out(compressBound(bytes.size()) + 64, 0);
  z_stream stream{};
  EXPECT_EQ(
      deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Pixels(int64_t count) {
  std::string pixels;
  for (int64_t i = 0; i < count; ++i) pixels.push_back(i * 31 % 251);
  return pixels;
}

// A small photograph, and what a program has left behind its end.
std::string Jpeg(absl::string_view rest) {
  JpegKind kind;
  kind.width = 16;
  kind.height = 8;
  const std::vector<uint8_t> jpeg = WriteJpeg(kind, 1);
  return absl::StrCat(std::string(jpeg.begin(), jpeg.end()), rest);
}

// A file that only begins as one.
std::string JpegStart(absl::string_view rest) {
  return absl::StrCat("\xFF\xD8\xFF\xE0", rest);
}

class DataToolTest : public ::testing::Test {
 protected:
  // cat: 3 (one nested), dog: 2.
  std::string MakeImageFolder() {
    const std::string root = folder_ / "images";
    for (const char* name : {"cat/b", "dog"}) {
      std::filesystem::create_directories(absl::StrCat(root, "/", name));
    }
    std::string png;
    const std::vector<uint8_t> pixels(12, 7);
    EXPECT_TRUE(EncodePng(pixels, 2, 2, 3, &png).ok());
    WriteFile(root + "/cat/2.JPG", Jpeg("two"));
    WriteFile(root + "/cat/10.jpeg", Jpeg("ten"));
    WriteFile(root + "/cat/b/1.png", png);
    WriteFile(root + "/dog/a.jpg", Jpeg("a"));
    WriteFile(root + "/dog/b.jpg", Jpeg("b"));
    return root;
  }
  std::string MakeIdx(int64_t samples, bool gzip = false) {
    const std::string root = folder_ / "idx";
    std::filesystem::create_directories(root);
    std::string labels;
    for (int64_t i = 0; i < samples; ++i) labels.push_back(i % 10);
    const uint32_t n = samples;
    const std::string images = Idx({n, 28, 28}, Pixels(samples * 784));
    const std::string suffix = gzip ? ".gz" : "";
    for (const char* split : {"train", "t10k"}) {
      WriteFile(absl::StrCat(root, "/", split, "-images-idx3-ubyte", suffix),
                gzip ? Gzip(images) : images);
      WriteFile(absl::StrCat(root, "/", split, "-labels-idx1-ubyte", suffix),
                gzip ? Gzip(Idx({n}, labels)) : Idx({n}, labels));
    }
    return root;
  }
  Result PackFolder(std::vector<std::string> more) {
    std::vector<std::string> args = {"pack", "--format=imagefolder",
                                     "--input=" + folder_ / "images"};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }
  Result PackIdx(std::vector<std::string> more) {
    std::vector<std::string> args = {"pack", "--format=idx",
                                     "--input=" + folder_ / "idx"};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }
  std::string Out(absl::string_view scheme, absl::string_view name) {
    return absl::StrCat("--output=", scheme, ":", folder_ / name);
  }
  std::string Uri(absl::string_view scheme, absl::string_view name) {
    return absl::StrCat(scheme, ":", folder_ / name);
  }
  storage::Samples ReadDataset(const std::string& uri,
                               DatasetInfo* info = nullptr) {
    const auto source = storage::OpenRecordSource(uri, {});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    if (info != nullptr) *info = (*source)->info();
    const auto samples = storage::ReadAll(**source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    return *samples;
  }
  storage::TempFolder folder_;
};

TEST_F(DataToolTest, AnImageFolderIsPackedInBytewiseOrder) {
  MakeImageFolder();
  for (const std::string& scheme : storage::Schemes()) {
    const Result packed = PackFolder({Out(scheme, scheme)});
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    EXPECT_THAT(packed.out, HasSubstr("packed 5 samples"));
    EXPECT_EQ(packed.err, "");
    DatasetInfo info;
    const storage::Samples samples = ReadDataset(Uri(scheme, scheme), &info);
    ASSERT_EQ(samples.size(), 5);
    EXPECT_EQ(samples[0][0], Jpeg("ten"));  // cat/10.jpeg
    EXPECT_EQ(samples[1][0], Jpeg("two"));  // cat/2.JPG
    EXPECT_EQ(samples[2][0].substr(1, 3), "PNG");
    EXPECT_EQ(samples[3][0], Jpeg("a"));
    EXPECT_EQ(samples[2][1], storage::Scalar<int64_t>(0));
    EXPECT_EQ(samples[3][1], storage::Scalar<int64_t>(1));
    EXPECT_THAT(info.schema().fields(1).class_names(),
                ElementsAre("cat", "dog"));
    EXPECT_EQ(info.train_preset(), "imagenet_train");
    EXPECT_EQ(info.eval_preset(), "imagenet_eval");
  }
}

TEST_F(DataToolTest, WebpImagesArePackedAndOtherRiffFilesAreNot) {
  const std::string root = MakeImageFolder();
  const std::string webp("RIFF\x10\0\0\0WEBPVP8 ", 16);
  WriteFile(root + "/dog/c.webp", webp);
  const Result packed = PackFolder({Out("lmdb", "webp"), "--no_decode"});
  ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
  const storage::Samples samples = ReadDataset(Uri("lmdb", "webp"));
  ASSERT_EQ(samples.size(), 6);
  EXPECT_EQ(samples[5][0], webp);
  WriteFile(root + "/dog/d.webp", std::string("RIFF\x10\0\0\0WAVEfmt ", 16));
  const Result refused = PackFolder({Out("lmdb", "wave")});
  EXPECT_NE(refused.code, program::kExitOk);
  EXPECT_THAT(refused.err, HasSubstr("not a JPEG, PNG or WebP image"));
}

TEST_F(DataToolTest, FormatsAndShardsHaveOneFingerprint) {
  MakeImageFolder();
  std::vector<std::string> fingerprints;
  for (const std::string& scheme : storage::Schemes()) {
    for (int shards : {1, 4}) {
      const std::string name = absl::StrCat(scheme, shards);
      ASSERT_EQ(
          PackFolder({Out(scheme, name), absl::StrCat("--shards=", shards)})
              .code,
          program::kExitOk);
      DatasetInfo info;
      ReadDataset(Uri(scheme, name), &info);
      EXPECT_EQ(info.shards_size(), shards);
      fingerprints.push_back(info.fingerprint());
    }
  }
  EXPECT_THAT(fingerprints, ::testing::Each(fingerprints[0]));
}

TEST_F(DataToolTest, OtherFilesAreLeftOutAndCounted) {
  MakeImageFolder();
  WriteFile(folder_ / "images/readme.txt", "x");
  WriteFile(folder_ / "images/cat/notes.txt", "x");
  WriteFile(folder_ / "images/cat/.hidden.jpg", "x");
  const Result packed = PackFolder({Out("lmdb", "d")});
  EXPECT_EQ(packed.code, program::kExitOk);
  EXPECT_THAT(packed.err, HasSubstr("2 files left out"));
  EXPECT_THAT(packed.err,
              HasSubstr("class folder): readme.txt, cat/notes.txt"));
}

// They went without a word.
TEST_F(DataToolTest, HiddenFilesAndFoldersAreCounted) {
  MakeImageFolder();
  for (const char* folder : {".git", "cat/.thumbs", "cat/__MACOSX"}) {
    std::filesystem::create_directory(folder_ /
                                      absl::StrCat("images/", folder));
  }
  WriteFile(folder_ / "images/.git/1.jpg", Jpeg("git"));
  WriteFile(folder_ / "images/cat/.thumbs/1.jpg", Jpeg("thumb"));
  WriteFile(folder_ / "images/cat/__MACOSX/._1.jpg", "x");
  WriteFile(folder_ / "images/dog/.hidden.jpg", Jpeg("hidden"));
  const Result packed = PackFolder({Out("lmdb", "d")});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(
      packed.err,
      HasSubstr(
          "4 hidden files or folders left out (the name begins with a dot): "
          ".git, cat/.thumbs, cat/__MACOSX/._1.jpg, dog/.hidden.jpg"));
}

// s0.jpg and s0.png of a conversion were two samples, and no line said so.
TEST_F(DataToolTest, FilesThatShareAStemAreNamed) {
  MakeImageFolder();
  EXPECT_THAT(PackFolder({Out("lmdb", "one")}).err, Not(HasSubstr("share")));
  WriteFile(folder_ / "images/cat/2.jpeg", Jpeg("again"));
  WriteFile(folder_ / "images/dog/2.jpeg", Jpeg("other"));
  const Result packed = PackFolder({Out("lmdb", "d")});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(
      packed.err,
      HasSubstr("2 files share the stem 2 in " + folder_ / "images/cat" +
                ": each file is packed as a separate sample"));
}

// Opening a FIFO waited for a writer: for ever.
TEST_F(DataToolTest, WhatIsNoRegularFileIsABadFile) {
  MakeImageFolder();
  const std::string fifo = folder_ / "images/cat/fifo.jpg";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder_ / "images/cat/notes").c_str(), 0600), 0);
  EXPECT_THAT(
      PackFolder({Out("lmdb", "d")}),
      FailsWith(fifo + " is not a regular file but a folder, a FIFO, "));
  const Result packed = PackFolder({Out("lmdb", "d"), "--skip_bad"});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.err, HasSubstr("1 bad file left out: " + fifo));
  EXPECT_THAT(packed.err, HasSubstr("in a class folder): cat/notes"));
  // A link to an image is one.
  std::filesystem::remove(fifo);
  std::filesystem::create_symlink(folder_ / "images/cat/2.JPG", fifo);
  const Result linked = PackFolder({Out("lmdb", "e")});
  EXPECT_EQ(linked.code, program::kExitOk) << linked.err;
}

// The same of IDX files, which were opened before they were looked at.
TEST_F(DataToolTest, AnIdxFileThatIsNoRegularFileIsRefused) {
  MakeIdx(3);
  const std::string images = folder_ / "idx/train-images-idx3-ubyte";
  std::filesystem::remove(images);
  ASSERT_EQ(mkfifo(images.c_str(), 0600), 0);
  EXPECT_THAT(
      PackIdx({Out("lmdb", "d")}),
      FailsWith(images + " is not a regular file but a folder, a FIFO, "));
}

TEST_F(DataToolTest, ALongListOfFilesIsCutAndCounted) {
  MakeImageFolder();
  for (int i = 10; i < 30; ++i) {
    WriteFile(folder_ / absl::StrCat("images/cat/note", i, ".txt"), "x");
    WriteFile(folder_ / absl::StrCat("images/dog/bad", i, ".jpg"), "no image");
  }
  const Result refused = PackFolder({Out("lmdb", "d")});
  EXPECT_THAT(refused, FailsWith("20 files cannot be packed: "));
  EXPECT_THAT(refused.err, AllOf(HasSubstr("dog/bad19.jpg"),
                                 HasSubstr("; and 10 more; repair"),
                                 Not(HasSubstr("bad20"))));
  const Result packed = PackFolder({Out("lmdb", "d"), "--skip_bad"});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(
      packed.err,
      AllOf(HasSubstr("20 files left out"), HasSubstr("note19.txt"),
            HasSubstr(", and 10 more"), Not(HasSubstr("note20")),
            HasSubstr("20 bad files left out: "), HasSubstr("; and 10 more")));
}

// Images of formats that are not read went without a word.
TEST_F(DataToolTest, AnImageOfAnotherFormatIsNoOtherFile) {
  MakeImageFolder();
  WriteFile(folder_ / "images/dog/scan.BMP", "BM....");
  const Result refused = PackFolder({Out("lmdb", "d")});
  EXPECT_THAT(refused, FailsWith("dog/scan.BMP has the name of an image format "
                                 "that pack does not read"));
  const Result packed = PackFolder({Out("lmdb", "d"), "--skip_bad"});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.err, HasSubstr("1 bad file left out: "));
}

TEST_F(DataToolTest, ClassesWithoutImagesAreNamed) {
  MakeImageFolder();
  for (const char* name : {"ant", "bee"}) {
    std::filesystem::create_directory(folder_ / absl::StrCat("images/", name));
  }
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}),
              FailsWith(absl::StrCat(
                  "2 class folders contain no image: ", folder_ / "images/ant",
                  ", ", folder_ / "images/bee")));
  const Result packed = PackFolder({Out("lmdb", "d"), "--skip_bad"});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.err, AllOf(HasSubstr("2 classes have no sample: "),
                                HasSubstr("images/bee")));
}

// A truncated photograph was packed, verified as whole, and failed when it was
// served.
TEST_F(DataToolTest, EveryImageIsDecodedByPackAndVerify) {
  const std::string root = MakeImageFolder();
  JpegKind kind;
  for (int i = 0; i < 3; ++i) {
    kind.progressive = i == 2;
    const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
    WriteFile(absl::StrCat(root, "/dog/cut", i, ".jpg"),
              std::string(jpeg.begin(), jpeg.begin() + jpeg.size() * 2 / 3));
  }
  std::string png = ReadFile(root + "/cat/b/1.png");
  WriteFile(root + "/cat/b/cut.png", png.substr(0, png.size() - 20));
  const Result refused = PackFolder({Out("lmdb", "d")});
  EXPECT_THAT(refused, FailsWith("4 files cannot be packed: "));
  EXPECT_THAT(refused.err, AllOf(HasSubstr("cat/b/cut.png does not decode: "),
                                 HasSubstr("dog/cut2.jpg does not decode: "),
                                 HasSubstr("--skip_bad")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d"));

  const Result skipped = PackFolder({Out("lmdb", "skipped"), "--skip_bad"});
  EXPECT_EQ(skipped.code, program::kExitOk) << skipped.err;
  EXPECT_THAT(skipped.out, HasSubstr("every image was decoded"));
  EXPECT_THAT(skipped.err, HasSubstr("4 bad files left out"));
  EXPECT_EQ(ReadDataset(Uri("lmdb", "skipped")).size(), 5);
  EXPECT_THAT(Call({"verify", Uri("lmdb", "skipped")}).out,
              HasSubstr("as they were packed, all 5 images decode"));

  for (const std::string& scheme : storage::Schemes()) {
    const Result packed =
        PackFolder({Out(scheme, scheme), "--no_decode", "--shards=2"});
    EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
    EXPECT_THAT(packed.out, HasSubstr("the images were not decoded"));
    const Result verified = Call({"verify", Uri(scheme, scheme)});
    EXPECT_THAT(verified, FailsWith("4 of 9 images cannot be decoded: "));
    // In the order of the samples: cat/b/cut.png is the fourth.
    EXPECT_THAT(verified.err,
                AllOf(HasSubstr("row 3 (sample 3, field image): "),
                      HasSubstr("part-00001-of-00002"),
                      HasSubstr("(sample 8, field image): ")));
    const Result quick = Call({"verify", "--no_decode", Uri(scheme, scheme)});
    EXPECT_EQ(quick.code, program::kExitOk) << quick.err;
    EXPECT_THAT(quick.out, HasSubstr("images not decoded (--no_decode)"));
  }
}

// Labels in a table: every image was packed as one class, "images".
TEST_F(DataToolTest, ATableOfLabelsBesideOneFolderIsRefused) {
  const std::string root = folder_ / "images";
  std::filesystem::create_directories(root + "/pictures");
  WriteFile(root + "/pictures/1.jpg", Jpeg("1"));
  for (const char* table :
       {"labels.csv", "pictures/metadata.jsonl", "labels.TXT", "labels.csv.gz",
        "a.xlsx", "b.parquet", "c.xml"}) {
    WriteFile(absl::StrCat(root, "/", table), "1.jpg,cat");
    const Result refused = PackFolder({Out("lmdb", "d")});
    EXPECT_THAT(refused, FailsWith("would be of one class, \"pictures\""));
    EXPECT_THAT(refused.err, AllOf(HasSubstr(table),
                                   HasSubstr("one folder for each class")));
    std::filesystem::remove(absl::StrCat(root, "/", table));
  }
  WriteFile(root + "/README.txt", "about these pictures");
  EXPECT_EQ(PackFolder({Out("lmdb", "readme")}).code, program::kExitOk);
  WriteFile(root + "/labels.csv", "1.jpg,cat");
  const Result meant = PackFolder({Out("lmdb", "d"), "--labels_from_folders"});
  EXPECT_EQ(meant.code, program::kExitOk) << meant.err;
  // With several classes the folders say them; the table is named.
  std::filesystem::create_directories(root + "/drawings");
  WriteFile(root + "/drawings/1.jpg", Jpeg("1"));
  const Result two = PackFolder({Out("lmdb", "two")});
  EXPECT_EQ(two.code, program::kExitOk) << two.err;
  EXPECT_THAT(two.err, HasSubstr("2 files left out"));
  EXPECT_THAT(two.err, HasSubstr("labels.csv"));
}

// Images and their masks were packed as two classes without a word.
TEST_F(DataToolTest, ImagesBesideMasksAreNotTakenForClasses) {
  const std::string root = folder_ / "images";
  const auto png = [](int channels) {
    std::string bytes;
    const std::vector<uint8_t> pixels(4 * channels, 7);
    EXPECT_TRUE(EncodePng(pixels, 2, 2, channels, &bytes).ok());
    return bytes;
  };
  const auto write = [&](const std::string& folder, const std::string& suffix,
                         const std::string& bytes) {
    std::filesystem::remove_all(root + "/" + folder);
    std::filesystem::create_directories(root + "/" + folder);
    for (int i = 0; i < 5; ++i) {
      WriteFile(absl::StrCat(root, "/", folder, "/", i, suffix), bytes);
    }
  };
  write("a", ".jpg", Jpeg(""));
  write("b", ".png", png(1));
  const Result refused = PackFolder({Out("lmdb", "d")});
  EXPECT_THAT(refused, FailsWith("b contains only PNG files, a none"));
  EXPECT_THAT(refused.err, HasSubstr("docs/formats.md"));
  write("a", ".png", png(3));
  EXPECT_THAT(
      PackFolder({Out("lmdb", "d")}),
      FailsWith("the PNG files in b have one channel, those in a more"));
  const Result meant = PackFolder({Out("lmdb", "d"), "--labels_from_folders"});
  EXPECT_EQ(meant.code, program::kExitOk) << meant.err;
  // Numbered classes of one kind of file.
  write("b", ".png", png(3));
  EXPECT_EQ(PackFolder({Out("lmdb", "colour")}).code, program::kExitOk);
  write("a", ".png", png(1));
  write("b", ".png", png(1));
  EXPECT_EQ(PackFolder({Out("lmdb", "grey")}).code, program::kExitOk);
}

// "There is no image below ...", where there were some.
TEST_F(DataToolTest, WhereAllImagesAreBadThatIsSaid) {
  const std::string root = folder_ / "images";
  std::filesystem::create_directories(root + "/cat");
  WriteFile(root + "/cat/1.jpg", "");
  for (const char* second : {"no image", "\xFF\xD8\xFF\xE0 cut"}) {
    const Result one = PackFolder({Out("lmdb", "d"), "--skip_bad"});
    EXPECT_THAT(one, FailsWith("no image below " + root +
                               " can be packed: the only one is bad: " + root +
                               "/cat/1.jpg is empty"));
    WriteFile(root + "/cat/2.jpg", second);
    const Result two = PackFolder({Out("lmdb", "d"), "--skip_bad"});
    EXPECT_THAT(two, FailsWith("all 2 are bad: " + root +
                               "/cat/1.jpg is empty; " + root + "/cat/2.jpg"));
    std::filesystem::remove(root + "/cat/2.jpg");
  }
}

TEST_F(DataToolTest, SplitsAreNotTakenForClasses) {
  const std::string root = folder_ / "images";
  const auto add = [&](const std::string& folder) {
    std::filesystem::create_directories(root + "/" + folder + "/cat");
    WriteFile(root + "/" + folder + "/cat/1.jpg", Jpeg("1"));
  };
  add("train");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}),
              FailsWith("the only folder with images in " + root +
                        " has the name of a part of a dataset and would become "
                        "its class: train; pack the part (--input=" +
                        root + " --split=train)"));
  // A vehicle among others, whose folder has no folder of the same name.
  std::filesystem::create_directories(root + "/bus/red");
  WriteFile(root + "/bus/red/1.jpg", Jpeg("1"));
  const Result vehicles = PackFolder({Out("lmdb", "vehicles")});
  EXPECT_EQ(vehicles.code, program::kExitOk);
  EXPECT_THAT(vehicles.err, HasSubstr("warning: folder train becomes a class"));
  add("Val");
  const Result refused = PackFolder({Out("lmdb", "d")});
  EXPECT_THAT(
      refused,
      FailsWith("folders in " + root +
                " have the names of parts of a dataset and would become its "
                "classes: Val, train; pack each part by itself"));
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--split=train"),
                                 HasSubstr("--labels_from_folders")));
  // The help named train and test alone.
  EXPECT_THAT(Call({"pack", "--help"}).out, HasSubstr("--split=NAME"));
  EXPECT_EQ(PackFolder({Out("lmdb", "split"), "--split=train"}).code,
            program::kExitOk);
  EXPECT_EQ(PackFolder({Out("lmdb", "d"), "--labels_from_folders"}).code,
            program::kExitOk);
}

// Both were packed without a word: all images as one class, "photos", or a part
// of the dataset as a class beside the classes.
TEST_F(DataToolTest, AFolderAtTheWrongLevelIsRefused) {
  const std::string root = folder_ / "images";
  const auto add = [&](const std::string& folder) {
    std::filesystem::create_directories(root + "/" + folder);
    WriteFile(root + "/" + folder + "/1.jpg", Jpeg("1"));
  };
  add("photos/cat");
  add("photos/dog");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}),
              FailsWith("pack that folder (--input=" + root + "/photos)"));
  EXPECT_EQ(PackFolder({Out("lmdb", "d"), "--split=photos"}).code,
            program::kExitOk);
  EXPECT_EQ(PackFolder({Out("lmdb", "one"), "--labels_from_folders"}).code,
            program::kExitOk);
  std::filesystem::rename(root + "/photos", root + "/train");
  add("cat");
  add("dog");
  EXPECT_THAT(
      PackFolder({Out("lmdb", "mixed")}),
      FailsWith("has the name of a part of a dataset and contains its images "
                "in folders (cat, dog), while the folders beside it"));
}

// Whoever followed the advice was refused again: the folder that it named held
// parts, masks or no class folders, or a table hid what should be packed.
TEST_F(DataToolTest, ACommandThatARefusalAdvisesPacks) {
  struct Case {
    std::vector<std::string> files;
    std::string advised;  // "" where the images must be moved first
  };
  const std::string in = folder_ / "images";
  const std::vector<Case> cases = {
      {{"p/train/cat/1.jpg", "p/val/cat/1.jpg", "p/labels.csv"},
       "--input=" + in + "/p --split=train"},
      {{"p/train/cat/1.jpg", "p/val/cat/1.jpg", "labels.csv"},
       "--input=" + in + "/p --split=train"},
      {{"p/cat/1.jpg", "p/dog/1.jpg", "p/labels.csv"}, "--input=" + in + "/p"},
      {{"p/cat/1.jpg", "p/dog/1.jpg", "meta/labels.csv"},
       "--input=" + in + "/p"},
      {{"a/b/cat/1.jpg", "a/b/dog/1.jpg", "a/b/dog/x.csv"},
       "--input=" + in + "/a/b"},
      {{"train/cat/1.jpg", "test/1.jpg", "test.csv"},
       "--input=" + in + " --split=train"},
      {{"train/imgs/cat/1.jpg", "train/imgs/dog/1.jpg", "val/imgs/cat/1.jpg",
        "val/imgs/dog/1.jpg"},
       "--input=" + in + "/train/imgs"},
      // Cityscapes' images; with its annotations, which would be samples.
      {{"leftImg8bit/train/aachen/a_0_leftImg8bit.jpg",
        "leftImg8bit/train/bonn/b_0_leftImg8bit.jpg",
        "leftImg8bit/val/lindau/l_0_leftImg8bit.jpg",
        "leftImg8bit/val/munster/m_0_leftImg8bit.jpg"},
       "--input=" + in + "/leftImg8bit --split=train"},
      {{"leftImg8bit/train/aachen/a_0_leftImg8bit.jpg",
        "leftImg8bit/val/lindau/l_0_leftImg8bit.jpg",
        "gtFine/train/aachen/a_0_gtFine_color.jpg",
        "gtFine/train/aachen/a_0_gtFine_instanceIds.jpg",
        "gtFine/train/aachen/a_0_gtFine_labelIds.jpg",
        "gtFine/val/lindau/l_0_gtFine_color.jpg",
        "gtFine/val/lindau/l_0_gtFine_instanceIds.jpg",
        "gtFine/val/lindau/l_0_gtFine_labelIds.jpg"},
       ""},
      {{"a/images/1.jpg", "a/labels.csv"}, ""},
      {{"a/images/1.jpg", "a/masks/1.jpg", "a/labels.csv"}, ""},
      {{"train/1.jpg", "test/1.jpg", "train.csv"}, ""},
      {{"train/images/1.jpg", "val/images/1.jpg", "labels.csv"}, ""},
      {{"cat/train/1.jpg", "cat/val/1.jpg", "dog/train/1.jpg"}, ""},
  };
  for (const Case& c : cases) {
    const std::string name = absl::StrJoin(c.files, " ");
    std::filesystem::remove_all(in);
    for (const std::string& file : c.files) {
      const std::filesystem::path path = in + "/" + file;
      std::filesystem::create_directories(path.parent_path());
      WriteFile(path, Jpeg("1"));
    }
    const Result refused = PackFolder({Out("lmdb", "d")});
    EXPECT_EQ(refused.code, program::kExitFailed) << name;
    EXPECT_THAT(refused.err, HasSubstr("--labels_from_folders")) << name;
    std::smatch command;
    const bool found = std::regex_search(
        refused.err, command,
        std::regex("\\((--input=[^ ,)]+( --split=[^ ,)]+)?)\\)"));
    ASSERT_EQ(found ? command.str(1) : "", c.advised) << refused.err;
    if (c.advised.empty()) {
      EXPECT_THAT(refused.err, AnyOf(HasSubstr("one folder for each class"),
                                     HasSubstr("a folder for each class"),
                                     HasSubstr("as Parquet (docs/formats.md)")))
          << name;
      continue;
    }
    std::vector<std::string> args = {"pack", "--format=imagefolder",
                                     "--overwrite", Out("lmdb", "advised")};
    for (absl::string_view flag : absl::StrSplit(c.advised, ' ')) {
      args.emplace_back(flag);
    }
    const Result packed = Call(args);
    EXPECT_EQ(packed.code, program::kExitOk) << name << ": " << packed.err;
  }
}

TEST_F(DataToolTest, AFileThatIsNoImageIsNamed) {
  MakeImageFolder();
  for (const auto& [name, bytes] :
       {std::pair("empty.jpg", ""), std::pair("text.png", "hello, world")}) {
    const std::string path = folder_ / absl::StrCat("images/dog/", name);
    WriteFile(path, bytes);
    const Result failed = PackFolder({Out("lmdb", "d")});
    EXPECT_THAT(failed, FailsWith(path));
    EXPECT_THAT(failed.err, HasSubstr("--skip_bad"));
    std::filesystem::remove(path);
  }
  WriteFile(folder_ / "images/dog/text.jpg", "hello, world");
  std::filesystem::create_symlink("/nowhere", folder_ / "images/dog/link.jpg");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}), FailsWith("link.jpg"));
  const Result skipped = PackFolder({Out("lmdb", "d"), "--skip_bad"});
  EXPECT_EQ(skipped.code, program::kExitOk) << skipped.err;
  EXPECT_THAT(skipped.err,
              AllOf(HasSubstr("text.jpg"), HasSubstr("2 bad files left out")));
  EXPECT_EQ(ReadDataset(Uri("lmdb", "d")).size(), 5);
}

TEST_F(DataToolTest, SeekableRewritesJpegsAndKeepsTheRest) {
  const std::string root = MakeImageFolder();
  for (const char* name : {"cat/2.JPG", "cat/10.jpeg", "dog/a.jpg"}) {
    WriteFile(root + "/" + name, JpegStart(name));
  }
  WriteFile(root + "/dog/b.jpg", JpegStart("b"));
  JpegKind kind;
  kind.progressive = true;
  for (int i = 0; i < 6; ++i) {
    const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
    WriteFile(absl::StrCat(root, "/dog/whole", i, ".jpg"),
              std::string(jpeg.begin(), jpeg.end()));
  }
  ASSERT_EQ(PackFolder({Out("lmdb", "plain"), "--no_decode"}).code,
            program::kExitOk);
  DatasetInfo plain_info;
  const storage::Samples plain = ReadDataset(Uri("lmdb", "plain"), &plain_info);
  std::vector<std::string> fingerprints;
  for (const std::string& scheme : storage::Schemes()) {
    const Result packed = PackFolder(
        {Out(scheme, "seekable" + scheme), "--seekable", "--no_decode"});
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    EXPECT_THAT(
        packed.out,
        AllOf(HasSubstr("packed 11 samples"),
              ContainsRegex("made 6 of 11 images seekable: [0-9.]+ kB became "
                            "[0-9.]+ kB \\("),
              HasSubstr("stored unchanged: 1 not a JPEG, 4 damaged")));
    EXPECT_THAT(
        packed.err,
        AllOf(HasSubstr("cat/2.JPG is stored unchanged: it is damaged ("),
              Not(HasSubstr("whole"))));
    DatasetInfo info;
    const storage::Samples samples =
        ReadDataset(Uri(scheme, "seekable" + scheme), &info);
    ASSERT_EQ(samples.size(), 11);
    for (int i = 0; i < 11; ++i) {
      EXPECT_EQ(samples[i][1], plain[i][1]);
      EXPECT_EQ(samples[i][0] == plain[i][0], i < 5) << i;
    }
    EXPECT_NE(info.fingerprint(), plain_info.fingerprint());
    fingerprints.push_back(info.fingerprint());
  }
  EXPECT_THAT(fingerprints, ::testing::Each(fingerprints[0]));
}

TEST_F(DataToolTest, SeekableIsForJpegs) {
  const std::string root = MakeIdx(3);
  EXPECT_THAT(Call({"pack", "--format=idx", "--input=" + root, Out("lmdb", "d"),
                    "--seekable"}),
              IsUsageError("--seekable needs --format=imagefolder"));
}

TEST_F(DataToolTest, FoldersThatAreNoImageFolderAreRefused) {
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}),
              IsUsageError("there is no folder " + folder_ / "images"));
  EXPECT_THAT(PackFolder({Out("lmdb", "d"), "--split=val"}),
              IsUsageError("images/val; set --input to the folder that "
                           "contains the part that --split names"));
  WriteFile(folder_ / "images", "no folder");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}),
              IsUsageError("there is no folder " + folder_ / "images"));
  std::filesystem::remove(folder_ / "images");
  std::filesystem::create_directory(folder_ / "images");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}), FailsWith("contains no folders"));
  WriteFile(folder_ / "images/a.jpg", Jpeg(""));
  EXPECT_THAT(
      PackFolder({Out("lmdb", "d")}),
      FailsWith("contains no folders, but 1 image; move the images into "
                "one folder for each class (" +
                folder_ / "images/CLASS) and repeat the command"));
  WriteFile(folder_ / "images/labels.csv", "a.jpg,cat\n");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}),
              FailsWith("1 image, and labels.csv may contain labels, which "
                        "--format=imagefolder does not read; pack the table "
                        "(--format=csv --input=" +
                        folder_ / "images/labels.csv" +
                        ") if it contains the paths of the images, or move the "
                        "images"));
  std::filesystem::remove(folder_ / "images/a.jpg");
  std::filesystem::remove(folder_ / "images/labels.csv");
  std::filesystem::create_directory(folder_ / "images/cat");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}), FailsWith("images/cat"));
  EXPECT_THAT(PackFolder({Out("lmdb", "d"), "--skip_bad"}),
              FailsWith("there is no image"));
  std::filesystem::create_directory(folder_ / "images/cat\xFF");
  WriteFile(folder_ / "images/cat/a.jpg", Jpeg(""));
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}), FailsWith("not UTF-8"));
  std::filesystem::remove(folder_ / "images/cat\xFF");
  std::filesystem::create_directory_symlink(folder_ / "images/cat",
                                            folder_ / "images/cat/loop");
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}), FailsWith("loop"));
}

TEST_F(DataToolTest, SplitsOfAnImageFolderAreFolders) {
  MakeImageFolder();
  std::filesystem::create_directory(folder_ / "all");
  std::filesystem::rename(folder_ / "images", folder_ / "all/test");
  const Result packed = Call({"pack", "--format=imagefolder", "--split=test",
                              "--input=" + folder_ / "all", Out("lmdb", "d")});
  EXPECT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_EQ(ReadDataset(Uri("lmdb", "d")).size(), 5);
}

TEST_F(DataToolTest, IdxBecomesRawPixelsInLmdb) {
  for (bool gzip : {false, true}) {
    std::filesystem::remove_all(folder_ / "idx");
    MakeIdx(30, gzip);
    const Result packed =
        PackIdx({Out("lmdb", "d"), gzip ? "--split=test" : "--split=train",
                 "--overwrite"});
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    DatasetInfo info;
    const storage::Samples samples = ReadDataset(Uri("lmdb", "d"), &info);
    ASSERT_EQ(samples.size(), 30);
    EXPECT_EQ(samples[29][0], Pixels(30 * 784).substr(29 * 784));
    EXPECT_EQ(samples[29][1], storage::Scalar<int64_t>(9));
    const Field& image = info.schema().fields(0);
    EXPECT_EQ(image.kind(), FIELD_KIND_TENSOR);
    EXPECT_EQ(image.dtype(), DTYPE_UINT8);
    EXPECT_THAT(image.shape(), ElementsAre(28, 28, 1));
    EXPECT_EQ(info.schema().fields(1).num_classes(), 10);
    EXPECT_EQ(info.train_preset(), "mnist");
    EXPECT_EQ(info.eval_preset(), "mnist");
  }
}

TEST_F(DataToolTest, IdxBecomesPngInParquet) {
  if (storage::Schemes().size() < 2) GTEST_SKIP() << "built without Parquet";
  MakeIdx(3);
  ASSERT_EQ(PackIdx({Out("parquet", "d")}).code, program::kExitOk);
  DatasetInfo info;
  const storage::Samples samples = ReadDataset(Uri("parquet", "d"), &info);
  ASSERT_EQ(samples.size(), 3);
  EXPECT_EQ(samples[0][0].substr(0, 8), "\x89PNG\r\n\x1A\n");
  EXPECT_EQ(info.schema().fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_EQ(info.train_preset(), "mnist");
}

TEST_F(DataToolTest, BadIdxFilesAreNamed) {
  EXPECT_THAT(PackIdx({Out("lmdb", "d")}), IsUsageError("there is no folder"));
  MakeIdx(4);
  EXPECT_THAT(PackIdx({Out("lmdb", "d"), "--split=dev"}),
              IsUsageError("--split to train or test"));
  const std::string images = folder_ / "idx/train-images-idx3-ubyte";
  const std::string labels = folder_ / "idx/train-labels-idx1-ubyte";
  const std::string good = ReadFile(images);
  const auto packs_with = [&](absl::string_view bytes) {
    WriteFile(images, bytes);
    const Result result = PackIdx({Out("lmdb", "d")});
    EXPECT_THAT(result.err, HasSubstr(images));
    return result;
  };
  EXPECT_THAT(packs_with(""), FailsWith("is empty"));
  EXPECT_THAT(packs_with("P5 28 28"), FailsWith("not an IDX file"));
  EXPECT_THAT(packs_with(good.substr(0, 10)), FailsWith("truncated"));
  EXPECT_THAT(packs_with(good.substr(0, good.size() - 1)),
              FailsWith("truncated"));
  EXPECT_THAT(packs_with(good + "x"), FailsWith("longer"));
  EXPECT_THAT(packs_with(Idx({0, 28, 28}, "")), FailsWith("dimension of 0"));
  EXPECT_THAT(packs_with(Idx({4000000000, 4000000000, 4000000000}, "")),
              FailsWith("claims a dimension"));
  EXPECT_THAT(packs_with(Idx({1000000, 28, 28}, "few")),
              FailsWith("truncated"));
  EXPECT_THAT(packs_with(Idx({5, 28, 28}, Pixels(5 * 784))),
              FailsWith("do not belong together"));
  EXPECT_THAT(packs_with(ReadFile(labels)), FailsWith("right file"));
  const std::string zipped = Gzip(good);
  EXPECT_THAT(packs_with(zipped.substr(0, zipped.size() / 2)),
              FailsWith("gzip stream ends early"));
  std::string damaged = zipped;
  damaged[damaged.size() - 6] ^= 1;  // its checksum
  EXPECT_THAT(packs_with(damaged), FailsWith("damaged"));
  std::string floats = good;
  floats[2] = 0x0D;
  EXPECT_THAT(packs_with(floats), FailsWith("only unsigned bytes"));
  std::filesystem::remove(images);
  EXPECT_THAT(PackIdx({Out("lmdb", "d")}),
              IsUsageError("no train-images-idx3-ubyte[.gz]"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d"));
}

TEST_F(DataToolTest, WhatIsThereIsKeptWithoutOverwrite) {
  MakeImageFolder();
  ASSERT_EQ(PackFolder({Out("lmdb", "d")}).code, program::kExitOk);
  EXPECT_THAT(PackFolder({Out("lmdb", "d")}), IsUsageError("--overwrite"));
  EXPECT_EQ(PackFolder({Out("lmdb", "d"), "--overwrite"}).code,
            program::kExitOk);
}

TEST_F(DataToolTest, AnUnwritableOutputIsToldWithItsFolder) {
  MakeImageFolder();
  EXPECT_THAT(PackFolder({Out("lmdb", "no/where/d")}), FailsWith("no/where"));
  EXPECT_THAT(PackFolder({"--output=lmdb:/proc/d"}), FailsWith("/proc"));
}

TEST_F(DataToolTest, MoreShardsThanSamplesAreRefused) {
  MakeImageFolder();
  EXPECT_THAT(
      PackFolder({Out("lmdb", "d"), "--shards=6"}),
      IsUsageError(
          "6 shards for 5 samples would leave shards empty; use at most 5"));
}

// A limit on the size of files stands for a full disk.
TEST_F(DataToolTest, AFullDiskLeavesNothingThatIsADataset) {
  MakeIdx(3000);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Result one = PackIdx({Out("lmdb", "d")});
  const Result many = PackIdx({Out("lmdb", "dir"), "--shards=2"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(one, FailsWith("cannot write"));
  EXPECT_THAT(many, FailsWith("cannot write"));
  EXPECT_THAT(folder_.Names(), ElementsAre("idx"));
  EXPECT_THAT(Call({"inspect", Uri("lmdb", "d")}),
              FailsWith("there is no file"));
}

TEST_F(DataToolTest, InspectSaysWhatADatasetIs) {
  MakeImageFolder();
  for (const std::string& scheme : storage::Schemes()) {
    ASSERT_EQ(PackFolder({Out(scheme, scheme), "--shards=2"}).code,
              program::kExitOk);
    DatasetInfo info;
    ReadDataset(Uri(scheme, scheme), &info);
    const Result text = Call({"inspect", Uri(scheme, scheme)});
    EXPECT_EQ(text.code, program::kExitOk);
    for (const std::string& part :
         {std::string("samples      5"), info.fingerprint(),
          std::string("2 classes: cat, dog"), info.shards(1).name(),
          std::string("image: encoded_image")}) {
      EXPECT_THAT(text.out, HasSubstr(part));
    }
    const Result json = Call({"inspect", "--json", Uri(scheme, scheme)});
    EXPECT_EQ(json.code, program::kExitOk);
    EXPECT_EQ(json.out.find('\n'), json.out.size() - 1) << "one object a line";
    EXPECT_THAT(json.out, HasSubstr("\"samples\": 5, \"bytes\": "));
    google::protobuf::Struct document;
    ASSERT_TRUE(
        google::protobuf::util::JsonStringToMessage(json.out, &document).ok())
        << json.out;
    const auto& fields = document.fields();
    EXPECT_EQ(fields.at("samples").number_value(), 5);
    EXPECT_EQ(fields.at("num_classes").number_value(), 2);
    EXPECT_EQ(fields.at("classes").list_value().values(1).string_value(),
              "dog");
    EXPECT_EQ(fields.at("fingerprint").string_value(), info.fingerprint());
    EXPECT_EQ(fields.at("format").string_value(), scheme);
    EXPECT_EQ(fields.at("shards").list_value().values_size(), 2);
    EXPECT_EQ(fields.at("bytes").number_value(),
              info.shards(0).bytes() + info.shards(1).bytes());
  }
}

TEST_F(DataToolTest, InspectRefusesWhatIsNoDataset) {
  WriteFile(folder_ / "text", std::string(10000, 'x'));
  EXPECT_THAT(Call({"inspect", Uri("lmdb", "text")}), FailsWith("text"));
  EXPECT_THAT(Call({"inspect", Uri("lmdb", "none")}), FailsWith("none"));
  // A supervisor need not try these again.
  for (const char* command : {"inspect", "verify"}) {
    EXPECT_THAT(Call({command, folder_ / "text"}), IsUsageError("lmdb:"));
    EXPECT_THAT(Call({command, "zarr:/x"}), IsUsageError("zarr"));
    EXPECT_THAT(Call({command, "lmdb:"}), IsUsageError("the path is empty"));
  }
}

// "Copy the file again" was said of files that are whole.
TEST_F(DataToolTest, TheSchemeOfAnotherFormatIsNamedWithTheRightUri) {
  if (storage::Schemes().size() < 2) GTEST_SKIP() << "built without Parquet";
  MakeImageFolder();
  for (const std::string& scheme : storage::Schemes()) {
    const std::string other = scheme == "lmdb" ? "parquet" : "lmdb";
    const std::string file = absl::StrCat("one.", scheme);
    ASSERT_EQ(PackFolder({Out(scheme, file)}).code, program::kExitOk);
    const std::string folder = absl::StrCat("folder-", scheme);
    ASSERT_EQ(PackFolder({Out(scheme, folder), "--shards=2"}).code,
              program::kExitOk);
    const std::string pattern = absl::StrCat(folder, "/part-*");
    for (const std::string& name : {file, pattern}) {
      EXPECT_THAT(
          Call({"inspect", Uri(other, name)}),
          IsUsageError(absl::StrCat(" is a file of format ", scheme, ", not ",
                                    other, ": write ", Uri(scheme, name))));
    }
    EXPECT_THAT(Call({"verify", Uri(other, folder)}),
                IsUsageError(absl::StrCat("00000-of-00002.", scheme, ": write ",
                                          Uri(scheme, folder))));
    for (const std::string& name : {file, pattern, folder}) {
      EXPECT_EQ(Call({"inspect", Uri(scheme, name)}).code, program::kExitOk);
    }
    // Renamed to the other's suffix, so that the folder seems to hold shards.
    std::filesystem::create_directory(folder_ / absl::StrCat("renamed", other));
    const std::string renamed = absl::StrCat("renamed", other, "/a.", other);
    std::filesystem::copy(folder_ / file, folder_ / renamed);
    EXPECT_THAT(Call({"inspect", Uri(other, absl::StrCat("renamed", other))}),
                IsUsageError("write " + Uri(scheme, renamed)));
    EXPECT_EQ(Call({"inspect", Uri(scheme, renamed)}).code, program::kExitOk);
    // Damage stays damage.
    WriteFile(folder_ / "cut", ReadFile(folder_ / file).substr(0, 2000));
    EXPECT_THAT(Call({"inspect", Uri(scheme, "cut")}), FailsWith("cut"));
  }
}

// Names of files and classes reached the terminal as they were.
TEST_F(DataToolTest, NamesAreMadeReadable) {
  const std::string root = MakeImageFolder();
  std::filesystem::rename(root + "/dog", root + "/d\x1b[31mog\n");
  for (const std::string& scheme : storage::Schemes()) {
    const std::string name = scheme + "\xff";
    ASSERT_EQ(PackFolder({Out(scheme, name)}).code, program::kExitOk);
    const std::string uri = Uri(scheme, name);
    WriteFile(folder_ / "p.textproto", "preset: 'imagenet_train'");
    for (const Result& result :
         {Call({"inspect", uri}), Call({"verify", uri}),
          Call({"check", "--dataset=" + uri, folder_ / "p.textproto"}),
          Call({"preview", "--dataset=" + uri, "--preset=imagenet_train",
                "--explain"})}) {
      EXPECT_EQ(result.code, program::kExitOk) << result.err;
      EXPECT_THAT(result.out + result.err,
                  AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xff"))));
    }
    EXPECT_THAT(
        Call({"inspect", uri}).out,
        AllOf(HasSubstr(scheme + "\\377"), HasSubstr("cat, d\\033[31mog\\n")));
    EXPECT_THAT(Call({"inspect", uri + "\xfe"}),
                FailsWith(scheme + "\\377\\376"));
  }
}

TEST_F(DataToolTest, VerifyReadsEverything) {
  MakeImageFolder();
  for (const std::string& scheme : storage::Schemes()) {
    ASSERT_EQ(PackFolder({Out(scheme, scheme), "--shards=2"}).code,
              program::kExitOk);
    const Result result = Call({"verify", Uri(scheme, scheme)});
    EXPECT_EQ(result.code, program::kExitOk) << result.err;
    EXPECT_THAT(result.out, HasSubstr("5 samples"));
    EXPECT_THAT(result.out, HasSubstr("as they were packed"));
  }
}

// Its result is printed by a child process, whose exit code was 0 all the same.
TEST_F(DataToolTest, VerifyFailsWhereItsResultCannotBeWritten) {
  MakeImageFolder();
  ASSERT_EQ(PackFolder({Out("lmdb", "d")}).code, program::kExitOk);
  EXPECT_EXIT(
      {
        if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(9);
        std::exit(RunDataTool({"verify", Uri("lmdb", "d")}, std::cout));
      },
      ::testing::ExitedWithCode(program::kExitFailed),
      "cannot write to standard output: No space left on device");
}

TEST_F(DataToolTest, VerifySeesAChangedImage) {
  MakeImageFolder();
  for (const std::string& scheme : storage::Schemes()) {
    ASSERT_EQ(PackFolder({Out(scheme, scheme)}).code, program::kExitOk);
    std::string bytes = ReadFile(folder_ / scheme);
    // LMDB may hold a second copy in a page that is free again.
    int copies = 0;
    const std::string image = Jpeg("two");
    for (size_t at = bytes.find(image); at != bytes.npos;
         at = bytes.find(image, at)) {
      bytes[at + image.size() - 3] = 'T';
      ++copies;
    }
    ASSERT_GT(copies, 0);
    WriteFile(folder_ / scheme, bytes);
    EXPECT_EQ(Call({"inspect", Uri(scheme, scheme)}).code, program::kExitOk);
    EXPECT_THAT(Call({"verify", Uri(scheme, scheme)}),
                FailsWith("not what was packed"));
    EXPECT_THAT(Call({"verify", Uri(scheme, scheme)}).err,
                HasSubstr("every sample of it can be read and decoded, and the "
                          "hash of the whole shard does not show"));
  }
}

// It stopped at the first of each, and named no sample of a shard whose hash
// differs.
TEST_F(DataToolTest, VerifyNamesAllThatIsDamaged) {
  const std::string root = MakeImageFolder();
  for (const char* name : {"fox", "owl"}) {
    std::filesystem::create_directories(absl::StrCat(root, "/", name));
    WriteFile(absl::StrCat(root, "/", name, "/1.jpg"), Jpeg(name));
  }
  ASSERT_EQ(PackFolder({Out("lmdb", "d"), "--shards=2"}).code,
            program::kExitOk);
  DatasetInfo info;
  const storage::Samples samples = ReadDataset(Uri("lmdb", "d"), &info);
  ASSERT_EQ(samples.size(), 7);
  ASSERT_EQ(info.shards(1).first_sample(), 3);
  const auto change = [&](int shard, const std::string& from,
                          const std::string& to) {
    const std::string path = folder_ / "d" + ("/" + info.shards(shard).name());
    WriteFile(path, absl::StrReplaceAll(ReadFile(path), {{from, to}}));
  };
  const auto mark = [](const std::string& image, char c) {
    std::string marked = image;
    marked[2] = c;  // the start of its first segment
    return marked;
  };
  // Two images of the first shard, two labels of the second.
  change(0, samples[0][0], mark(samples[0][0], 'x'));
  change(0, samples[1][0], mark(samples[1][0], 'x'));
  for (int i : {5, 6}) {
    // A value is the label, then the image behind its length.
    const std::string image =
        storage::Scalar<uint32_t>(samples[i][0].size()) + samples[i][0];
    change(1, samples[i][1] + image, storage::Scalar<int64_t>(90 + i) + image);
  }
  const Result result = Call({"verify", Uri("lmdb", "d")});
  EXPECT_EQ(result.code, program::kExitFailed);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("2 of 7 samples cannot be used: shard " +
                      info.shards(1).name() + ", row 2 (sample 5): "),
            HasSubstr("class 95"), HasSubstr("(sample 6): "),
            HasSubstr("class 96"),
            HasSubstr("2 of 7 images cannot be decoded: shard " +
                      info.shards(0).name() + ", row 0 (sample 0, field "),
            HasSubstr("(sample 1, field image): "),
            HasSubstr("the content of shard " + info.shards(0).name() +
                      " is not what was packed: its hash is "),
            HasSubstr("2 images cannot be decoded (see above)")));
}

// LMDB may die of what it finds here; the tool answers all the same.
TEST_F(DataToolTest, VerifySurvivesDamagedTrees) {
  MakeIdx(200);
  ASSERT_EQ(PackIdx({Out("lmdb", "d")}).code, program::kExitOk);
  const std::string whole = ReadFile(folder_ / "d");
  int refused = 0;
  for (size_t page = 2; page < whole.size() / 4096; page += 3) {
    for (char filler : {'\0', '\xFF', '\x41'}) {
      std::string damaged = whole;
      std::fill_n(damaged.begin() + page * 4096, 64, filler);
      // A new file each time: its pages may be mapped still.
      std::filesystem::remove(folder_ / "damaged");
      WriteFile(folder_ / "damaged", damaged);
      const Result result = Call({"verify", Uri("lmdb", "damaged")});
      if (result.code == program::kExitOk) continue;  // a page that is not used
      ++refused;
      EXPECT_EQ(result.code, program::kExitFailed);
      EXPECT_THAT(result.err, Not(::testing::IsEmpty()));
    }
  }
  EXPECT_GT(refused, 20);
}

TEST_F(DataToolTest, CheckNamesEachMistakeWithItsLine) {
  WriteFile(folder_ / "good.textproto", "preset: \"mnist\"\nbatch_size: 64\n");
  const Result good = Call({"check", folder_ / "good.textproto"});
  EXPECT_EQ(good.code, program::kExitOk) << good.err;
  EXPECT_THAT(good.out, HasSubstr("not checked against a dataset"));
  WriteFile(folder_ / "bad.textproto",
            "batch_size: 64\nno_such_field: 3\nshufle {}\n");
  const Result bad = Call({"check", folder_ / "bad.textproto"});
  EXPECT_THAT(bad, FailsWith("bad.textproto:2:"));
  EXPECT_THAT(bad.err,
              AllOf(HasSubstr("no_such_field"), HasSubstr("bad.textproto:3:"),
                    HasSubstr("has 2 mistakes")));
  WriteFile(folder_ / "empty.textproto", "");
  EXPECT_THAT(Call({"check", folder_ / "empty.textproto"}),
              FailsWith("the file is empty"));
  EXPECT_THAT(Call({"check", folder_ / "none"}), IsUsageError("none"));
}

TEST_F(DataToolTest, CheckAgainstADatasetSaysWhatTheServerWould) {
  MakeImageFolder();
  ASSERT_EQ(PackFolder({Out("lmdb", "d")}).code, program::kExitOk);
  const std::string dataset = "--dataset=" + Uri("lmdb", "d");
  const auto check = [&](const std::string& text) {
    WriteFile(folder_ / "p.textproto", text);
    return Call({"check", dataset, folder_ / "p.textproto"});
  };
  const Result good = check("preset: 'imagenet_train'");
  EXPECT_EQ(good.code, program::kExitOk) << good.err;
  EXPECT_THAT(good.err, HasSubstr("sets no batch_size: checked with 2"));
  EXPECT_THAT(good.out, HasSubstr("no mistakes; the pipeline fits lmdb:"));
  EXPECT_THAT(good.out, HasSubstr(": 2 steps in an epoch"));
  EXPECT_THAT(check("seed: 1"),
              FailsWith("p.textproto: outputs: 1 field of dataset d "
                        "would be missing from the batch: field image holds "
                        "encoded images"));
  // The program has no flag for them.
  EXPECT_THAT(check("seed: 1").err, Not(HasSubstr("--outputs")));
  EXPECT_THAT(check("preset: 'imagenet_train' outputs { field: 'mask' }"),
              FailsWith("its fields are image, label"));
  EXPECT_THAT(check("sources { dataset: 'a' } sources { dataset: 'b' } "
                    "preset: 'imagenet_train'"),
              IsUsageError("names 2 datasets, and 1 is given"));
  EXPECT_THAT(
      Call({"check", dataset, "--dataset=zarr:/x", folder_ / "p.textproto"}),
      IsUsageError("zarr"));
  EXPECT_THAT(check("sources { synthetic { samples: 8 fields { name: 'x' "
                    "dtype: DTYPE_FLOAT32 shape: 4 } "
                    "} } batch_size: 2"),
              IsUsageError("reads no dataset: remove --dataset"));
}

// It said "fits" of a batch that Open refuses.
TEST_F(DataToolTest, CheckRefusesABatchThatNoEpochHolds) {
  MakeImageFolder();
  ASSERT_EQ(PackFolder({Out("lmdb", "d")}).code, program::kExitOk);
  const std::string dataset = "--dataset=" + Uri("lmdb", "d");
  const std::string path = folder_ / "p.textproto";
  WriteFile(path, "preset: 'imagenet_train' batch_size: 6");
  EXPECT_THAT(Call({"check", dataset, path}),
              FailsWith("batch_size 6 is larger than the 5 samples"));
  const Result smaller = Call({"check", dataset, "--batch_size=5", path});
  EXPECT_EQ(smaller.code, program::kExitOk) << smaller.err;
  EXPECT_THAT(
      smaller.err,
      HasSubstr("checked with --batch_size=5 instead of batch_size: 6"));
  EXPECT_THAT(smaller.out, HasSubstr(": 1 step in an epoch"));
  const Result larger = Call({"check", dataset, "--batch_size=7", path});
  EXPECT_THAT(larger, FailsWith("batch_size 7 is larger than"));
  // The flag alone stood behind another field.
  EXPECT_THAT(larger.err, HasSubstr("last_batch: LAST_BATCH_PAD (batch_size is "
                                    "from --batch_size=7)"));
}

// mix_up and cut_mix were refused "because batch_size is 1" in files that leave
// the batch size to a flag.
TEST_F(DataToolTest, CheckTakesTheBatchSizeAsAFlag) {
  const std::string path = folder_ / "mix.textproto";
  WriteFile(path,
            "transforms { decode_image {} } "
            "transforms { center_crop { height: 8 width: 8 } } "
            "transforms { mix_up { alpha: 0.2 } }");
  const Result assumed = Call({"check", path});
  EXPECT_EQ(assumed.code, program::kExitOk) << assumed.err;
  EXPECT_THAT(
      assumed.err,
      HasSubstr(
          "sets no batch_size: checked with 2; --batch_size=N sets another"));
  const Result given = Call({"check", "--batch_size=64", path});
  EXPECT_EQ(given.code, program::kExitOk) << given.err;
  EXPECT_EQ(given.err, "");
  EXPECT_THAT(
      Call({"check", "--batch_size=1", path}),
      FailsWith("batch_size is 1: set it to 2 or more (batch_size is from "
                "--batch_size=1)"));
  for (const char* size : {"0", "1048577"}) {
    EXPECT_THAT(Call({"check", absl::StrCat("--batch_size=", size), path}),
                IsUsageError(absl::StrCat("--batch_size=", size,
                                          ": it must be 1 .. 1048576")));
  }
  // The flag goes before the file.
  WriteFile(path, "preset: 'mnist' batch_size: 99999999999");
  EXPECT_THAT(Call({"check", path}), FailsWith("batch_size is 99999999999"));
  EXPECT_EQ(Call({"check", "--batch_size=8", path}).code, program::kExitOk);
}

// Each was taken without a word and had no effect.
TEST_F(DataToolTest, FlagsThatNeedAnotherAreRefusedAlone) {
  WriteFile(folder_ / "p.textproto", "preset: 'mnist'");
  EXPECT_THAT(Call({"check", "--operators=/none.so", folder_ / "p.textproto"}),
              IsUsageError("--operators has no effect without --dataset: add "
                           "it, or remove --operators"));
}

// It ended with 1, and a supervisor would have tried again for ever.
TEST_F(DataToolTest, AMissingLibraryIsAMistakeOfTheCommandLine) {
  MakeImageFolder();
  ASSERT_EQ(PackFolder({Out("lmdb", "d")}).code, program::kExitOk);
  WriteFile(folder_ / "p.textproto", "preset: 'imagenet_train'");
  const std::string flag = "--operators=" + folder_ / "none.so";
  const std::string dataset = Uri("lmdb", "d");
  EXPECT_THAT(PackFolder({Out("lmdb", "e"), flag}), IsUsageError("none.so"));
  EXPECT_THAT(Call({"inspect", flag, dataset}), IsUsageError("none.so"));
  EXPECT_THAT(Call({"verify", flag, dataset}), IsUsageError("none.so"));
  EXPECT_THAT(
      Call({"check", flag, "--dataset=" + dataset, folder_ / "p.textproto"}),
      IsUsageError("none.so"));
}

// A glob over train/ and test/ made one dataset of both without a word.
TEST_F(DataToolTest, PartsThatAreReadAsOneAreNamed) {
  MakeImageFolder();
  for (const char* part : {"train", "test"}) {
    std::filesystem::create_directories(folder_ / absl::StrCat("all/", part));
    ASSERT_EQ(
        PackFolder({Out("parquet", absl::StrCat("all/", part, "/a.parquet"))})
            .code,
        program::kExitOk);
    // As a foreign file, without the metadata of pack: parts of two packings
    // are refused.
    const std::string file = folder_ / absl::StrCat("all/", part, "/a.parquet");
    WriteFile(file,
              absl::StrReplaceAll(ReadFile(file), {{"millrace", "xxxxxxxx"}}));
  }
  const std::string both = Uri("parquet", "all/*/*.parquet");
  const Result inspected = Call({"inspect", both});
  ASSERT_EQ(inspected.code, program::kExitOk) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("files        2 files in 2 folders: "));
  EXPECT_THAT(inspected.out, HasSubstr(folder_ / "all/train"));
  const std::string warning =
      "warning: the names of its files are those of parts of a dataset (test, "
      "train), such as ";
  EXPECT_THAT(inspected.err, HasSubstr(warning));
  EXPECT_THAT(Call({"inspect", "--json", both}).out,
              HasSubstr("\"warnings\": [\"the names of its files"));
  const Result verified = Call({"verify", both});
  EXPECT_EQ(verified.code, program::kExitOk) << verified.err;
  EXPECT_THAT(verified.err, HasSubstr(warning));
  const Result one = Call({"inspect", Uri("parquet", "all/train")});
  EXPECT_THAT(one.out, HasSubstr("1 file in "));
  EXPECT_EQ(one.err, "");
}

// Columns `x` (int64) and `count` (uint64) by pyarrow 26.
constexpr char kForeignParquet[] =
    "UEFSMRUAFSwVLCwVBBUAFQYVBhwAAAACAAAABAEBAAAAAAAAAAIAAAAAAAAAFQAVLBUsLBUEFQ"
    "AV"
    "BhUGHAAAAAIAAAAEAQMAAAAAAAAABAAAAAAAAAAVBBk8NQAYBnNjaGVtYRUEABUEJQIYAXgAFQ"
    "Ql"
    "AhgFY291bnQlHEysE0ASAAAAFgQZHBksJgAcFQQZJQYAGRgBeBUAFgQWUhZSJghJHBUAFQAVAg"
    "A8"
    "KQYZJgAEAAAAJgAcFQQZJQYAGRgFY291bnQVABYEFlIWUiZaSRwVABUAFQIAPCkGGSYABAAAAB"
    "ak"
    "ARYEJggWpAEAKCBwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI2LjAuMRksHAAAHAAAAMIAAA"
    "BQ"
    "QVIx";

TEST_F(DataToolTest, ColumnsThatAreLeftOutAreNamed) {
  std::string file;
  ASSERT_TRUE(absl::Base64Unescape(kForeignParquet, &file));
  WriteFile(folder_ / "d.parquet", file);
  const std::string uri = Uri("parquet", "d.parquet");
  const Result text = Call({"inspect", uri});
  ASSERT_EQ(text.code, program::kExitOk) << text.err;
  EXPECT_THAT(
      text.out,
      HasSubstr("columns left out\n  count: tensors have no type uint64"));
  EXPECT_THAT(Call({"inspect", "--json", uri}).out,
              HasSubstr("\"left_out\": [{\"name\": \"count\", \"reason\": "));
  const std::string spec = folder_ / "spec.textproto";
  const std::string dataset = absl::StrCat("--dataset=", uri);
  WriteFile(spec, "sources { dataset: 'd' } batch_size: 2");
  const Result all = Call({"check", dataset, spec});
  EXPECT_THAT(all,
              FailsWith("1 field of dataset d would be missing from the batch: "
                        "column count: tensors have no type uint64"));
  EXPECT_THAT(all.err, HasSubstr("outputs { field: \"x\" }"));
  WriteFile(spec,
            "sources { dataset: 'd' } batch_size: 2 outputs { field: 'x' }");
  EXPECT_EQ(Call({"check", dataset, spec}).code, program::kExitOk);
  WriteFile(
      spec,
      "sources { dataset: 'd' } batch_size: 2 outputs { field: 'count' }");
  EXPECT_THAT(Call({"check", dataset, spec}),
              FailsWith("column \"count\" of dataset d is left out: tensors "
                        "have no type uint64"));
}

TEST_F(DataToolTest, OneOfAThingHasNoPlural) {
  const std::string root = MakeImageFolder();
  std::filesystem::remove_all(root + "/cat");
  std::filesystem::remove(root + "/dog/b.jpg");
  const Result packed = PackFolder({Out("lmdb", "d")});
  EXPECT_THAT(packed.out, HasSubstr("packed 1 sample ("));
  EXPECT_THAT(packed.out, HasSubstr(": 1 shard, "));
  EXPECT_THAT(Call({"verify", Uri("lmdb", "d")}).out,
              AllOf(HasSubstr("1 sample ("), HasSubstr("in 1 shard is whole"),
                    HasSubstr("its image decodes")));
  EXPECT_THAT(Call({"inspect", Uri("lmdb", "d")}).out,
              HasSubstr("1 class: dog"));
}

TEST_F(DataToolTest, WrongUseIsExitCodeTwo) {
  EXPECT_THAT(Call({}), IsUsageError("usage"));
  EXPECT_THAT(Call({"unpack"}), IsUsageError("unknown command `unpack`"));
  EXPECT_THAT(Call({"pack"}), IsUsageError("--format is missing"));
  EXPECT_THAT(Call({"pack", "--formt=idx"}), IsUsageError("--formt"));
  EXPECT_THAT(Call({"pack", "--format=tar", "--input=x", "--output=lmdb:x"}),
              IsUsageError("no format 'tar'"));
  EXPECT_THAT(Call({"pack", "--format=idx", "--input=x", "--output=x"}),
              IsUsageError("lmdb:PATH"));
  for (const char* shards :
       {"0", "-4", "99999999", "four", "", "1e3", "99999999999999999999"}) {
    EXPECT_THAT(Call({"pack", "--format=idx", "--input=x", "--output=lmdb:x",
                      absl::StrCat("--shards=", shards)}),
                IsUsageError("--shards"))
        << shards;
  }
  EXPECT_THAT(Call({"pack", "--format=idx", "--format=idx"}),
              IsUsageError("twice"));
  EXPECT_THAT(Call({"pack", "--input"}), IsUsageError("needs a value"));
  // The flag that follows was the value.
  EXPECT_THAT(Call({"pack", "--format=idx", "--input", "--output=lmdb:x"}),
              IsUsageError("--input needs a value, and `--output=lmdb:x` looks "
                           "like another flag; if it is the value, write "
                           "--input=--output=lmdb:x"));
  EXPECT_THAT(PackIdx({"--output=lmdb:"}), IsUsageError("names no file"));
  EXPECT_THAT(Call({"pack", "extra"}), IsUsageError("extra"));
  EXPECT_THAT(Call({"pack", "--format=idx", "--input=x", "--output=lmdb:x",
                    "--skip_bad"}),
              IsUsageError("imagefolder"));
  EXPECT_THAT(Call({"inspect"}), IsUsageError("URI is missing"));
  EXPECT_THAT(Call({"inspect", "lmdb:a", "lmdb:b"}), IsUsageError("lmdb:b"));
  EXPECT_THAT(Call({"inspect", "lmdb:a", "--jsn"}), IsUsageError("--jsn"));
  EXPECT_THAT(Call({"verify", "--json", "lmdb:a"}), IsUsageError("--json"));
}

TEST_F(DataToolTest, HelpIsThereForAll) {
  const Result all = Call({"--help"});
  EXPECT_EQ(all.code, program::kExitOk);
  EXPECT_THAT(all.out, HasSubstr("\nExamples:\n  millrace-data pack "));
  EXPECT_THAT(Call({"--version"}).out, HasSubstr("millrace-data "));
  for (const char* command :
       {"pack", "index", "inspect", "head", "diff", "verify", "check"}) {
    const Result help = Call({command, "--help"});
    EXPECT_EQ(help.code, program::kExitOk);
    EXPECT_THAT(help.out,
                HasSubstr(absl::StrCat("usage: millrace-data ", command)));
    EXPECT_EQ(help.err, "");
  }
}

}  // namespace
}  // namespace millrace::data_tool
