// `millrace-data pack` with flags that change the samples (--max_side,
// --quality, --apply), and packings that are killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/program/exit_code.h"
#include "server/decode/image_decoder.h"
#include "server/storage/open.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"

namespace millrace::data_tool {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Text(const std::vector<uint8_t>& bytes) {
  return std::string(bytes.begin(), bytes.end());
}

std::string JpegOf(int width, int height, uint64_t seed, int components = 3) {
  JpegKind kind;
  kind.width = width;
  kind.height = height;
  kind.components = components;
  return Text(WriteJpeg(kind, seed));
}

// An EXIF block with nothing but an orientation.
std::vector<uint8_t> Orientation(uint8_t value) {
  return {'I', 'I', 42, 0, 8, 0,     0, 0, 1, 0, 0x12, 1, 3,
          0,   1,   0,  0, 0, value, 0, 0, 0, 0, 0,    0, 0};
}

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The tool in a process of its own, killed after `milliseconds`; its exit code,
// or -1.
int RunKilled(const std::vector<std::string>& args, int milliseconds) {
  const pid_t child = fork();
  if (child == 0) {
    std::ostringstream out;
    _exit(RunDataTool(args, out));
  }
  if (child < 0) return -2;  // kill() would take every process for it
  usleep(milliseconds * 1000);
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class PackConversionTest : public ::testing::Test {
 protected:
  void Add(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ / ("images/" + name);
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path());
    storage::WriteFile(path, bytes);
  }

  // Photographs of several sizes in two classes.
  void AddPhotographs(int count) {
    for (int i = 0; i < count; ++i) {
      Add(absl::StrCat(i % 2 == 0 ? "cat/" : "dog/", 100 + i, ".jpg"),
          JpegOf(90 + 7 * (i % 5), 60 + 11 * (i % 4), i));
    }
  }

  std::vector<std::string> Args(const std::string& output,
                                const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"pack", "--format=imagefolder",
                                     "--input=" + folder_ / "images",
                                     "--output=" + output};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Result PackTo(const std::string& output,
                const std::vector<std::string>& more) const {
    return Call(Args(output, more));
  }
  std::string Uri(absl::string_view name,
                  absl::string_view scheme = "lmdb") const {
    return absl::StrCat(scheme, ":", folder_ / name);
  }

  // The images of a dataset.
  std::vector<std::string> Images(const std::string& uri,
                                  DatasetInfo* info = nullptr) const {
    const auto source = storage::OpenRecordSource(uri, {});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    if (info != nullptr) *info = (*source)->info();
    const auto samples = storage::ReadAll(**source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    std::vector<std::string> images;
    for (const auto& sample : *samples) images.push_back(sample[0]);
    return images;
  }

  static decode::ImageHeader HeaderOf(const std::string& image) {
    decode::ImageDecoder decoder;
    const auto header = decoder.Open(Bytes(image), /*exif_transpose=*/true);
    EXPECT_TRUE(header.ok()) << header.status();
    return header.ok() ? *header : decode::ImageHeader{};
  }

  std::map<std::string, std::string> FilesOf(absl::string_view name) const {
    std::map<std::string, std::string> files;
    const std::string path = folder_ / name;
    if (!std::filesystem::is_directory(path)) {
      return {{"", storage::ReadFile(path)}};
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files[entry.path().filename()] = entry.is_directory()
                                           ? std::string("folder")
                                           : storage::ReadFile(entry.path());
    }
    return files;
  }

  // The payload of a batch and its random choices, as text.
  std::string Preview(const std::string& uri, const std::string& pipeline,
                      int step) const {
    const Result result =
        Call({"preview", "--dataset=" + uri, "--pipeline=" + pipeline,
              "--batch_size=4", absl::StrCat("--step=", step), "--seed=7",
              "--explain=json"});
    EXPECT_EQ(result.code, program::kExitOk) << result.err;
    const size_t at = result.out.find("\"payload_xxh3\": \"");
    EXPECT_NE(at, result.out.npos) << result.out;
    return result.out.substr(at, 34);
  }

  // Leaves a packing of "d" that was killed after it had finished a shard.
  bool KillAfterAShard(const std::vector<std::string>& flags) const {
    for (int milliseconds = 60; milliseconds < 20000;
         milliseconds += milliseconds / 8) {
      std::filesystem::remove_all(folder_ / "d");
      if (RunKilled(Args(Uri("d"), flags), milliseconds) != -1) return false;
      if (!std::filesystem::exists(folder_ / "d")) continue;
      for (const auto& [name, bytes] : FilesOf("d")) {
        const std::string journal =
            folder_ / absl::StrCat("d/", name, "/.journal.tmp");
        if (std::filesystem::exists(journal) &&
            absl::StrContains(storage::ReadFile(journal), "\nshard ")) {
          return true;
        }
      }
    }
    return false;
  }

  storage::TempFolder folder_;
};

TEST_F(PackConversionTest, TheLongerSideIsTheMaximum) {
  Add("a/1.jpg", JpegOf(200, 100, 1));
  Add("a/2.jpg", JpegOf(99, 198, 2));
  Add("a/3.jpg", JpegOf(80, 64, 3));
  Add("a/4.jpg", JpegOf(80, 40, 4));
  const Result packed = PackTo(Uri("d"), {"--max_side=80"});
  ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.out, AllOf(HasSubstr("made 2 of 4 images smaller"),
                                HasSubstr("unchanged: 2 small enough")));
  const std::vector<std::string> images = Images(Uri("d"));
  ASSERT_EQ(images.size(), 4u);
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {80, 40}, {40, 80}, {80, 64}, {80, 40}};
  for (size_t i = 0; i < images.size(); ++i) {
    const decode::ImageHeader header = HeaderOf(images[i]);
    const std::pair<int64_t, int64_t> size(header.width, header.height);
    EXPECT_EQ(size, sizes[i]) << i;
  }
  EXPECT_EQ(images[2], JpegOf(80, 64, 3)) << "byte for byte";
  EXPECT_EQ(images[3], JpegOf(80, 40, 4));
  const Result inspected = Call({"inspect", Uri("d")});
  EXPECT_THAT(inspected.out,
              HasSubstr("prepared by pack\n  images with a side above 80 "
                        "pixels: longer side resized to 80, JPEG of quality "
                        "90\n"));
}

