// Pictures become files by Cairo: pixels are copied exactly, text and outlines
// stay where the layout has put them, and what is missing is named.

#include "common/picture/picture_renderer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tests/common/picture/drawn_picture.h"
#include "tests/testing/subprocess.h"

namespace millrace::picture {
namespace {

using ::testing::AllOf;
using testing::Drawn;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Rgb kPaper = {255, 255, 255};

// No two neighbours are alike.
RgbImage Noise(int width, int height) {
  RgbImage image(width, height);
  uint32_t state = 1;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      state = state * 1664525 + 1013904223;
      image.Set(
          x, y,
          {static_cast<uint8_t>(state >> 24), static_cast<uint8_t>(state >> 16),
           static_cast<uint8_t>(state >> 8)});
    }
  }
  return image;
}

// Pixels that are not paper, inside the box and outside.
struct Ink {
  int inside = 0;
  int outside = 0;
};
Ink InkOf(const RgbImage& drawn, const PictureBox& box) {
  Ink ink;
  for (int y = 0; y < drawn.height(); ++y) {
    for (int x = 0; x < drawn.width(); ++x) {
      if (drawn.At(x, y) == kPaper) continue;
      const bool in =
          x >= box.left && x < box.right() && y >= box.top && y < box.bottom();
      ++(in ? ink.inside : ink.outside);
    }
  }
  return ink;
}

Picture OfText(const PictureText& text) {
  return {.width = 300, .height = 60, .items = {text}};
}

TEST(PictureRenderer, PixelsAtTheirOwnSizeAreTheSourcePixels) {
  const RgbImage image = Noise(31, 17);
  const RgbImage drawn =
      Drawn({.width = 60,
             .height = 40,
             .paper = {9, 8, 7},
             .items = {PicturePixels{{7, 5, 31, 17}, image}}});
  ASSERT_EQ(drawn.width(), 60);
  ASSERT_EQ(drawn.height(), 40);
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x) {
      const bool in = x >= 7 && x < 38 && y >= 5 && y < 22;
      ASSERT_EQ(drawn.At(x, y), in ? image.At(x - 7, y - 5) : (Rgb{9, 8, 7}))
          << x << " " << y;
    }
  }
}

TEST(PictureRenderer, PixelsThatGrowByAWholeFactorStaySharp) {
  const RgbImage image = Noise(5, 4);
  const RgbImage drawn =
      Drawn({.width = 20,
             .height = 15,
             .items = {PicturePixels{{3, 2, 15, 12}, image}}});
  for (int y = 0; y < 12; ++y) {
    for (int x = 0; x < 15; ++x) {
      ASSERT_EQ(drawn.At(3 + x, 2 + y), image.At(x / 3, y / 3))
          << x << " " << y;
    }
  }
}

TEST(PictureRenderer, PixelsThatShrinkAreMeansAndTakeNothingOfThePaper) {
  const Rgb color = {200, 30, 60};
  for (const auto& [side, shown] :
       {std::pair(100, 22), std::pair(102, 17), std::pair(160, 150)}) {
    const double size = shown;
    const RgbImage plain =
        Drawn({.width = shown + 10,
               .height = shown + 10,
               .items = {PicturePixels{{4, 4, size, size},
                                       RgbImage(side, side, color)}}});
    for (int y = 0; y < plain.height(); ++y) {
      for (int x = 0; x < plain.width(); ++x) {
        const bool in = x >= 4 && x < 4 + shown && y >= 4 && y < 4 + shown;
        ASSERT_EQ(plain.At(x, y), in ? color : kPaper)
            << side << ": " << x << " " << y;
      }
    }
  }
  // Rows of black and white in turns become grey.
  RgbImage rows(40, 40);
  for (int y = 1; y < 40; y += 2) {
    for (int x = 0; x < 40; ++x) rows.Set(x, y, {255, 255, 255});
  }
  const RgbImage grey = Drawn({.width = 10,
                               .height = 10,
                               .items = {PicturePixels{{0, 0, 10, 10}, rows}}});
  EXPECT_NEAR(grey.At(5, 5).r, 128, 8);
}

TEST(PictureRenderer, TextStaysInItsBox) {
  using Align = PictureText::Align;
  const PictureBox box = {50, 20, 120, 17};
  for (const Align align : {Align::kLeft, Align::kCenter, Align::kRight}) {
    for (const char* text : {"Agjy", "short", "W"}) {
      PictureText item{box, text};
      item.align = align;
      const Ink ink = InkOf(Drawn(OfText(item)), box);
      EXPECT_GT(ink.inside, 10) << text;
      EXPECT_EQ(ink.outside, 0) << text;
      item.text = std::string(500, text[0]) + " " + text;
      item.bold = true;
      const Ink wide = InkOf(Drawn(OfText(item)), box);
      EXPECT_GT(wide.inside, 300) << text;
      EXPECT_EQ(wide.outside, 0) << text;
    }
  }
}

