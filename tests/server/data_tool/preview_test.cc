// millrace-data preview from end to end over charts, and the little drawing
// that it is made of.

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/half_float.h"
#include "proto/spec_text.h"
#include "server/data_tool/bitmap_font.h"
#include "server/data_tool/canvas.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/contact_sheet.h"
#include "server/data_tool/preview_batch.h"
#include "server/data_tool/tensor_pixels.h"
#include "server/decode/image_decoder.h"
#include "server/operators/operators.h"
#include "server/plan/presets.h"
#include "server/storage/open.h"
#include "tests/testing/chart/chart.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int code;
  std::string out;
  std::string err;
};

Result Call(const std::vector<std::string>& args) {
  ::testing::internal::CaptureStderr();
  std::ostringstream out;
  Result result;
  result.code = RunDataTool(args, out);
  result.out = out.str();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

class PreviewTest : public ::testing::Test {
 protected:
  PreviewTest()
      : folder_(std::filesystem::path(::testing::TempDir()) / "preview") {
    std::filesystem::create_directories(folder_);
    uri_ = absl::StrCat("lmdb:", folder_.string(), "/charts.lmdb");
    const absl::Status written = WriteChartDataset(uri_, 12);
    EXPECT_TRUE(written.ok()) << written;
  }

  std::string File(const std::string& name) { return folder_ / name; }

  std::string Pipeline(const std::string& text) {
    const std::string path = File("pipeline.textproto");
    std::ofstream(path) << text;
    return "--pipeline=" + path;
  }

  std::unique_ptr<PreviewBatch> Batch(const std::string& text,
                                      PreviewOptions options = {}) {
    auto source = OpenRecordSource(uri_, {});
    EXPECT_TRUE(source.ok()) << source.status();
    auto spec = ParseSpecText(text, "test");
    EXPECT_TRUE(spec.ok()) << spec.status();
    // A mask that a pipeline does not decode would be refused.
    if (spec->outputs_size() == 0 && text.find("mask") == text.npos &&
        text.find("segmentation") == text.npos) {
      spec->add_outputs()->set_field("image");
    }
    auto batch = PreviewBatch::Make({*std::move(source)}, *spec, options);
    EXPECT_TRUE(batch.ok()) << batch.status();
    return batch.ok() ? *std::move(batch) : nullptr;
  }

  const std::filesystem::path folder_;
  std::string uri_;
};

TEST_F(PreviewTest, ShowsAMixtureOfSeveralDatasets) {
  const std::string other = "lmdb:" + File("other.lmdb");
  ASSERT_TRUE(WriteChartDataset(other, 5).ok());
  const std::string pipeline = Pipeline(
      "sources { dataset: 'one' } sources { dataset: 'two' } "
      "concatenate: true shuffle { mode: SEQUENTIAL } batch_size: 17 "
      "transforms { decode_image {} } "
      "transforms { random_resized_crop { height: 32 width: 32 } } "
      "outputs { field: 'image' }");
  const Result result =
      Call({"preview", "--dataset=" + uri_, "--dataset=" + other, pipeline,
            "--samples=17", "--explain", "--output=" + File("mixed.png")});
  ASSERT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("row 11: sample 11 of one, key"));
  EXPECT_THAT(result.out, HasSubstr("row 12: sample 0 of two, key"));
  EXPECT_THAT(result.err, HasSubstr("17 of 17 samples"));
  const Result json =
      Call({"preview", "--dataset=" + uri_, "--dataset=" + other, pipeline,
            "--samples=17", "--explain=json"});
  EXPECT_THAT(json.out, HasSubstr("\"row\": 16, \"source\": 1, \"sample\": 4"));
  const Result one =
      Call({"preview", "--dataset=" + uri_, pipeline, "--explain"});
  EXPECT_THAT(one.err, HasSubstr("names 2 datasets, and 1 is given"));
}

