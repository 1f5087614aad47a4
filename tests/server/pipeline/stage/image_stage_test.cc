#include "server/pipeline/stage/image_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "google/protobuf/text_format.h"
#include "server/decode/image_decoder.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"

namespace millrace::pipeline {
namespace {

using Bytes = std::vector<uint8_t>;

// A spec's transforms as text, each its own message.
std::vector<Transform> Parse(const std::vector<std::string>& texts) {
  std::vector<Transform> transforms;
  for (const std::string& text : texts) {
    Transform t;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &t))
        << text;
    transforms.push_back(t);
  }
  return transforms;
}

Field EncodedField() {
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  return field;
}

Field RawField(int64_t height, int64_t width, int64_t channels) {
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(DTYPE_UINT8);
  field.add_shape(height);
  field.add_shape(width);
  field.add_shape(channels);
  return field;
}

absl::StatusOr<std::unique_ptr<ImageStage>> Build(
    const Field& field, const std::vector<std::string>& texts) {
  const std::vector<Transform> transforms = Parse(texts);
  std::vector<PlacedTransform> placed;
  for (const Transform& t : transforms) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  return ImageStage::Create(field, placed);
}

Bytes MustRun(const Field& field, const std::vector<std::string>& texts,
              const Bytes& stored, uint64_t key) {
  auto stage = Build(field, texts);
  EXPECT_TRUE(stage.ok()) << stage.status();
  if (!stage.ok()) return {};
  size_t size = 1;
  for (int64_t n : (*stage)->output_shape()) size *= n;
  Bytes out(size);
  auto scratch = (*stage)->NewScratch();
  const absl::Status status =
      (*stage)->Run(stored, key, *scratch, absl::MakeSpan(out));
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

Bytes Golden(const std::string& name) {
  std::ifstream in("tests/testdata/images/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Bytes Pixels(const Bytes& encoded) {
  decode::ImageDecoder decoder;
  auto header = decoder.Open(encoded, false);
  EXPECT_TRUE(header.ok());
  auto image = decoder.Decode({1, 0, 0, header->width, header->height, 3});
  EXPECT_TRUE(image.ok());
  Bytes pixels;
  for (int64_t y = 0; y < header->height; ++y) {
    const uint8_t* row = image->data + y * image->stride;
    pixels.insert(pixels.end(), row, row + header->width * 3);
  }
  return pixels;
}

// Pillow's antialiased bilinear at the same input pixels.
TEST(ImageStage, ResizesWithinOneLevelOfPillow) {
  struct Case {
    std::string name;
    std::vector<std::string> chain;
  };
  const std::vector<Case> cases = {
      {"resize_down", {"resize { height: 64 width: 64 }"}},
      {"resize_thin", {"resize { height: 12 width: 140 }"}},
  };
  const Bytes source = Golden("resize_source.png");
  int64_t values = 0;
  int64_t off = 0;
  auto compare = [&](const std::string& name, const Bytes& got) {
    const Bytes want = Pixels(Golden(name + ".expected.png"));
    ASSERT_EQ(got.size(), want.size()) << name;
    int64_t exact = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      off += std::abs(got[i] - want[i]) > 1;
      exact += got[i] == want[i];
    }
    values += got.size();
    EXPECT_GT(exact, static_cast<int64_t>(got.size()) * 3 / 4) << name;
  };
  for (const Case& c : cases) {
    compare(c.name, MustRun(EncodedField(), c.chain, source, 1));
  }
  // Crops of the source, as raw pixels.
  const Bytes pixels = Pixels(source);
  auto cut = [&](int left, int top, int right, int bottom) {
    Bytes out;
    for (int y = top; y < bottom; ++y) {
      const uint8_t* row = pixels.data() + (y * 150 + left) * 3;
      out.insert(out.end(), row, row + (right - left) * 3);
    }
    return out;
  };
  compare("resize_crop",
          MustRun(RawField(91, 118, 3), {"resize { height: 56 width: 72 }"},
                  cut(13, 9, 131, 100), 1));
  compare("resize_up",
          MustRun(RawField(40, 40, 3), {"resize { height: 90 width: 70 }"},
                  cut(40, 30, 80, 70), 1));
  EXPECT_LE(off * 1000, values) << off << " of " << values;
}

TEST(ImageStage, RawPixelsWithoutTransformsAreCopied) {
  const Bytes pixels = TestPixels(28, 28, 1, 3);
  EXPECT_EQ(MustRun(RawField(28, 28, 1), {}, pixels, 1), pixels);
  // Any number of channels.
  const Bytes five = TestPixels(9, 7, 5, 3);
  EXPECT_EQ(MustRun(RawField(7, 9, 5), {}, five, 1), five);
}

TEST(ImageStage, FlipMirrorsColumns) {
  const Bytes pixels = TestPixels(5, 3, 3, 3);
  const Bytes got =
      MustRun(RawField(3, 5, 3), {"horizontal_flip { p: 1 }"}, pixels, 1);
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 5; ++x) {
      for (int c = 0; c < 3; ++c) {
        EXPECT_EQ(got[(y * 5 + x) * 3 + c], pixels[(y * 5 + 4 - x) * 3 + c]);
      }
    }
  }
}

