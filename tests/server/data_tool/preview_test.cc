// millrace-data preview from end to end over charts.

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/picture/picture.h"
#include "proto/spec_text.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/contact_sheet.h"
#include "server/data_tool/explained_batch.h"
#include "server/data_tool/preview_batch.h"
#include "server/data_tool/preview_sheet.h"
#include "server/operators/operators.h"
#include "server/plan/presets.h"
#include "server/storage/open.h"
#include "tests/common/picture/drawn_picture.h"
#include "tests/testing/chart/chart.h"
#include "tests/testing/subprocess.h"

namespace millrace::data_tool {
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
    auto source = storage::OpenRecordSource(uri_, {});
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
  ASSERT_EQ(result.code, program::kExitOk) << result.err;
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
  ASSERT_EQ(result.code, program::kExitOk) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("4 of 4 samples of step 0"));
  const picture::RgbImage drawn = testing::DecodePng(testing::ReadFile(sheet));
  EXPECT_THAT(result.err,
              HasSubstr(absl::StrCat(drawn.width(), " x ", drawn.height())));
  EXPECT_GT(drawn.width(), 4 * 100);
  EXPECT_GT(drawn.height(), 2 * 100);
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
  ASSERT_EQ(text.code, program::kExitOk) << text.err;
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
  ASSERT_EQ(json.code, program::kExitOk) << json.err;
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
  ASSERT_EQ(result.code, program::kExitOk) << result.err;
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
    EXPECT_EQ(result.code, program::kExitUsage) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence));
  };
  usage({"--preset=mnist", "--explain"}, "--dataset=URI is missing");
  usage({dataset, "--explain"}, "one of --preset=NAME and --pipeline=FILE");
  usage({dataset, "--preset=mnist"}, "nothing to do");
  usage({dataset, "--preset=mnist", "--outputs=image,"}, "an empty name");
  usage({dataset, "--preset=mnist", "--explain=xml"}, "neither text nor json");
  for (const char* off : {"--noexplain", "--explain=false"}) {
    usage({dataset, "--preset=mnist", off}, "nothing to do");
  }
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
        "--step=-1: expected a whole number from 0");
  usage({dataset, "--preset=mnist", "--explain", "--batch_size=0"},
        "--batch_size=0: it must be 1 .. ");
  usage({dataset, "--preset=mnist", "--output=s.png", "--columns=9999999999"},
        "--columns=9999999999: it must be 0 .. 1000");
  // It wrote a PNG file under this name.
  usage({dataset, "--preset=mnist", "--output=s.jpg"},
        "--output=s.jpg ends in neither .png nor .svg");
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
  EXPECT_EQ(large.code, program::kExitUsage);
  EXPECT_THAT(large.err, HasSubstr("or set last_batch: LAST_BATCH_PAD"));
  EXPECT_THAT(large.err, Not(HasSubstr("--last_batch")));
  usage({dataset, Pipeline("outputs { field: 'label' }"),
         "--output=" + File("x.png")},
        "no output of this pipeline is an image");
  usage({dataset, eval, image, "--output=" + File("x.png"), "--field=cat"},
        "--field=cat is not an image output; the image outputs are: image");
  // Fewer were shown without a word.
  usage({dataset, eval, image, "--explain", "--batch_size=4", "--samples=5"},
        "--samples=5 exceeds the batch (4 samples): set --samples=4 or less, "
        "or a larger --batch_size");
  usage({dataset, eval, image, "--explain", "--samples=13"},
        "exceeds the batch (12 samples): set --samples=12 or less");
  const std::string mixing = Pipeline(
      "transforms { decode_image {} } "
      "transforms { center_crop { height: 8 width: 8 } } "
      "transforms { mix_up {} } outputs { field: 'image' }");
  usage({dataset, mixing, "--explain", "--samples=1"},
        "batch_size is 1: set it to 2 or more (batch_size is from "
        "--samples=1)");
  usage({dataset, mixing, "--explain", "--batch_size=1"},
        "batch_size is 1: set it to 2 or more (batch_size is from "
        "--batch_size=1)");
  const Result unwritable =
      Call({"preview", dataset, eval, image, "--output=/nowhere/sheet.png"});
  EXPECT_EQ(unwritable.code, program::kExitFailed);
  EXPECT_THAT(unwritable.err, HasSubstr("/nowhere/sheet.png"));
}

