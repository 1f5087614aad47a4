// Chains of crops, pads, flips and nearest resizes through the image stage,
// against the same done naively, one transform after the other. What folding
// and drawing in place save must not be seen in any byte.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/repeated_field.h"
#include "server/augment/random.h"
#include "server/pipeline/stage/image_stage.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::pipeline {
namespace {

using Bytes = std::vector<uint8_t>;

struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  Bytes pixels;
  const uint8_t* at(int y, int x) const {
    return &pixels[(y * width + x) * channels];
  }
  uint8_t* at(int y, int x) { return &pixels[(y * width + x) * channels]; }
};

Image Blank(int height, int width, int channels) {
  return {height, width, channels, Bytes(height * width * channels)};
}

Image Noise(int height, int width, int channels, uint64_t key) {
  Image image = Blank(height, width, channels);
  augment::CounterRandom random(key, 0);
  for (uint8_t& b : image.pixels) b = static_cast<uint8_t>(random.Below(256));
  return image;
}

class Log : public augment::ParameterLog {
 public:
  void Add(uint32_t place, std::string what) override { lines[place] = what; }
  std::map<uint32_t, std::string> lines;
};

// Walks from the edge outwards, one step at a time.
int Continue(PaddingMode mode, int at, int size) {
  if (size == 1) return 0;
  int place = at < 0 ? 0 : size - 1;
  int direction = at < 0 ? 1 : -1;  // into the image
  int steps = at < 0 ? -at : at - (size - 1);
  if (at >= 0 && at < size) return at;
  if (mode == PADDING_EDGE) return place;
  if (mode == PADDING_SYMMETRIC) --steps;  // the edge a second time
  for (; steps > 0; --steps) {
    const int next = place + direction;
    if (next < 0 || next >= size) {
      direction = -direction;
      if (mode == PADDING_REFLECT) place += direction;
      continue;
    }
    place = next;
  }
  return place;
}

Image Cut(const Image& in, int left, int top, int width, int height,
          PaddingMode mode, const std::vector<int>& fill) {
  Image out = Blank(height, width, in.channels);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int sy = y + top;
      const int sx = x + left;
      const bool inside = sy >= 0 && sy < in.height && sx >= 0 && sx < in.width;
      for (int c = 0; c < in.channels; ++c) {
        out.at(y, x)[c] =
            inside || mode != PADDING_CONSTANT
                ? in.at(Continue(mode, sy, in.height),
                        Continue(mode, sx, in.width))[c]
                : static_cast<uint8_t>(
                      fill.empty() ? 0 : fill[fill.size() == 1 ? 0 : c]);
      }
    }
  }
  return out;
}

Image NearestResize(const Image& in, int height, int width) {
  Image out = Blank(height, width, in.channels);
  const float scale_y = static_cast<float>(in.height) / height;
  const float scale_x = static_cast<float>(in.width) / width;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int sy = std::min(static_cast<int>(y * scale_y), in.height - 1);
      const int sx = std::min(static_cast<int>(x * scale_x), in.width - 1);
      for (int c = 0; c < in.channels; ++c) {
        out.at(y, x)[c] = in.at(sy, sx)[c];
      }
    }
  }
  return out;
}

Image Flip(const Image& in, bool vertical) {
  Image out = Blank(in.height, in.width, in.channels);
  for (int y = 0; y < in.height; ++y) {
    for (int x = 0; x < in.width; ++x) {
      for (int c = 0; c < in.channels; ++c) {
        out.at(y, x)[c] = vertical ? in.at(in.height - 1 - y, x)[c]
                                   : in.at(y, in.width - 1 - x)[c];
      }
    }
  }
  return out;
}

// Python's round, which torchvision's center_crop uses.
int RoundHalf(int n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0 ? 1 : 0); }