TEST_F(PreviewTest, WritesASheetOfTheAskedSize) {
  const std::string sheet = File("sheet.png");
  const Result result =
      Call({"preview", "--dataset=" + uri_, "--preset=imagenet_train",
            "--outputs=image,label", "--output=" + sheet, "--samples=4",
            "--cell=100", "--columns=2"});
  ASSERT_EQ(result.code, kExitOk) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("4 of 4 samples of step 0"));
  std::ifstream file(sheet, std::ios::binary);
  const std::string png{std::istreambuf_iterator<char>(file), {}};
  ImageDecoder decoder;
  const auto header = decoder.Open(
      {reinterpret_cast<const uint8_t*>(png.data()), png.size()}, false);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->width, 4 + 204 + 12 + 204 + 4);
  // Nothing is left beside it.
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".tmp")));
  }
}

TEST_F(PreviewTest, ExplainNamesSampleKeyLabelAndDraws) {
  const std::string pipeline = Pipeline(
      "seed: 3 shuffle { mode: SEQUENTIAL } transforms { decode_image {} } "
      "transforms { random_resized_crop { height: 64 width: 64 } } "
      "transforms { horizontal_flip { p: 1 } } "
      "transforms { color_jitter { brightness_min: 0.5 brightness_max: 1.5 } } "
      "outputs { field: 'image' } outputs { field: 'label' }");
  const Result text = Call({"preview", "--dataset=" + uri_, pipeline,
                            "--samples=3", "--explain", "--step=1"});
  ASSERT_EQ(text.code, kExitOk) << text.err;
  EXPECT_THAT(text.out,
              HasSubstr("epoch 0, step 1 of 4, seed 3, batch of 3, payload"));
  EXPECT_THAT(text.out, ContainsRegex("row 0: sample 3, key [0-9a-f]{16}, "
                                      "label 0 disc"));
  EXPECT_THAT(text.out, ContainsRegex("transforms\\[1\\].random_resized_crop "
                                      "of image: .*[0-9]"));
  EXPECT_THAT(text.out,
              HasSubstr("transforms[2].horizontal_flip of image: flipped"));
  EXPECT_THAT(text.out,
              ContainsRegex("transforms\\[3\\].color_jitter of image: "
                            ".*brightness"));

  const Result json = Call({"preview", "--dataset=" + uri_, pipeline,
                            "--samples=3", "--explain=json", "--step=1"});
  ASSERT_EQ(json.code, kExitOk) << json.err;
  const std::vector<std::string> lines =
      absl::StrSplit(json.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) {
    google::protobuf::Struct parsed;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &parsed).ok())
        << line;
  }
  EXPECT_THAT(lines[2], HasSubstr("\"row\": 1, \"sample\": 4"));
  // The same draws again, and others with another seed.
  EXPECT_EQ(Call({"preview", "--dataset=" + uri_, pipeline, "--samples=3",
                  "--explain=json", "--step=1"})
                .out,
            json.out);
  EXPECT_NE(Call({"preview", "--dataset=" + uri_, pipeline, "--samples=3",
                  "--explain=json", "--step=1", "--seed=4"})
                .out,
            json.out);
}

TEST_F(PreviewTest, ExplainsMixingBeforeTheSamples) {
  const Result result = Call(
      {"preview", "--dataset=" + uri_, "--samples=4", "--explain",
       Pipeline("shuffle { mode: SEQUENTIAL } transforms { decode_image {} } "
                "transforms { center_crop { "
                "height: 64 width: 64 } } transforms { mix_up {} } "
                "outputs { field: 'image' } outputs { field: 'label' }")});
  ASSERT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  transforms[2].mix_up: "));
  // Two classes and their shares.
  EXPECT_THAT(result.out, ContainsRegex("label [a-z]+ 0\\.[0-9]+ [a-z]+ 0\\."));
}