// Every pipeline of docs/transforms.md and every preset, from the dataset to
// the picture; what is explained is what the engine makes.
TEST_F(PreviewTest, EveryPipelineOfThePageAndEveryPresetRuns) {
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
  for (const std::string& preset : plan::PresetNames()) {
    pipelines.push_back("preset: '" + preset + "'");
  }
  for (const std::string& pipeline : pipelines) {
    if (pipeline.find("custom {") != pipeline.npos) continue;
    const auto batch = Batch(pipeline, {.samples = 4, .cell = 32});
    ASSERT_NE(batch, nullptr) << pipeline;
    const auto explained = ExplainRows(*batch);
    ASSERT_TRUE(explained.ok()) << pipeline << explained.status();
    const auto sheet = PreviewSheet(*batch, *explained, {}, {.cell = 32});
    EXPECT_TRUE(sheet.ok()) << pipeline << sheet.status();
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
    const auto pairs = batch->Pairs({});
    EXPECT_TRUE(pairs.ok()) << pairs.status();
    return pairs->at(1);
  };
  const SheetPair plain = shown(crop + image);
  EXPECT_EQ(plain.after.pixels.width(), 50);
  EXPECT_EQ(plain.after.pixels.height(), 60);
  // The middle of the chart, in the chart itself.
  EXPECT_EQ(plain.after.pixels.At(7, 9),
            DrawChart(1).image.At((kChartWidth - 50) / 2 + 7,
                                  (kChartHeight - 60) / 2 + 9));
  EXPECT_EQ(shown(crop + server + image).after.pixels.bytes(),
            plain.after.pixels.bytes());
  EXPECT_EQ(shown(crop + server + "outputs { field: 'image' layout: NCHW }")
                .after.pixels.bytes(),
            plain.after.pixels.bytes());
  EXPECT_EQ(shown(crop + "outputs { field: 'image' layout: NCHW }")
                .after.pixels.bytes(),
            plain.after.pixels.bytes());
  EXPECT_EQ(shown(crop +
                  "transforms { to_dtype { dtype: DTYPE_FLOAT32 scale: true "
                  "placement: PLACEMENT_SERVER } } " +
                  image)
                .after.pixels.bytes(),
            plain.after.pixels.bytes());
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
  const auto pairs = batch->Pairs({});
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  const SheetPair& pair = pairs->at(0);
  const picture::RgbImage& before = pair.before.pixels;
  const picture::RgbImage& after = pair.after.pixels;
  ASSERT_EQ(before.width(), kChartWidth);
  ASSERT_EQ(after.width(), kChartWidth);
  const Chart chart = DrawChart(0);
  int tinted = 0;
  for (int y = 0; y < kChartHeight; ++y) {
    for (int x = 0; x < kChartWidth; ++x) {
      // Mirrored, all of it.
      ASSERT_EQ(before.At(x, y), after.At(kChartWidth - 1 - x, y));
      if (before.At(x, y) != chart.image.At(x, y)) ++tinted;
    }
  }
  EXPECT_GT(tinted, 3000);
  // The fourth is padding.
  ASSERT_EQ(pair.before.boxes.size(), 3u);
  ASSERT_EQ(pair.after.boxes.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const SheetBox& box = pair.before.boxes[i];
    const SheetBox& mirrored = pair.after.boxes[i];
    EXPECT_EQ(box.left, chart.boxes[4 * i]);
    EXPECT_EQ(box.bottom, chart.boxes[4 * i + 3]);
    EXPECT_EQ(mirrored.left, kChartWidth - box.right);
    EXPECT_EQ(mirrored.right, kChartWidth - box.left);
    EXPECT_EQ(mirrored.top, box.top);
    EXPECT_EQ(mirrored.color, box.color);
  }
}