// The transform of the spec applied to `in`, with the choices that the stage
// says it has drawn.
Image Naive(const Transform& t, const std::string& drawn, const Image& in) {
  auto fill_of = [](const auto& m) {
    return std::vector<int>(m.fill().begin(), m.fill().end());
  };
  switch (t.kind_case()) {
    case Transform::kRandomResizedCrop: {
      int left = -1, top = -1, width = -1, height = -1;
      EXPECT_EQ(
          std::sscanf(drawn.c_str(), "left %d, top %d, width %d, height %d",
                      &left, &top, &width, &height),
          4)
          << drawn;
      return NearestResize(
          Cut(in, left, top, width, height, PADDING_CONSTANT, {}),
          t.random_resized_crop().height(), t.random_resized_crop().width());
    }
    case Transform::kResize: {
      int height = t.resize().height();
      int width = t.resize().width();
      if (const int side = t.resize().short_side(); side > 0) {
        height = in.width <= in.height
                     ? std::max(1, side * in.height / in.width)
                     : side;
        width = in.width <= in.height
                    ? side
                    : std::max(1, side * in.width / in.height);
      }
      return NearestResize(in, height, width);
    }
    case Transform::kCenterCrop: {
      const int height = t.center_crop().height();
      const int width = t.center_crop().width();
      return Cut(in,
                 width > in.width ? -((width - in.width) / 2)
                                  : RoundHalf(in.width - width),
                 height > in.height ? -((height - in.height) / 2)
                                    : RoundHalf(in.height - height),
                 width, height, PADDING_CONSTANT, {});
    }
    case Transform::kRandomCrop: {
      int left = -1, top = -1, width = -1, height = -1;
      EXPECT_EQ(
          std::sscanf(drawn.c_str(), "left %d, top %d, width %d, height %d",
                      &left, &top, &width, &height),
          4)
          << drawn;
      EXPECT_EQ(width, static_cast<int>(t.random_crop().width()));
      EXPECT_EQ(height, static_cast<int>(t.random_crop().height()));
      return Cut(in, left, top, width, height, t.random_crop().padding_mode(),
                 fill_of(t.random_crop()));
    }
    case Transform::kPad: {
      const auto& p = t.pad().padding();
      const int l = p[0];
      const int u = p.size() == 1 ? p[0] : p[1];
      const int r = p.size() == 4 ? p[2] : l;
      const int b = p.size() == 4 ? p[3] : u;
      return Cut(in, -l, -u, in.width + l + r, in.height + u + b,
                 t.pad().padding_mode(), fill_of(t.pad()));
    }
    case Transform::kHorizontalFlip:
      return drawn == "flipped" ? Flip(in, false) : in;
    case Transform::kVerticalFlip:
      return drawn == "flipped" ? Flip(in, true) : in;
    default:
      ADD_FAILURE();
      return in;
  }
}

Field RawField(const Image& image) {
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(DTYPE_UINT8);
  for (int n : {image.height, image.width, image.channels}) field.add_shape(n);
  return field;
}

std::vector<PlacedTransform> Placed(const std::vector<Transform>& transforms) {
  std::vector<PlacedTransform> placed;
  for (const Transform& t : transforms) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  return placed;
}

// What the stage makes of `in`, and what it says about it.
absl::StatusOr<Image> RunStage(const Image& in,
                               const std::vector<Transform>& transforms,
                               uint64_t key, Log& log) {
  auto stage = ImageStage::Create(RawField(in), Placed(transforms));
  if (!stage.ok()) return stage.status();
  const std::vector<int64_t>& shape = (*stage)->output_shape();
  Image out = Blank(shape[0], shape[1], shape[2]);
  auto scratch = (*stage)->NewScratch();
  scratch->log = &log;
  // Stored pixels end where their memory does.
  const std::unique_ptr<uint8_t[]> stored(new uint8_t[in.pixels.size()]);
  std::copy(in.pixels.begin(), in.pixels.end(), stored.get());
  absl::Status status = (*stage)->Run({stored.get(), in.pixels.size()}, key,
                                      *scratch, absl::MakeSpan(out.pixels));
  if (!status.ok()) return status;
  return out;
}

class RandomChain {
 public:
  explicit RandomChain(uint64_t key) : random_(key, 0) {}

  int Channels() { return Draw(3) == 0 ? 1 : Draw(4) == 0 ? 4 : 3; }
  int Side() { return 1 + Draw(24); }
  int Length() { return 1 + Draw(5); }

  Transform Next(int channels) {
    Transform t;
    switch (Draw(8)) {
      case 0: {
        auto& crop = *t.mutable_random_resized_crop();
        Sized(crop);
        crop.set_interpolation(INTERPOLATION_NEAREST);
        break;
      }
      case 1: {
        auto& resize = *t.mutable_resize();
        if (Draw(3) == 0) {
          resize.set_short_side(Side());
        } else {
          Sized(resize);
        }
        resize.set_interpolation(INTERPOLATION_NEAREST);
        break;
      }
      case 2:
        Sized(*t.mutable_center_crop());
        break;
      case 3: {
        auto& crop = *t.mutable_random_crop();
        Sized(crop);
        crop.set_pad_if_needed(true);
        if (Draw(2) == 0) Padding(*crop.mutable_padding());
        Surround(crop, channels);
        if (Draw(4) == 0) crop.set_p(0.5);
        break;
      }
      case 4: {
        auto& pad = *t.mutable_pad();
        Padding(*pad.mutable_padding());
        Surround(pad, channels);
        break;
      }
      case 5:
      case 6:
        t.mutable_horizontal_flip();
        break;
      default:
        t.mutable_vertical_flip();
        break;
    }
    return t;
  }

 private:
  int Draw(int n) { return static_cast<int>(random_.Below(n)); }

  template <typename M>
  void Sized(M& message) {
    message.set_height(Side());
    message.set_width(Side());
  }

  void Padding(google::protobuf::RepeatedField<uint32_t>& padding) {
    const int n = 1 << Draw(3);
    for (int i = 0; i < n; ++i) padding.Add(Draw(2) == 0 ? Draw(4) : Draw(40));
  }

  template <typename M>
  void Surround(M& message, int channels) {
    message.set_padding_mode(Draw(2) == 0 ? PADDING_CONSTANT
                                          : static_cast<PaddingMode>(Draw(4)));
    const int n = Draw(3) == 0 ? 0 : Draw(2) == 0 ? 1 : channels;
    for (int i = 0; i < n; ++i) message.add_fill(Draw(256));
  }