TEST_F(PackConversionTest, QualityAloneEncodesEveryImageAgain) {
  Add("a/1.jpg", JpegOf(64, 48, 1));
  Add("a/2.jpg", JpegOf(64, 48, 2));
  const Result low = PackTo(Uri("low"), {"--quality=20"});
  const Result high = PackTo(Uri("high"), {"--quality=95"});
  ASSERT_EQ(low.code, program::kExitOk) << low.err;
  ASSERT_EQ(high.code, program::kExitOk) << high.err;
  EXPECT_THAT(low.out, HasSubstr("encoded 2 of 2 images again"));
  const std::vector<std::string> small = Images(Uri("low"));
  const std::vector<std::string> large = Images(Uri("high"));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_LT(small[i].size() * 2, large[i].size());
    EXPECT_EQ(HeaderOf(small[i]).width, 64);
    // An image of the same size is not resized: nothing but the quality
    // differs.
    const std::vector<uint8_t> a =
        ReferenceDecode(WriteJpeg({.width = 64, .height = 48}, i + 1), 1, 3);
    const std::vector<uint8_t> b =
        ReferenceDecode({large[i].begin(), large[i].end()}, 1, 3);
    ASSERT_EQ(a.size(), b.size());
    int64_t difference = 0;
    for (size_t p = 0; p < a.size(); ++p) difference += std::abs(a[p] - b[p]);
    EXPECT_LT(difference / static_cast<int64_t>(a.size()), 12);
  }
}