TEST_F(PreviewTest, FramesTheCropThatWasDrawn) {
  const auto batch = Batch(
      "seed: 3 shuffle { mode: SEQUENTIAL } transforms { decode_image {} } "
      "transforms { random_resized_crop { height: 64 width: 64 } } "
      "transforms { horizontal_flip { p: 0.5 } }",
      {.samples = 4, .cell = 120});
  ASSERT_NE(batch, nullptr);
  const auto explained = ExplainRows(*batch);
  ASSERT_TRUE(explained.ok()) << explained.status();
  ASSERT_EQ(explained->samples.size(), 4u);
  std::map<int64_t, uint64_t> keys;
  for (const auto& sample : explained->samples) {
    if (sample.row != 3) keys[sample.row] = sample.key;
  }
  const auto pairs = batch->Pairs(keys);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  for (int row = 0; row < 3; ++row) {
    int left, top, width, height;
    ASSERT_EQ(std::sscanf(explained->samples[row].drawn[0].what.c_str(),
                          "left %d, top %d, width %d, height %d", &left, &top,
                          &width, &height),
              4);
    double min_x = 1e9, min_y = 1e9, max_x = 0, max_y = 0;
    ASSERT_EQ(pairs->at(row).kept.size(), 4u);
    for (const picture::PicturePoint& corner : pairs->at(row).kept) {
      min_x = std::min(min_x, corner.x);
      min_y = std::min(min_y, corner.y);
      max_x = std::max(max_x, corner.x);
      max_y = std::max(max_y, corner.y);
    }
    // The chart of 240 x 180 is shown half as large.
    EXPECT_DOUBLE_EQ(min_x, left / 2.0);
    EXPECT_DOUBLE_EQ(min_y, top / 2.0);
    EXPECT_DOUBLE_EQ(max_x, (left + width) / 2.0);
    EXPECT_DOUBLE_EQ(max_y, (top + height) / 2.0);
  }
  EXPECT_TRUE(pairs->at(3).kept.empty()) << "no key, no frame";
}

// The texts of a sheet, a line each.
std::string TextsOf(const picture::Picture& sheet) {
  std::string texts;
  for (const picture::PictureItem& item : sheet.items) {
    if (const auto* text = std::get_if<picture::PictureText>(&item)) {
      absl::StrAppend(&texts, text->text, "\n");
    }
  }
  return texts;
}

TEST_F(PreviewTest, TheSheetSaysWhatItShowsAndWhatWasDrawn) {
  const auto batch = Batch(
      "seed: 3 shuffle { mode: SEQUENTIAL } "
      "sources { dataset: 'charts' } batch_size: 6 "
      "transforms { decode_image {} } "
      "transforms { random_resized_crop { height: 64 width: 64 } } "
      "transforms { horizontal_flip { p: 1 } } "
      "outputs { field: 'image' } outputs { field: 'label' }",
      {.epoch = 2, .step = 1, .samples = 2});
  ASSERT_NE(batch, nullptr);
  const auto explained = ExplainRows(*batch);
  ASSERT_TRUE(explained.ok()) << explained.status();
  const auto sheet =
      PreviewSheet(*batch, *explained, {"preset mine", 2, 1}, {});
  ASSERT_TRUE(sheet.ok()) << sheet.status();
  const std::string texts = TextsOf(*sheet);
  for (const std::string& text : std::vector<std::string>{
           "charts: preset mine\n",
           "transforms: decode_image, random_resized_crop, horizontal_flip\n",
           "epoch 2, step 1 of 2, seed 3, batch of 6 samples, 2 shown\n",
           "frame: the region of the stored picture", "row 0: sample 6\n",
           "label: 0 disc\n", "before: 240 x 180\n", "after: 64 x 64\n",
           absl::StrCat("random_resized_crop: ",
                        explained->samples[0].drawn[0].what, "\n"),
           "horizontal_flip: flipped\n"}) {
    EXPECT_THAT(texts, HasSubstr(text));
  }
}

TEST_F(PreviewTest, TheSheetNamesThePartnersOfMixing) {
  const auto batch = Batch(
      "shuffle { mode: SEQUENTIAL } transforms { decode_image {} } "
      "transforms { center_crop { height: 64 width: 64 } } "
      "transforms { mix_up {} } "
      "outputs { field: 'image' } outputs { field: 'label' }",
      {.samples = 3});
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->partner(0), 1);
  EXPECT_EQ(batch->partner(1), 0);
  EXPECT_EQ(batch->partner(2), -1);
  const auto explained = ExplainRows(*batch);
  ASSERT_TRUE(explained.ok()) << explained.status();
  const auto sheet = PreviewSheet(*batch, *explained, {}, {});
  ASSERT_TRUE(sheet.ok()) << sheet.status();
  const std::string texts = TextsOf(*sheet);
  EXPECT_THAT(texts, HasSubstr("drawn for the batch: mix_up lambda 0."));
  EXPECT_THAT(texts, HasSubstr("mix_up: with row 1, sample 1\n"));
  EXPECT_THAT(texts, HasSubstr("mix_up: with row 0, sample 0\n"));
  EXPECT_THAT(texts, Not(HasSubstr("with row 3")));
}