TEST_F(PreviewTest, MistakesSayWhatToWrite) {
  const std::string dataset = "--dataset=" + uri_;
  const auto usage = [&](const std::vector<std::string>& args,
                         const std::string& sentence) {
    std::vector<std::string> all = {"preview"};
    all.insert(all.end(), args.begin(), args.end());
    const Result result = Call(all);
    EXPECT_EQ(result.code, kExitUsage) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence));
  };
  usage({"--preset=mnist", "--explain"}, "--dataset=URI is missing");
  usage({dataset, "--explain"}, "one of --preset=NAME and --pipeline=FILE");
  usage({dataset, "--preset=mnist"}, "nothing to do");
  usage({dataset, "--preset=mnist", "--outputs=image,"}, "an empty name");
  usage({dataset, "--preset=mnist", "--explain=xml"}, "neither text nor json");
  usage({dataset, "--preset=mnist", "--explain", "--samples=0"}, "1 .. 1000");
  usage({dataset, "--preset=mnist", "--output=s.png", "--cell=5"},
        "16 .. 1024");
  // Each was taken and had no effect.
  for (const char* flag : {"--cell=64", "--columns=2", "--field=image"}) {
    usage({dataset, "--preset=mnist", "--explain", flag},
          "has no effect without --output");
  }
  usage({dataset, "--preset=mnist", "--explain", "--seed=-5"}, "from 0");
  usage({dataset, "--preset=imagnet", "--explain"}, "there is no preset");
  usage({dataset, "--pipeline=/nowhere", "--explain"}, "/nowhere");
  usage({dataset, Pipeline("transforms {"), "--explain"},
        "pipeline.textproto:1:");
  usage({dataset, "--preset=mnist", "--explain", "--step=-1"},
        "--step=-1: expected a number from 0");
  usage({dataset, "--preset=mnist", "--explain", "--batch_size=0"},
        "--batch_size=0: it is 1 .. ");
  usage({dataset, "--preset=mnist", "--output=s.png", "--columns=9999999999"},
        "--columns=9999999999: it is 0 .. 1000");
  // It wrote a PNG file under this name.
  usage({dataset, "--preset=mnist", "--output=s.jpg"}, "does not end in .png");
  const std::string image = "--outputs=image";
  usage({dataset, "--preset=mnist", "--explain", "--step=99", image}, "99");
  // The mask of the charts is not decoded by this preset.
  const std::string eval = "--preset=imagenet_eval";
  usage({dataset, eval, "--explain"}, "field mask holds encoded images");
  usage({dataset, eval, "--explain"},
        " (as a flag: --outputs=image,boxes,label)");
  // This program has no --last_batch.
  const Result large =
      Call({"preview", dataset, eval, image, "--explain", "--batch_size=99"});
  EXPECT_EQ(large.code, kExitUsage);
  EXPECT_THAT(large.err, HasSubstr("or last_batch: LAST_BATCH_PAD"));
  EXPECT_THAT(large.err, Not(HasSubstr("--last_batch")));
  usage({dataset, Pipeline("outputs { field: 'label' }"),
         "--output=" + File("x.png")},
        "no output of this pipeline is an image");
  usage({dataset, eval, image, "--output=" + File("x.png"), "--field=cat"},
        "--field=cat is no image among the outputs; the images among them: "
        "image");
  // Fewer were shown without a word.
  usage({dataset, eval, image, "--explain", "--batch_size=4", "--samples=5"},
        "--samples=5 is more than the batch holds (4 samples): give "
        "--samples=4 or less, or a larger --batch_size");
  usage({dataset, eval, image, "--explain", "--samples=13"},
        "more than the batch holds (12 samples): give --samples=12 or less");
  const std::string mixing = Pipeline(
      "transforms { decode_image {} } "
      "transforms { center_crop { height: 8 width: 8 } } "
      "transforms { mix_up {} } outputs { field: 'image' }");
  usage({dataset, mixing, "--explain", "--samples=1"},
        "batch_size is 1: take 2 or more (--samples=1)");
  usage({dataset, mixing, "--explain", "--batch_size=1"},
        "batch_size is 1: take 2 or more (--batch_size=1)");
  const Result unwritable =
      Call({"preview", dataset, eval, image, "--output=/nowhere/sheet.png"});
  EXPECT_EQ(unwritable.code, kExitFailed);
  EXPECT_THAT(unwritable.err, HasSubstr("/nowhere/sheet.png"));
}