TEST_F(PackConversionTest, ColoursOrientationAndAlphaAreThoseOfThePipeline) {
  Add("a/1.jpg", JpegOf(100, 50, 1, 1));  // grey
  Add("a/2.jpg", JpegOf(100, 50, 2, 4));  // CMYK
  JpegKind turned;
  turned.width = 100;
  turned.height = 50;
  turned.exif = Orientation(6);
  Add("a/3.jpg", Text(WriteJpeg(turned, 3)));
  PngKind png;
  png.width = 100;
  png.height = 50;
  png.color_type = 6;
  Add("a/4.png", Text(WritePng(png, TestPixels(100, 50, 4, 4))));
  png.color_type = 2;
  png.bit_depth = 16;
  Add("a/5.png", Text(WritePng(png, TestPixels(100, 50, 6, 5))));
  const Result packed = PackTo(Uri("d"), {"--max_side=50"});
  ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.err, HasSubstr("1 image has an alpha channel"));
  const std::vector<std::string> images = Images(Uri("d"));
  ASSERT_EQ(images.size(), 5u);
  for (size_t i = 0; i < images.size(); ++i) {
    const decode::ImageHeader header = HeaderOf(images[i]);
    // Sizes of the upright image.
    const bool is_turned = i == 2;
    EXPECT_EQ(header.width, is_turned ? 25 : 50) << i;
    EXPECT_EQ(header.height, is_turned ? 50 : 25) << i;
    EXPECT_EQ(header.orientation, i == 2 ? 6 : 1) << i;
    EXPECT_TRUE(absl::StartsWith(images[i], "\xFF\xD8")) << i;
  }
  // One component: the frame header has their number.
  const size_t frame = images[0].find("\xFF\xC0");
  ASSERT_NE(frame, images[0].npos);
  EXPECT_EQ(images[0][frame + 9], 1);
}

TEST_F(PackConversionTest, MasksAreNotMadeJpegs) {
  const std::string uri = "lmdb:" + folder_ / "two";
  DatasetInfo info = storage::ImageDataset(2);
  *info.mutable_schema()->add_fields() = info.schema().fields(0);
  info.mutable_schema()->mutable_fields(2)->set_name("mask");
  storage::Samples samples = storage::ImageSamples(2);
  for (auto& sample : samples) sample.push_back(JpegOf(30, 20, 1));
  ASSERT_TRUE(storage::Pack(uri, info, samples).ok());
  const Result refused = Call({"pack", "--input=" + uri, "--output=" + Uri("d"),
                               "--max_side=8", "--no_decode"});
  EXPECT_EQ(refused.code, program::kExitUsage) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("(image, mask)"), HasSubstr("--apply")));
}

TEST_F(PackConversionTest, FlagsThatDoNotGoTogetherAreRefused) {
  AddPhotographs(2);
  const auto expect = [&](const std::vector<std::string>& flags,
                          const std::string& why) {
    const Result result = PackTo(Uri("d"), flags);
    EXPECT_EQ(result.code, program::kExitUsage) << why;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  expect({"--shards=2", "--shard_bytes=1MiB"}, "cannot be used together");
  expect({"--max_side=-1"}, "--max_side=-1");
  expect({"--quality=101"}, "--quality=101");
  expect({"--quality=0"}, "--quality=0: it must be 1 .. 100");
  expect({"--apply=x.textproto", "--max_side=9"}, "no effect with --apply");
  expect({"--apply=x.textproto", "--quality=9"}, "--apply_as=jpeg");
  expect({"--remainder=y.textproto"}, "--apply");
  expect({"--apply=/no/such.textproto"}, "/no/such.textproto");
  EXPECT_THAT(folder_.Names(), ElementsAre("images"));
}

constexpr char kWhole[] = R"(
transforms { decode_image { mode: EXACT } }
transforms { resize { short_side: 48 } }
transforms { pad { padding: [2] padding_mode: PADDING_REFLECT } }
transforms { random_crop { height: 40 width: 40 } }
transforms { horizontal_flip {} }
transforms { color_jitter { brightness_min: 0.6 brightness_max: 1.4 } }
transforms { normalize { mean: [0.5, 0.5, 0.5] stddev: [0.2, 0.2, 0.2] } }
)";