TEST(ImageStage, CenterCropCutsAndPads) {
  const Bytes pixels = TestPixels(6, 5, 1, 3);
  const Bytes cut = MustRun(RawField(5, 6, 1),
                            {"center_crop { height: 3 width: 2 }"}, pixels, 1);
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 2; ++x) {
      EXPECT_EQ(cut[y * 2 + x], pixels[(y + 1) * 6 + x + 2]);
    }
  }
  // Padded on the left by (9 - 6) / 2 = 1, mirrored with its padding.
  const Bytes padded = MustRun(
      RawField(5, 6, 1),
      {"center_crop { height: 5 width: 9 }", "horizontal_flip { p: 1 }"},
      pixels, 1);
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 9; ++x) {
      const int from = 8 - x - 1;
      EXPECT_EQ(padded[y * 9 + x],
                from >= 0 && from < 6 ? pixels[y * 6 + from] : 0);
    }
  }
}

TEST(ImageStage, EncodedAndRawPixelsTakeTheSameWay) {
  PngKind kind;
  kind.width = 150;
  kind.height = 90;
  const Bytes pixels = TestPixels(kind.width, kind.height, 3, 3);
  const Bytes png = WritePng(kind, pixels);
  const std::vector<std::vector<std::string>> chains = {
      {"random_resized_crop { height: 32 width: 40 }", "horizontal_flip {}"},
      {"resize { short_side: 64 }", "center_crop { height: 56 width: 56 }"},
      {"resize { short_side: 30 }", "center_crop { height: 56 width: 56 }",
       "horizontal_flip {}"},
      {"center_crop { height: 80 width: 80 }",
       "resize { height: 70 width: 75 }",
       "random_resized_crop { height: 16 width: 16 no_antialias: true }"},
      {"center_crop { height: 100 width: 200 }",
       "resize { height: 50 width: 50 }"},
  };
  for (const auto& chain : chains) {
    for (uint64_t key = 0; key < 8; ++key) {
      EXPECT_EQ(
          MustRun(EncodedField(), chain, png, key),
          MustRun(RawField(kind.height, kind.width, 3), chain, pixels, key))
          << chain[0];
    }
  }
}

// What is decoded in part must be what a full decode gives.
TEST(ImageStage, DecodingARegionChangesNoPixel) {
  JpegKind kind;
  kind.width = 300;
  kind.height = 200;
  const Bytes jpeg = WriteJpeg(kind, 4);
  const Bytes pixels = ReferenceDecode(jpeg, 1, 3);
  const std::vector<std::vector<std::string>> chains = {
      {"random_resized_crop { height: 64 width: 64 }", "horizontal_flip {}"},
      {"resize { short_side: 150 }", "center_crop { height: 99 width: 120 }"},
      {"center_crop { height: 50 width: 60 }"},
      {"resize { short_side: 300 }", "center_crop { height: 224 width: 224 }"},
  };
  for (const auto& chain : chains) {
    std::vector<std::string> decode = {"decode_image { mode: EXACT }"};
    std::vector<std::string> crop = {"horizontal_flip { p: 0 }"};
    decode.insert(decode.end(), chain.begin(), chain.end());
    crop.insert(crop.end(), chain.begin(), chain.end());  // the same places
    for (uint64_t key = 0; key < 12; ++key) {
      EXPECT_EQ(
          MustRun(EncodedField(), decode, jpeg, key),
          MustRun(RawField(kind.height, kind.width, 3), crop, pixels, key))
          << chain[0];
    }
  }
}