// Every pipeline of docs/transforms.md and every preset, from the dataset to
// the picture; what is explained is what the engine makes.
TEST_F(PreviewTest, EveryPipelineOfThePageAndEveryPresetRuns) {
  class NoLog final : public ParameterLog {
    void Add(uint32_t, std::string) override {}
  } log;
  std::ifstream file("docs/transforms.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> pipelines;
  const std::string open = "```textproto\n";
  for (size_t at = page.find(open); at != page.npos;
       at = page.find(open, at + 1)) {
    const size_t begin = at + open.size();
    pipelines.push_back(page.substr(begin, page.find("```", begin) - begin));
  }
  ASSERT_GT(pipelines.size(), 20u);
  for (const std::string& preset : PresetNames()) {
    pipelines.push_back("preset: '" + preset + "'");
  }
  for (const std::string& pipeline : pipelines) {
    if (pipeline.find("custom {") != pipeline.npos) continue;
    const auto batch = Batch(pipeline, {.samples = 4, .cell = 32});
    ASSERT_NE(batch, nullptr) << pipeline;
    EXPECT_TRUE(batch->Pairs().ok()) << pipeline << batch->Pairs().status();
    const absl::Status explained = batch->Explain(log);
    EXPECT_TRUE(explained.ok()) << pipeline << explained;
  }
}

// What is shown is the tensor: the same picture whatever its type and layout
// on the wire.
TEST_F(PreviewTest, TypesAndLayoutsAreUndone) {
  const std::string crop =
      "shuffle { mode: SEQUENTIAL } transforms { decode_image {} } transforms "
      "{ center_crop { height: 60 width: 50 } } ";
  const std::string server =
      "transforms { normalize { mean: [0.4, 0.5, 0.6] stddev: [0.2, 0.3, 0.4] "
      "placement: PLACEMENT_SERVER } } ";
  const std::string image = "outputs { field: 'image' } ";
  const auto shown = [&](const std::string& text) {
    const auto batch = Batch(text, {.samples = 2, .cell = 60});
    EXPECT_NE(batch, nullptr);
    const auto pairs = batch->Pairs();
    EXPECT_TRUE(pairs.ok()) << pairs.status();
    return pairs->at(1);
  };
  const SheetPair plain = shown(crop + image);
  EXPECT_EQ(plain.after.width(), 50);
  EXPECT_EQ(plain.after.height(), 60);
  // The middle of the chart, in the chart itself.
  EXPECT_EQ(plain.after.At(7, 9),
            DrawChart(1).image.At((kChartWidth - 50) / 2 + 7,
                                  (kChartHeight - 60) / 2 + 9));
  EXPECT_EQ(shown(crop + server + image).after.bytes(), plain.after.bytes());
  EXPECT_EQ(shown(crop + server + "outputs { field: 'image' layout: NCHW }")
                .after.bytes(),
            plain.after.bytes());
  EXPECT_EQ(
      shown(crop + "outputs { field: 'image' layout: NCHW }").after.bytes(),
      plain.after.bytes());
  EXPECT_EQ(shown(crop +
                  "transforms { to_dtype { dtype: DTYPE_FLOAT32 scale: true "
                  "placement: PLACEMENT_SERVER } } " +
                  image)
                .after.bytes(),
            plain.after.bytes());
}

TEST_F(PreviewTest, MasksAndBoxesAreDrawnWhereTheFiguresAre) {
  const auto batch = Batch(
      "shuffle { mode: SEQUENTIAL } "
      "field_roles { field: 'mask' role: MASK } "
      "field_roles { field: 'boxes' role: BOXES_XYXY } "
      "transforms { decode_image {} } "
      "transforms { decode_image { field: 'mask' color: INDEX } } "
      "transforms { resize { fields: ['image', 'mask', 'boxes'] height: 180 "
      "width: 240 } } "
      "transforms { horizontal_flip { fields: ['image', 'mask', 'boxes'] p: 1 "
      "} }",
      {.samples = 1, .cell = 240});
  ASSERT_NE(batch, nullptr);
  const auto pairs = batch->Pairs();
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  const SheetPair& pair = pairs->at(0);
  ASSERT_EQ(pair.before.width(), kChartWidth);
  ASSERT_EQ(pair.after.width(), kChartWidth);
  const Chart chart = DrawChart(0);
  int tinted = 0, framed = 0;
  for (int y = 0; y < kChartHeight; ++y) {
    for (int x = 0; x < kChartWidth; ++x) {
      // Mirrored, all of it.
      if (pair.before.At(x, y) != pair.after.At(kChartWidth - 1 - x, y)) {
        ++framed;
      }
      if (pair.before.At(x, y) != chart.image.At(x, y)) ++tinted;
    }
  }
  // Frames are drawn anew: only they may differ by a pixel.
  EXPECT_LT(framed, 600);
  EXPECT_GT(tinted, 3000);
}

// Fewer boxes than are stored, none at all, a mask that is no image any more.
TEST_F(PreviewTest, WhatOperatorsMakeOfMasksAndBoxesIsDrawnAsFarAsItCanBe) {
  const auto operators = Operators::Load(
      {testing::ProgramPath("tests/testing/operators/good.so")});
  ASSERT_TRUE(operators.ok()) << operators.status();
  PreviewOptions options;
  options.samples = 2;
  options.cell = 240;
  options.operators = operators->get();
  const std::string start =
      "shuffle { mode: SEQUENTIAL } batch_size: 2 "
      "field_roles { field: 'mask' role: MASK } "
      "field_roles { field: 'boxes' role: BOXES_XYXY } "
      "transforms { decode_image {} } "
      "transforms { decode_image { field: 'mask' color: INDEX } } "
      "transforms { resize { fields: ['image', 'mask', 'boxes'] height: 180 "
      "width: 240 } } ";
  const auto after = [&](const std::string& more) {
    const auto batch = Batch(start + more, options);
    EXPECT_NE(batch, nullptr);
    if (batch == nullptr) return RgbImage(1, 1);
    const auto pairs = batch->Pairs();
    EXPECT_TRUE(pairs.ok()) << pairs.status();
    return pairs.ok() ? pairs->at(1).after : RgbImage(1, 1);
  };
  const auto changed = [](const std::string& field, const std::string& config) {
    return "transforms { custom { name: 'rescale' fields: '" + field +
           "' config: '" + config + "' } } ";
  };
  const std::string image = "outputs { field: 'image' } ";
  const std::string mask = "outputs { field: 'mask' } ";
  const std::string boxes = "outputs { field: 'boxes' } ";
  const auto plain = after(image).bytes();
  EXPECT_NE(after(image + mask).bytes(), plain);
  EXPECT_NE(after(image + boxes).bytes(), plain);
  EXPECT_EQ(after(changed("boxes", "flat") + image + boxes).bytes(), plain);
  EXPECT_EQ(after(changed("mask", "flat") + image + mask).bytes(), plain);
  const auto first = after(changed("boxes", "first") + image + boxes).bytes();
  EXPECT_NE(first, plain);
  EXPECT_NE(first, after(image + boxes).bytes());
}

TEST_F(PreviewTest, ExplainSaysWhichRowsWereLeftEmpty) {
  const std::string pipeline = Pipeline(
      "shuffle { mode: SEQUENTIAL } bad_samples { action: ZERO } "
      "transforms { decode_image {} } "
      "transforms { center_crop { height: 64 width: 64 } } "
      "transforms { custom { name: 'paint' config: 'fail' } } "
      "outputs { field: 'image' } outputs { field: 'label' }");
  const std::string operators =
      "--operators=" + testing::ProgramPath("tests/testing/operators/good.so");
  const Result text = Call({"preview", "--dataset=" + uri_, pipeline, operators,
                            "--samples=2", "--explain"});
  ASSERT_EQ(text.code, kExitOk) << text.err;
  EXPECT_THAT(text.out, ContainsRegex("row 1: sample 1, key [0-9a-f]{16}, "
                                      "damaged and left empty"));
  EXPECT_THAT(text.out, Not(HasSubstr("label")));
  const Result json = Call({"preview", "--dataset=" + uri_, pipeline, operators,
                            "--samples=2", "--explain=json"});
  ASSERT_EQ(json.code, kExitOk) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"left_empty\": true, \"label\": \"\""));
}