// The batches of the remainder on the result are those of the whole pipeline
// on the original, bit by bit.
TEST_F(PackConversionTest, TheRemainderGivesTheBatchesOfTheWhole) {
  AddPhotographs(10);
  const std::string whole = folder_ / "whole.textproto";
  const std::string rest = folder_ / "rest.textproto";
  storage::WriteFile(whole, kWhole);
  ASSERT_EQ(PackTo(Uri("plain"), {}).code, program::kExitOk);
  const Result packed = PackTo(
      Uri("d"), {"--apply=" + whole, "--remainder=" + rest, "--shards=2"});
  ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
  EXPECT_THAT(packed.out, AllOf(HasSubstr("applied 3 transforms of "),
                                HasSubstr("transforms[3].random_crop is "
                                          "random")));
  for (int step = 0; step < 2; ++step) {
    const std::string expected = Preview(Uri("plain"), whole, step);
    EXPECT_EQ(Preview(Uri("d"), rest, step), expected);
    EXPECT_NE(Preview(Uri("plain"), whole, 1 - step), expected);
  }
  DatasetInfo info;
  for (const std::string& image : Images(Uri("d"), &info)) {
    const decode::ImageHeader header = HeaderOf(image);
    EXPECT_EQ(std::min(header.width, header.height), 52);
  }
  ASSERT_EQ(info.prepared_size(), 1);
  EXPECT_THAT(
      info.prepared(0),
      AllOf(HasSubstr("applied: decode_image { field: \"image\" mode: EXACT }, "
                      "resize {"),
            HasSubstr("short_side: 48"), HasSubstr("stored as PNG")));
}

TEST_F(PackConversionTest, PixelsOfOneSizeAreStoredAsTensor) {
  AddPhotographs(9);
  const std::string whole = folder_ / "whole.textproto";
  const std::string rest = folder_ / "rest.textproto";
  storage::WriteFile(whole, R"(
transforms { decode_image { mode: EXACT } }
transforms { resize { short_side: 40 } }
transforms { center_crop { height: 40 width: 36 } }
transforms { random_crop { height: 32 width: 32 } }
transforms { horizontal_flip {} }
)");
  ASSERT_EQ(PackTo(Uri("plain"), {}).code, program::kExitOk);
  const Result packed =
      PackTo(Uri("d"),
             {"--apply=" + whole, "--remainder=" + rest, "--apply_as=tensor"});
  ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
  DatasetInfo info;
  for (const std::string& pixels : Images(Uri("d"), &info)) {
    EXPECT_EQ(pixels.size(), 40u * 36 * 3);
  }
  EXPECT_EQ(info.schema().fields(0).kind(), FIELD_KIND_TENSOR);
  EXPECT_THAT(info.schema().fields(0).shape(), ElementsAre(40, 36, 3));
  EXPECT_EQ(Preview(Uri("d"), rest, 1), Preview(Uri("plain"), whole, 1));

  storage::WriteFile(whole, R"(
transforms { decode_image {} }
transforms { resize { short_side: 40 } }
)");
  const Result refused =
      PackTo(Uri("e"), {"--apply=" + whole, "--apply_as=tensor"});
  EXPECT_EQ(refused.code, program::kExitUsage);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("images of different shapes"),
                                 HasSubstr("--apply_as=png")));
}

// Of a mask and boxes that belong to the image.
TEST_F(PackConversionTest, MasksAndBoxesMoveWithTheirImage) {
  constexpr int kRows = 8;
  DatasetInfo info = storage::ImageDataset(kRows);
  Schema& schema = *info.mutable_schema();
  schema.mutable_fields(1)->CopyFrom(schema.fields(0));
  schema.mutable_fields(1)->set_name("mask");
  Field& boxes = *schema.add_fields();
  boxes.set_name("boxes");
  boxes.set_kind(FIELD_KIND_TENSOR);
  boxes.set_dtype(DTYPE_FLOAT32);
  boxes.add_shape(1);
  boxes.add_shape(4);
  storage::Samples samples;
  for (int i = 0; i < kRows; ++i) {
    PngKind mask;
    mask.width = 60 + i;
    mask.height = 50;
    mask.color_type = 0;
    const float box[4] = {3, 4, 31.0f + i, 40};
    samples.push_back(
        {JpegOf(60 + i, 50, i),
         Text(WritePng(mask, TestPixels(60 + i, 50, 1, 100 + i))),
         std::string(reinterpret_cast<const char*>(box), sizeof(box))});
  }
  ASSERT_TRUE(storage::Pack(Uri("plain"), info, samples).ok());
  const std::string whole = folder_ / "whole.textproto";
  const std::string rest = folder_ / "rest.textproto";
  storage::WriteFile(whole, R"(
field_roles { field: "mask" role: MASK of: "image" fill: 255 }
field_roles { field: "boxes" role: BOXES_XYXY of: "image" }
transforms { decode_image { mode: EXACT } }
transforms { decode_image { field: "mask" color: INDEX } }
transforms { resize { fields: ["image", "mask", "boxes"] short_side: 40 } }
transforms { center_crop { fields: ["image", "mask", "boxes"] height: 44 width: 44 } }
transforms { random_crop { fields: ["image", "mask", "boxes"] height: 32 width: 32 } }
transforms { horizontal_flip { fields: ["image", "mask", "boxes"] } }
)");
  for (const char* as : {"png", "tensor"}) {
    const Result packed = Call(
        {"pack", "--input=" + Uri("plain"), absl::StrCat("--output=", Uri(as)),
         "--apply=" + whole, "--remainder=" + rest,
         absl::StrCat("--apply_as=", as), "--overwrite"});
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    EXPECT_EQ(Preview(Uri(as), rest, 1), Preview(Uri("plain"), whole, 1));
  }
}