  augment::CounterRandom random_;
};

TEST(GeometryStage, DoesWhatItsTransformsDoOneAfterTheOther) {
  for (uint64_t key = 0; key < 4000; ++key) {
    RandomChain chain(key);
    const int channels = chain.Channels();
    const Image in = Noise(chain.Side(), chain.Side(), channels, key);
    std::vector<Transform> transforms;
    std::string text;
    for (int n = chain.Length(); n > 0; --n) {
      transforms.push_back(chain.Next(channels));
      text += transforms.back().ShortDebugString() + "\n";
    }
    Log log;
    auto got = RunStage(in, transforms, key, log);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << text;
    Image want = in;
    for (size_t i = 0; i < transforms.size(); ++i) {
      want = Naive(transforms[i], log.lines[i], want);
    }
    ASSERT_EQ(got->height, want.height) << text;
    ASSERT_EQ(got->width, want.width) << text;
    ASSERT_EQ(got->pixels, want.pixels)
        << "key " << key << ", " << in.height << " x " << in.width << " x "
        << in.channels << "\n"
        << text;
  }
}

// The same of JPEGs, of which only what is shown is decoded.
TEST(GeometryStage, DecodesWhatItsTransformsShow) {
  Field encoded;
  encoded.set_name("image");
  encoded.set_kind(FIELD_KIND_ENCODED_IMAGE);
  for (uint64_t key = 0; key < 300; ++key) {
    RandomChain chain(key);
    JpegKind kind;
    kind.width = 20 + key % 60;
    kind.height = 20 + key % 47;
    kind.progressive = key % 5 == 0;
    kind.restart_rows = key % 3;
    const Bytes jpeg = WriteJpeg(kind, key);
    const Image in = {kind.height, kind.width, 3, ReferenceDecode(jpeg, 1, 3)};
    std::vector<Transform> transforms;
    transforms.emplace_back().mutable_decode_image();
    for (int n = chain.Length(); n > 0; --n) {
      transforms.push_back(chain.Next(3));
    }
    // A batch needs one size.
    CenterCrop& crop = *transforms.emplace_back().mutable_center_crop();
    crop.set_width(chain.Side());
    crop.set_height(chain.Side());
    std::vector<PlacedTransform> placed = Placed(transforms);
    auto from_jpeg = ImageStage::Create(encoded, placed);
    ASSERT_TRUE(from_jpeg.ok()) << from_jpeg.status();
    placed.erase(placed.begin());
    auto from_pixels = ImageStage::Create(RawField(in), placed);
    ASSERT_TRUE(from_pixels.ok()) << from_pixels.status();
    Bytes got(crop.width() * crop.height() * 3);
    Bytes want(got.size());
    auto scratch = (*from_jpeg)->NewScratch();
    ASSERT_TRUE(
        (*from_jpeg)->Run(jpeg, key, *scratch, absl::MakeSpan(got)).ok());
    ASSERT_TRUE((*from_pixels)
                    ->Run(in.pixels, key, *scratch, absl::MakeSpan(want))
                    .ok());
    ASSERT_EQ(got, want) << key;
  }
}

TEST(GeometryStage, ImagesBelowTheWindowAreBadSamples) {
  Transform crop;
  crop.mutable_random_crop()->set_height(9);
  crop.mutable_random_crop()->set_width(4);
  Log log;
  auto refused = RunStage(Noise(8, 8, 3, 1), {crop}, 1, log);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(refused.status().message().find("random_crop (transform 0)"),
            std::string::npos)
      << refused.status();
  crop.mutable_random_crop()->set_pad_if_needed(true);
  EXPECT_TRUE(RunStage(Noise(8, 8, 3, 1), {crop}, 1, log).ok());
}

// Masks of class indices: no value may appear that was not there.
TEST(GeometryStage, MasksTakeTheNearestPixelAndTheirOwnFill) {
  const Image in = Noise(20, 30, 1, 5);
  Transform pad, crop;
  pad.mutable_pad()->add_padding(6);
  for (int v : {124, 116, 104}) pad.mutable_pad()->add_fill(v);
  crop.mutable_random_resized_crop()->set_height(17);
  crop.mutable_random_resized_crop()->set_width(13);
  const std::vector<Transform> transforms = {pad, crop};
  ImageStageOptions options;
  options.role = FieldRole::MASK;
  options.mask_fill = 255;
  auto stage = ImageStage::Create(RawField(in), Placed(transforms), options);
  ASSERT_TRUE(stage.ok()) << stage.status();
  Log log;
  Bytes out(17 * 13);
  auto scratch = (*stage)->NewScratch();
  scratch->log = &log;
  scratch->image_size = {30, 20};
  ASSERT_TRUE((*stage)->Run(in.pixels, 7, *scratch, absl::MakeSpan(out)).ok());
  Transform filled = pad;
  filled.mutable_pad()->clear_fill();
  filled.mutable_pad()->add_fill(255);
  EXPECT_EQ(out, Naive(crop, log.lines[1], Naive(filled, "", in)).pixels);
}

}  // namespace
}  // namespace millrace::pipeline