TEST(PictureRenderer, TextStandsWhereItsAlignmentSays) {
  using Align = PictureText::Align;
  const PictureBox box = {0, 0, 300, 17};
  const PictureBox left = {0, 0, 100, 17};
  const PictureBox center = {100, 0, 100, 17};
  const PictureBox right = {200, 0, 100, 17};
  for (const auto& [align, part] :
       {std::pair(Align::kLeft, left), std::pair(Align::kCenter, center),
        std::pair(Align::kRight, right)}) {
    PictureText item{box, "cat"};
    item.align = align;
    const Ink ink = InkOf(Drawn(OfText(item)), part);
    EXPECT_GT(ink.inside, 10);
    EXPECT_EQ(ink.outside, 0);
  }
}

// Not a row of empty boxes.
TEST(PictureRenderer, LettersThatTheFontLacksBecomeQuestionMarks) {
  const PictureBox box = {10, 10, 200, 17};
  const auto drawn = [&](const std::string& text) {
    return Drawn(OfText({box, text})).bytes();
  };
  EXPECT_EQ(drawn("a\U0010FFFDb"), drawn("a?b"));
  EXPECT_NE(drawn("a\u00e4b"), drawn("a?b"));
}

TEST(PictureRenderer, ATextWithoutRoomForThreeDotsIsNotDrawn) {
  const PictureBox box = {10, 10, 5, 17};
  EXPECT_EQ(InkOf(Drawn(OfText({box, "word"})), box).outside, 0);
}

TEST(PictureRenderer, OutlinesAreDrawnInsideTheirClip) {
  const PictureBox clip = {10, 10, 40, 30};
  const RgbImage drawn = Drawn(
      {.width = 80,
       .height = 60,
       .items = {PictureOutline{
           {{20, 0}, {90, 0}, {90, 20}, {20, 20}}, {200, 0, 0}, 2, clip}}});
  EXPECT_EQ(InkOf(drawn, clip).outside, 0);
  EXPECT_EQ(drawn.At(19, 12), (Rgb{200, 0, 0}));  // sharp on whole pixels
  EXPECT_EQ(drawn.At(20, 12), (Rgb{200, 0, 0}));
  EXPECT_EQ(drawn.At(21, 12), kPaper);
  EXPECT_EQ(drawn.At(40, 20), (Rgb{200, 0, 0}));
}

TEST(PictureRenderer, TheSamePictureAsSvg) {
  const Picture picture = {
      .width = 60,
      .height = 40,
      .items = {PictureFill{{1, 2, 3, 4}, {255, 0, 0}},
                PicturePixels{{7, 5, 31, 17}, Noise(31, 17)},
                PictureText{{5, 20, 50, 17}, "cat"}}};
  const auto svg = testing::Renderer().Render(picture, PictureFormat::kSvg);
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_THAT(*svg, AllOf(StartsWith("<?xml"), HasSubstr("<svg "),
                          HasSubstr("width=\"60px\""),
                          HasSubstr("height=\"40px\""), HasSubstr("</svg>")));
  EXPECT_EQ(*testing::Renderer().Render(picture, PictureFormat::kPng),
            *testing::Renderer().Render(picture, PictureFormat::kPng));
}

TEST(PictureRenderer, RefusesSizesThatNoPictureHas) {
  for (const int side : {0, kMaxPictureSide + 1}) {
    for (const Picture& picture : {Picture{.width = side, .height = 5},
                                   Picture{.width = 5, .height = side}}) {
      const auto file =
          testing::Renderer().Render(picture, PictureFormat::kPng);
      EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(file.status().message()),
                  HasSubstr("each side must be 1 to 32767"));
    }
  }
}

TEST(PictureRenderer, SaysWhatCairoRefuses) {
  const auto file = testing::Renderer().Render(
      OfText({{0, 0, 100, 17}, "\xff no UTF-8"}), PictureFormat::kPng);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("UTF-8"));
}

TEST(PictureRenderer, NamesTheLibraryThatIsMissing) {
  const auto missing = PictureRenderer::Load({"/no/such/place.so"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              AllOf(HasSubstr("libmillrace_picture.so"),
                    HasSubstr("/no/such/place.so"), HasSubstr("tools/build"),
                    HasSubstr("the wheels for Python do not contain it")));
}

TEST(PictureRenderer, NamesThePackageWhereCairoIsNotInstalled) {
  std::string library = testing::ReadFile(testing::PicturePluginPath());
  const std::string name = "libcairo.so.2";
  const size_t at = library.find(name + '\0');
  ASSERT_NE(at, library.npos);
  library.replace(at, name.size(), "libcairo.so.X");
  const std::string path = testing::NewTempDir() + "/libmillrace_picture.so";
  testing::WriteFile(path, library);
  const auto renderer = PictureRenderer::Load({path});
  EXPECT_EQ(renderer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(renderer.status().message()),
              AllOf(HasSubstr("libcairo.so.X"),
                    HasSubstr("apt-get install libcairo2")));
}

TEST(PictureRenderer, TheNameOfTheFileSaysItsFormat) {
  EXPECT_EQ(PictureFormatOf("a.b/sheet.PNG").value(), PictureFormat::kPng);
  EXPECT_EQ(PictureFormatOf("plot.svg").value(), PictureFormat::kSvg);
  const auto other = PictureFormatOf("plot.jpg");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()),
              AllOf(HasSubstr("plot.jpg"), HasSubstr("FILE.png or FILE.svg")));
}

}  // namespace
}  // namespace millrace::picture