// Before the input is read: the file is written after the whole packing.
TEST_F(PackConversionTest, AFileThatIsNotToBeReplacedIsRefusedFirst) {
  AddPhotographs(2);
  const std::string whole = folder_ / "whole.textproto";
  const std::string rest = folder_ / "rest.textproto";
  storage::WriteFile(whole, kWhole);
  const auto expect = [&](const std::string& remainder, bool overwrite,
                          const std::string& why) {
    const Result result =
        PackTo(Uri("d"), {"--apply=" + whole, "--remainder=" + remainder,
                          overwrite ? "--overwrite" : "--nooverwrite"});
    EXPECT_NE(result.code, program::kExitOk) << why;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "d"));
    return result.code;
  };
  for (const bool overwrite : {false, true}) {
    EXPECT_EQ(expect(folder_ / "images/../whole.textproto", overwrite,
                     " is the file of --apply"),
              program::kExitUsage);
    expect(folder_ / "d", overwrite, " is --output");
    expect(folder_.path(), overwrite, " is a folder");
    expect(folder_ / "none/rest", overwrite, "cannot write into folder ");
  }
  storage::WriteFile(rest, "no pipeline");
  EXPECT_EQ(expect(rest, false, " exists already; set --overwrite"),
            program::kExitUsage);
  expect(rest, true, " is not a pipeline, so --overwrite does not replace it");
  EXPECT_EQ(storage::ReadFile(rest), "no pipeline");
  EXPECT_EQ(storage::ReadFile(whole), kWhole);
  storage::WriteFile(rest, kWhole);
  EXPECT_EQ(PackTo(Uri("d"),
                   {"--apply=" + whole, "--remainder=" + rest, "--overwrite"})
                .code,
            program::kExitOk);
  EXPECT_NE(storage::ReadFile(rest), kWhole);
}

TEST_F(PackConversionTest, APipelineThatIsRandomIsRefusedWithItsPlace) {
  AddPhotographs(4);
  const std::string whole = folder_ / "whole.textproto";
  storage::WriteFile(whole, kWhole);
  const Result refused = PackTo(Uri("d"), {"--apply=" + whole});
  EXPECT_EQ(refused.code, program::kExitUsage);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("transforms[3].random_crop is "
                                           "random"),
                                 HasSubstr("--remainder=FILE")));
  storage::WriteFile(whole, R"(
transforms { decode_image {} }
transforms { horizontal_flip {} }
)");
  const Result nothing =
      PackTo(Uri("d"), {"--apply=" + whole, "--remainder=" + folder_ / "rest"});
  EXPECT_EQ(nothing.code, program::kExitUsage);
  EXPECT_THAT(nothing.err, HasSubstr("nothing to apply"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "rest"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d"));
}

TEST_F(PackConversionTest, FilesAreTheSameWhateverTheThreads) {
  AddPhotographs(16);
  const std::string pipeline = folder_ / "p.textproto";
  storage::WriteFile(pipeline, R"(
transforms { decode_image {} }
transforms { resize { short_side: 40 } }
)");
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  for (const std::string& scheme : storage::Schemes()) {
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{"--shards=3"},
          {"--max_side=70", "--seekable", "--shard_bytes=20kB"},
          {"--apply=" + pipeline}}) {
      ASSERT_EQ(PackTo(Uri("a", scheme), flags).code, program::kExitOk);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      const Result alone = PackTo(Uri("b", scheme), flags);
      ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
      ASSERT_EQ(alone.code, program::kExitOk) << alone.err;
      EXPECT_EQ(FilesOf("a"), FilesOf("b")) << flags[0];
      std::filesystem::remove_all(folder_ / "a");
      std::filesystem::remove_all(folder_ / "b");
    }
  }
}