// From the dataset to the file: what was decoded is what is seen.
TEST_F(PreviewTest, TheFileHasThePixelsOfTheBatch) {
  const auto batch = Batch(
      "shuffle { mode: SEQUENTIAL } transforms { decode_image {} } "
      "transforms { center_crop { height: 180 width: 200 } }",
      {.samples = 2, .cell = 240});
  ASSERT_NE(batch, nullptr);
  const auto explained = ExplainRows(*batch);
  ASSERT_TRUE(explained.ok()) << explained.status();
  const auto sheet = PreviewSheet(*batch, *explained, {}, {.cell = 240});
  ASSERT_TRUE(sheet.ok()) << sheet.status();
  const picture::RgbImage drawn = testing::Drawn(*sheet);
  EXPECT_EQ(drawn.width(), sheet->width);
  EXPECT_EQ(drawn.height(), sheet->height);
  int shown = 0;
  for (const picture::PictureItem& item : sheet->items) {
    const auto* pixels = std::get_if<picture::PicturePixels>(&item);
    if (pixels == nullptr || pixels->image.width() != 200) continue;
    const picture::RgbImage chart = DrawChart(shown++).image;
    ASSERT_EQ(pixels->box.width, 200);
    for (int y = 0; y < 180; ++y) {
      for (int x = 0; x < 200; ++x) {
        ASSERT_EQ(drawn.At(static_cast<int>(pixels->box.left) + x,
                           static_cast<int>(pixels->box.top) + y),
                  chart.At(20 + x, y));
      }
    }
  }
  EXPECT_EQ(shown, 2);
}

TEST_F(PreviewTest, TheSheetMayBeSvg) {
  const std::string sheet = File("sheet.svg");
  const Result result =
      Call({"preview", "--dataset=" + uri_, "--preset=imagenet_eval",
            "--outputs=image,label", "--output=" + sheet, "--samples=2"});
  ASSERT_EQ(result.code, program::kExitOk) << result.err;
  EXPECT_THAT(testing::ReadFile(sheet), HasSubstr("</svg>"));
}

TEST_F(PreviewTest, ASheetThatIsTooLargeSaysWhatToChange) {
  const std::string other = "lmdb:" + File("many.lmdb");
  ASSERT_TRUE(WriteChartDataset(other, 17).ok());
  const Result result =
      Call({"preview", "--dataset=" + other, "--preset=imagenet_eval",
            "--outputs=image", "--output=" + File("large.png"), "--samples=17",
            "--cell=1024", "--columns=17"});
  EXPECT_EQ(result.code, program::kExitUsage);
  EXPECT_THAT(
      result.err,
      HasSubstr("each side must be 1 to 32767: lower --samples or --cell"));
}

// Fewer boxes than are stored, none at all, a mask that is no image any more.
TEST_F(PreviewTest, WhatOperatorsMakeOfMasksAndBoxesIsDrawnAsFarAsItCanBe) {
  const auto operators = operators::Operators::Load(
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
    if (batch == nullptr) return SheetPicture();
    const auto pairs = batch->Pairs({});
    EXPECT_TRUE(pairs.ok()) << pairs.status();
    return pairs.ok() ? pairs->at(1).after : SheetPicture();
  };
  const auto changed = [](const std::string& field, const std::string& config) {
    return "transforms { custom { name: 'rescale' fields: '" + field +
           "' config: '" + config + "' } } ";
  };
  const std::string image = "outputs { field: 'image' } ";
  const std::string mask = "outputs { field: 'mask' } ";
  const std::string boxes = "outputs { field: 'boxes' } ";
  const SheetPicture plain = after(image);
  EXPECT_TRUE(plain.boxes.empty());
  EXPECT_NE(after(image + mask).pixels.bytes(), plain.pixels.bytes());
  EXPECT_EQ(after(changed("mask", "flat") + image + mask).pixels.bytes(),
            plain.pixels.bytes());
  EXPECT_EQ(after(image + boxes).boxes.size(), 3u);
  EXPECT_TRUE(after(changed("boxes", "flat") + image + boxes).boxes.empty());
  EXPECT_EQ(after(changed("boxes", "first") + image + boxes).boxes.size(), 1u);
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
  ASSERT_EQ(text.code, program::kExitOk) << text.err;
  EXPECT_THAT(text.out, ContainsRegex("row 1: sample 1, key [0-9a-f]{16}, "
                                      "damaged and left empty"));
  EXPECT_THAT(text.out, Not(HasSubstr("label")));
  const Result json = Call({"preview", "--dataset=" + uri_, pipeline, operators,
                            "--samples=2", "--explain=json"});
  ASSERT_EQ(json.code, program::kExitOk) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"left_empty\": true, \"label\": \"\""));
}

}  // namespace
}  // namespace millrace::data_tool
