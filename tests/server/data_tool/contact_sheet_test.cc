// Where the pictures and words of a contact sheet stand. Nothing is drawn.

#include "server/data_tool/contact_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace millrace::data_tool {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> ItemsOf(const picture::Picture& picture) {
  std::vector<T> items;
  for (const picture::PictureItem& item : picture.items) {
    if (const T* one = std::get_if<T>(&item)) items.push_back(*one);
  }
  return items;
}

bool Holds(const picture::PictureBox& outer, const picture::PictureBox& inner) {
  return inner.left >= outer.left && inner.top >= outer.top &&
         inner.right() <= outer.right() && inner.bottom() <= outer.bottom();
}

bool Overlap(const picture::PictureBox& a, const picture::PictureBox& b) {
  return a.left < b.right() && b.left < a.right() && a.top < b.bottom() &&
         b.top < a.bottom();
}

SheetPair Pair(int width = 100, int height = 80) {
  SheetPair pair;
  pair.title = "row 0: sample 17";
  pair.before.pixels = picture::RgbImage(width, height);
  pair.before.caption = "before: 500 x 375";
  pair.after.pixels = picture::RgbImage(height, height);
  pair.after.caption = "after: 224 x 224";
  pair.lines = {"random_resized_crop: left 10, top 20, width 300, height 200",
                std::string(400, 'x')};
  return pair;
}

SheetHead Head() {
  SheetHead head;
  head.title = "photos: preset imagenet_train";
  head.lines = {"transforms: decode_image, random_resized_crop",
                "epoch 0, step 1 of 4, seed 3"};
  return head;
}

// What must be true of every sheet.
void CheckSheet(const picture::Picture& sheet) {
  const picture::PictureBox all = {0, 0, static_cast<double>(sheet.width),
                                   static_cast<double>(sheet.height)};
  std::vector<picture::PictureBox> taken;
  for (const picture::PictureText& text :
       ItemsOf<picture::PictureText>(sheet)) {
    EXPECT_GE(text.size, 12) << text.text;
    EXPECT_GE(text.box.height, 1.17 * text.size) << text.text;
    EXPECT_GE(text.box.width, 100) << text.text;
    taken.push_back(text.box);
  }
  const auto rooms = ItemsOf<picture::PictureFill>(sheet);
  for (const picture::PictureFill& room : rooms) taken.push_back(room.box);
  for (size_t i = 0; i < taken.size(); ++i) {
    EXPECT_TRUE(Holds(all, taken[i])) << i;
    EXPECT_GE(taken[i].left, 20) << "margin";
    EXPECT_LE(taken[i].right(), all.width - 20) << "margin";
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(Overlap(taken[i], taken[j])) << i << " " << j;
    }
  }
  for (const picture::PicturePixels& pixels :
       ItemsOf<picture::PicturePixels>(sheet)) {
    int in = 0;
    for (const picture::PictureFill& room : rooms)
      in += Holds(room.box, pixels.box);
    EXPECT_EQ(in, 1);
    for (const double value : {pixels.box.left, pixels.box.top,
                               pixels.box.width, pixels.box.height}) {
      EXPECT_EQ(value, std::floor(value));
    }
  }
}

TEST(ContactSheet, ShowsBeforeAndAfterSideBySideWithTheirWords) {
  const picture::Picture sheet =
      LayOutContactSheet(Head(), {Pair()}, {.cell = 150});
  CheckSheet(sheet);
  const auto pixels = ItemsOf<picture::PicturePixels>(sheet);
  ASSERT_EQ(pixels.size(), 2u);
  // Each at its own size, in the middle of a room of 150 x 150.
  EXPECT_EQ(pixels[0].box.width, 100);
  EXPECT_EQ(pixels[0].box.height, 80);
  EXPECT_EQ(pixels[1].box.width, 80);
  EXPECT_EQ(pixels[0].box.top, pixels[1].box.top);
  EXPECT_GT(pixels[1].box.left, pixels[0].box.right());
  const auto rooms = ItemsOf<picture::PictureFill>(sheet);
  ASSERT_EQ(rooms.size(), 2u);
  EXPECT_EQ(rooms[0].box.width, 150);
  EXPECT_EQ(rooms[0].box.height, 150);
  EXPECT_EQ(pixels[0].box.left - rooms[0].box.left, 25);
  EXPECT_EQ(pixels[0].box.top - rooms[0].box.top, 35);
  std::vector<std::string> texts;
  for (const auto& text : ItemsOf<picture::PictureText>(sheet)) {
    texts.push_back(text.text);
  }
  for (const char* text :
       {"photos: preset imagenet_train", "epoch 0, step 1 of 4, seed 3",
        "row 0: sample 17", "before: 500 x 375", "after: 224 x 224"}) {
    EXPECT_THAT(texts, Contains(text));
  }
  // Wrapped where a line has no room for it.
  EXPECT_THAT(texts, Contains(HasSubstr("random_resized_crop: left")));
  EXPECT_THAT(texts, Contains(HasSubstr("height 200")));
}