TEST(ImageStage, ScaledDecodeIsNearTheExactOne) {
  JpegKind kind;
  kind.width = 801;
  kind.height = 603;
  kind.quality = 92;
  const Bytes jpeg = WriteJpeg(kind, 4);
  const std::vector<std::string> crop = {
      "random_resized_crop { height: 64 width: 64 scale_min: 0.5 scale_max: 1 "
      "}"};
  double sum = 0;
  int64_t values = 0;
  for (uint64_t key = 0; key < 20; ++key) {
    const Bytes scaled = MustRun(
        EncodedField(), {"decode_image { mode: SCALED }", crop[0]}, jpeg, key);
    const Bytes exact = MustRun(
        EncodedField(), {"decode_image { mode: EXACT }", crop[0]}, jpeg, key);
    EXPECT_NE(scaled, exact);  // else nothing was scaled
    for (size_t i = 0; i < scaled.size(); ++i) {
      sum += std::abs(scaled[i] - exact[i]);
      ++values;
    }
  }
  EXPECT_LE(sum / values, 1.5);
}

TEST(ImageStage, GrayDecodesToOneChannel) {
  const Bytes jpeg = WriteJpeg({}, 4);
  auto stage = Build(EncodedField(), {"decode_image { color: GRAY }",
                                      "resize { height: 20 width: 30 }"});
  ASSERT_TRUE(stage.ok()) << stage.status();
  EXPECT_EQ((*stage)->output_shape(), (std::vector<int64_t>{20, 30, 1}));
}