TEST(Canvas, DrawsTextFramesAndScales) {
  RgbImage image(20, 12, {255, 255, 255});
  image.Text("I", 2, 3, {1, 2, 3});
  EXPECT_EQ(image.At(4, 5), (Rgb{1, 2, 3}));
  EXPECT_EQ(image.At(2, 5), (Rgb{255, 255, 255}));
  image.Frame(-3, 0, 19, 11, {9, 9, 9});  // cut off, not out of bounds
  EXPECT_EQ(image.At(19, 4), (Rgb{9, 9, 9}));
  EXPECT_EQ(image.At(-1, 4), (Rgb{0, 0, 0}));

  RgbImage two(2, 1);
  two.Set(1, 0, {100, 200, 50});
  EXPECT_EQ(two.Scaled(1, 1).At(0, 0), (Rgb{50, 100, 25}));
  EXPECT_EQ(two.Scaled(4, 2).At(3, 1), (Rgb{100, 200, 50}));
  EXPECT_EQ(two.ScaledToFit(9, 9).width(), 8);  // whole factors
  EXPECT_EQ(RgbImage(300, 100).ScaledToFit(100, 100).height(), 33);
  EXPECT_EQ(RgbImage(1, 5000).ScaledToFit(10, 10).width(), 1);
}

TEST(Canvas, EveryLetterOfTheFontIsDifferent) {
  std::set<Glyph> glyphs;
  for (char c = ' '; c <= '~'; ++c) {
    EXPECT_TRUE(glyphs.insert(GlyphOf(c)).second) << c;
  }
  EXPECT_EQ(GlyphOf('\n'), GlyphOf('?'));
  EXPECT_EQ(GlyphOf('\xe4'), GlyphOf('?'));
}