TEST_F(PackConversionTest, AKilledPackingGoesOnAndGivesTheSameBytes) {
  AddPhotographs(200);
  for (const std::string& scheme : storage::Schemes()) {
    const std::vector<std::string> flags = {"--max_side=64", "--shards=20"};
    ASSERT_EQ(PackTo(Uri("whole", scheme), flags).code, program::kExitOk);
    const auto expected = FilesOf("whole");
    int killed = 0, resumed = 0;
    for (int milliseconds = 20; milliseconds < 5000;
         milliseconds += milliseconds * 2 / 3) {
      std::filesystem::remove_all(folder_ / "d");
      const int code = RunKilled(Args(Uri("d", scheme), flags), milliseconds);
      if (code == program::kExitOk) break;
      ASSERT_EQ(code, -1);
      ++killed;
      const Result again = PackTo(Uri("d", scheme), flags);
      ASSERT_EQ(again.code, program::kExitOk) << again.err;
      if (absl::StrContains(again.out, "kept of an interrupted packing")) {
        EXPECT_THAT(again.err, HasSubstr("going on with the interrupted"));
        ++resumed;
      }
      ASSERT_EQ(FilesOf("d"), expected) << "killed after " << milliseconds;
    }
    EXPECT_GE(killed, 1);
    EXPECT_GE(resumed, 1);
    std::filesystem::remove_all(folder_ / "d");
    std::filesystem::remove_all(folder_ / "whole");
  }
}

// The images of the finished shards have been checked; those of the others are
// checked when the packing goes on.
TEST_F(PackConversionTest, ADamagedImageIsNamedAlsoWhenThePackingGoesOn) {
  AddPhotographs(300);
  const std::vector<std::string> flags = {"--shards=100"};
  ASSERT_TRUE(KillAfterAShard(flags));
  const std::string whole = JpegOf(90, 60, 77);
  Add("dog/399.jpg", whole.substr(0, whole.size() / 2));  // the last sample
  const Result damaged = PackTo(Uri("d"), flags);
  EXPECT_EQ(damaged.code, program::kExitFailed);
  EXPECT_THAT(damaged.err,
              AllOf(HasSubstr("going on with the interrupted"),
                    HasSubstr("dog/399.jpg: field image does not decode: "),
                    HasSubstr("finished shards")));
  Add("dog/399.jpg", whole);
  const Result again = PackTo(Uri("d"), flags);
  ASSERT_EQ(again.code, program::kExitOk) << again.err;
  EXPECT_THAT(again.out, AllOf(HasSubstr("kept of an interrupted packing"),
                               HasSubstr("every image was decoded")));
  ASSERT_EQ(PackTo(Uri("whole"), flags).code, program::kExitOk);
  EXPECT_EQ(FilesOf("d"), FilesOf("whole"));
}

TEST_F(PackConversionTest, AChangedInputStartsAnewWithALine) {
  AddPhotographs(300);
  const std::vector<std::string> flags = {"--max_side=64", "--shards=100"};
  ASSERT_TRUE(KillAfterAShard(flags));
  Add("cat/100.jpg", JpegOf(91, 61, 12345));  // the first sample
  const Result changed = PackTo(Uri("d"), flags);
  ASSERT_EQ(changed.code, program::kExitOk) << changed.err;
  EXPECT_THAT(changed.err, AllOf(HasSubstr("the input has changed"),
                                 HasSubstr("packing starts anew")));
  ASSERT_EQ(PackTo(Uri("whole"), flags).code, program::kExitOk);
  EXPECT_EQ(FilesOf("d"), FilesOf("whole"));

  ASSERT_TRUE(KillAfterAShard(flags));
  const Result others = PackTo(Uri("d"), {"--max_side=64", "--shards=90"});
  ASSERT_EQ(others.code, program::kExitOk) << others.err;
  EXPECT_THAT(others.err, AllOf(HasSubstr("starts anew"),
                                HasSubstr("its flags were others")));
  EXPECT_EQ(FilesOf("d").size(), 90u);
}

}  // namespace
}  // namespace millrace::data_tool