TEST(ImageStage, ManyThreadsGiveTheSameBytes) {
  JpegKind kind;
  kind.width = 320;
  kind.height = 240;
  std::vector<Bytes> jpegs;
  for (uint64_t i = 0; i < 12; ++i) {
    kind.progressive = i % 3 == 0;
    jpegs.push_back(WriteJpeg(kind, i));
  }
  auto stage =
      Build(EncodedField(),
            {"decode_image {}", "random_resized_crop { height: 96 width: 96 }",
             "horizontal_flip {}"});
  ASSERT_TRUE(stage.ok()) << stage.status();
  const size_t size = 96 * 96 * 3;
  auto run = [&](int threads) {
    std::vector<Bytes> out(jpegs.size(), Bytes(size));
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        auto scratch = (*stage)->NewScratch();
        for (size_t i = t; i < jpegs.size(); i += threads) {
          EXPECT_TRUE(
              (*stage)
                  ->Run(jpegs[i], i * 77, *scratch, absl::MakeSpan(out[i]))
                  .ok());
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    return out;
  };
  const std::vector<Bytes> one = run(1);
  EXPECT_EQ(run(4), one);
}

// Each needs more than a worker is counted for, so they wait for each other:
// good ones and those that are found damaged inside.
TEST(ImageStage, LargeImagesOnManyThreadsGiveTheSameBytes) {
  PngKind kind;
  kind.width = 4000;
  kind.height = 3000;
  kind.color_type = 0;
  kind.interlaced = true;  // 96 MB each on its way
  const Bytes png = WritePng(kind, Bytes(size_t{4000} * 3000, uint8_t{77}));
  const Bytes cut(png.begin(), png.begin() + png.size() / 2);
  auto stage = Build(EncodedField(), {"resize { height: 8 width: 8 }"});
  ASSERT_TRUE(stage.ok()) << stage.status();
  std::vector<std::thread> workers;
  for (int t = 0; t < 4; ++t) {
    workers.emplace_back([&] {
      auto scratch = (*stage)->NewScratch();
      Bytes out(8 * 8 * 3);
      EXPECT_EQ((*stage)->Run(cut, 1, *scratch, absl::MakeSpan(out)).code(),
                absl::StatusCode::kDataLoss);
      EXPECT_TRUE((*stage)->Run(png, 1, *scratch, absl::MakeSpan(out)).ok());
      EXPECT_EQ(out, Bytes(8 * 8 * 3, 77));
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST(ImageStage, ABadSampleLeavesTheScratchFitForTheNext) {
  auto stage = Build(EncodedField(), {"resize { height: 8 width: 8 }"});
  ASSERT_TRUE(stage.ok()) << stage.status();
  auto scratch = (*stage)->NewScratch();
  const Bytes good = WriteJpeg({}, 4);
  Bytes out(8 * 8 * 3);
  ASSERT_TRUE((*stage)->Run(good, 1, *scratch, absl::MakeSpan(out)).ok());
  const Bytes want = out;
  const Bytes cut(good.begin(), good.begin() + good.size() / 2);
  EXPECT_EQ((*stage)->Run(cut, 1, *scratch, absl::MakeSpan(out)).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ((*stage)->Run(Bytes{}, 1, *scratch, absl::MakeSpan(out)).code(),
            absl::StatusCode::kDataLoss);
  ASSERT_TRUE((*stage)->Run(good, 1, *scratch, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, want);
  const auto times = scratch->TakeTimes();
  EXPECT_GT(times.decode_seconds, 0);
  EXPECT_EQ(scratch->TakeTimes().decode_seconds, 0);
}

TEST(ImageStage, WrongAmountOfRawPixelsIsDataLoss) {
  auto stage = Build(RawField(4, 4, 1), {});
  ASSERT_TRUE(stage.ok());
  Bytes out(16);
  auto scratch = (*stage)->NewScratch();
  const absl::Status status =
      (*stage)->Run(Bytes(15), 1, *scratch, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("15 bytes"), std::string::npos) << status;
}

TEST(ImageStage, RefusesWhatItCannotDo) {
  struct Case {
    std::vector<std::string> chain;
    absl::StatusCode code;
    std::string text;
  };
  using Code = absl::StatusCode;
  const std::string crop = "center_crop { height: 8 width: 8 }";
  const std::vector<Case> cases = {
      {{}, Code::kInvalidArgument, "no transform gives"},
      {{"decode_image {}"}, Code::kInvalidArgument, "no transform gives"},
      {{"resize { short_side: 9 }"},
       Code::kInvalidArgument,
       "no transform gives"},
      {{"pad { padding: 9 }"}, Code::kInvalidArgument, "no transform gives"},
  };
  for (const Case& c : cases) {
    auto stage = Build(EncodedField(), c.chain);
    EXPECT_EQ(stage.status().code(), c.code) << c.text << stage.status();
    EXPECT_NE(stage.status().message().find(c.text), std::string::npos)
        << stage.status();
  }
  Field label;
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  auto stage = Build(label, {crop});
  EXPECT_EQ(stage.status().code(), Code::kInternal);
  EXPECT_NE(stage.status().message().find("\"label\""), std::string::npos);
}

TEST(ImageStage, RefusesAnIntermediateImageThatIsTooLarge) {
  // 1 x 2000 pixels with a short side of 4000 would be 4000 x 8,000,000.
  PngKind kind;
  kind.width = 2000;
  kind.height = 1;
  const Bytes png = WritePng(kind, TestPixels(2000, 1, 3, 1));
  auto stage = Build(EncodedField(), {"resize { short_side: 4000 }",
                                      "resize { height: 8 width: 8 }"});
  ASSERT_TRUE(stage.ok()) << stage.status();
  Bytes out(8 * 8 * 3);
  auto scratch = (*stage)->NewScratch();
  const absl::Status status =
      (*stage)->Run(png, 1, *scratch, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("8000000"), std::string::npos) << status;
}

}  // namespace
}  // namespace millrace::pipeline