TEST(TensorPixels, ReadsEveryType) {
  const uint16_t half = FloatToHalf(0.5f);
  const uint16_t brain = FloatToBfloat16(-2.0f);
  const auto bytes = [](const auto& value) {
    return reinterpret_cast<const uint8_t*>(&value);
  };
  EXPECT_EQ(ElementAt(bytes(half), DTYPE_FLOAT16, 0), 0.5);
  EXPECT_EQ(ElementAt(bytes(brain), DTYPE_BFLOAT16, 0), -2.0);
  const int16_t small[] = {7, -3};
  EXPECT_EQ(ElementAt(bytes(small), DTYPE_INT16, 1), -3.0);
  const int64_t large = -100;
  EXPECT_EQ(ElementAt(bytes(large), DTYPE_INT64, 0), -100.0);
  // Out of range and not a number are cut.
  const float values[] = {-1, 2, std::numeric_limits<float>::quiet_NaN(), 0.5};
  PixelFormat format;
  format.dtype = DTYPE_FLOAT32;
  format.height = 2;
  format.width = 2;
  format.channels = 1;
  format.scale = 255;
  const RgbImage image = ToRgb(bytes(values), format);
  EXPECT_EQ(image.At(0, 0).r, 0);
  EXPECT_EQ(image.At(1, 0).r, 255);
  EXPECT_EQ(image.At(0, 1).r, 0);
  EXPECT_EQ(image.At(1, 1).r, 128);
}

TEST(ContactSheet, HasARowForEveryPair) {
  SheetPair pair;
  pair.before = RgbImage(10, 20, {255, 0, 0});
  pair.after = RgbImage(20, 10, {0, 0, 255});
  pair.caption = std::string(500, 'x');
  const RgbImage sheet =
      DrawContactSheet({pair, pair, pair}, {.cell = 20, .columns = 2});
  EXPECT_EQ(sheet.width(), 4 + 44 + 12 + 44 + 4);
  EXPECT_EQ(sheet.height(), 4 + 13 + 2 * (20 + 9 + 8));
  EXPECT_EQ(sheet.At(4 + 10, 17 + 10), (Rgb{255, 0, 0}));
  EXPECT_EQ(sheet.At(4 + 24 + 10, 17 + 10), (Rgb{0, 0, 255}));
  EXPECT_GT(DrawContactSheet({}, {}).width(), 0);
}

}  // namespace
}  // namespace millrace