TEST(ContactSheet, PairsStandInRowsAndColumns) {
  std::vector<SheetPair> pairs(5, Pair());
  pairs[0].lines.resize(1);
  const picture::Picture sheet =
      LayOutContactSheet(Head(), pairs, {.cell = 150, .columns = 2});
  CheckSheet(sheet);
  const auto rooms = ItemsOf<picture::PictureFill>(sheet);
  ASSERT_EQ(rooms.size(), 10u);
  EXPECT_EQ(rooms[0].box.top, rooms[2].box.top);
  EXPECT_EQ(rooms[0].box.left, rooms[4].box.left);
  // As high as the higher pair of a row.
  EXPECT_EQ(rooms[6].box.top, rooms[4].box.top);
  EXPECT_EQ(rooms[8].box.top - rooms[4].box.top,
            rooms[4].box.top - rooms[0].box.top);
}

TEST(ContactSheet, SmallCellsLeaveRoomForWords) {
  std::vector<SheetPair> pairs(4, Pair(16, 16));
  const picture::Picture sheet =
      LayOutContactSheet(Head(), pairs, {.cell = 16});
  CheckSheet(sheet);
  EXPECT_EQ(ItemsOf<picture::PicturePixels>(sheet)[0].box.width, 16);
}

TEST(ContactSheet, PicturesGrowByWholeFactorsAndShrinkInProportion) {
  const auto shown = [](int width, int height) {
    const picture::Picture sheet =
        LayOutContactSheet({}, {Pair(width, height)}, {.cell = 100});
    return ItemsOf<picture::PicturePixels>(sheet)[0].box;
  };
  EXPECT_EQ(shown(28, 20).width, 84);
  EXPECT_EQ(shown(28, 20).height, 60);
  EXPECT_EQ(shown(300, 100).width, 100);
  EXPECT_EQ(shown(300, 100).height, 33);
  EXPECT_EQ(shown(1, 5000).width, 1);
}

TEST(ContactSheet, FramesThePartThatIsKeptAndTheBoxes) {
  SheetPair pair = Pair(50, 40);  // shown twice as large
  pair.kept = {{5, 10}, {25, 10}, {25, 30}, {5, 30}};
  pair.after.boxes = {{1, 2, 11, 12, {1, 2, 3}}};
  const picture::Picture sheet = LayOutContactSheet({}, {pair}, {.cell = 100});
  const auto pixels = ItemsOf<picture::PicturePixels>(sheet);
  const auto outlines = ItemsOf<picture::PictureOutline>(sheet);
  ASSERT_EQ(outlines.size(), 3u);  // a line with a darker one below, a box
  const picture::PictureBox& before = pixels[0].box;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(outlines[i].clip, before);
    ASSERT_EQ(outlines[i].corners.size(), 4u);
    EXPECT_EQ(outlines[i].corners[0],
              (picture::PicturePoint{before.left + 10, before.top + 20}));
    EXPECT_EQ(outlines[i].corners[2],
              (picture::PicturePoint{before.left + 50, before.top + 60}));
  }
  EXPECT_EQ(outlines[2].clip, pixels[1].box);
  EXPECT_EQ(outlines[2].color, (picture::Rgb{1, 2, 3}));
  EXPECT_EQ(
      outlines[2].corners[2],
      (picture::PicturePoint{pixels[1].box.left + 22, pixels[1].box.top + 24}));
}

TEST(ContactSheet, ManyPairsTakeMoreColumnsUntilAPictureCanBeSoHigh) {
  const std::vector<SheetPair> pairs(300, Pair(10, 10));
  const picture::Picture sheet =
      LayOutContactSheet(Head(), pairs, {.cell = 300});
  EXPECT_LE(sheet.height, picture::kMaxPictureSide);
  EXPECT_GT(sheet.width, 1300);
  const picture::Picture one =
      LayOutContactSheet(Head(), pairs, {.cell = 300, .columns = 1});
  EXPECT_GT(one.height, picture::kMaxPictureSide);  // as asked
}

TEST(ContactSheet, WithoutPairsSaysSo) {
  const picture::Picture sheet = LayOutContactSheet(Head(), {}, {});
  CheckSheet(sheet);
  EXPECT_EQ(ItemsOf<picture::PictureText>(sheet).back().text, "no samples");
}

TEST(ContactSheet, APictureThatIsMissingLeavesItsRoomEmpty) {
  SheetPair pair = Pair();
  pair.before = {};
  const picture::Picture sheet = LayOutContactSheet(Head(), {pair}, {});
  EXPECT_EQ(ItemsOf<picture::PictureFill>(sheet).size(), 2u);
  EXPECT_EQ(ItemsOf<picture::PicturePixels>(sheet).size(), 1u);
}

}  // namespace
}  // namespace millrace::data_tool
