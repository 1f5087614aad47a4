#include "server/data_tool/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/picture/text_lines.h"

namespace millrace::data_tool {
namespace {

constexpr double kMargin = 28;
constexpr double kColumnGap = 32;  // between the pairs of a row
constexpr double kRowGap = 24;     // above each row
constexpr double kPictureGap = 8;  // between the two pictures of a pair
constexpr double kTextGap = 4;     // between texts and pictures
constexpr double kMinSlot = 132;   // width of a picture and its caption
constexpr double kMinWidth = 640;  // without the margins
constexpr double kWantedWidth = 1200;

constexpr double kTitleSize = 20;
constexpr double kHeadSize = 13;
constexpr double kCaptionSize = 12;
constexpr int kMaxLines = 3;  // max lines of a text

constexpr picture::Rgb kInk = {32, 33, 36};
constexpr picture::Rgb kPale = {95, 99, 104};
constexpr picture::Rgb kRoom = {236, 238, 241};
constexpr picture::Rgb kFrame = {255, 214, 0};
constexpr picture::Rgb kHalo = {20, 20, 20};

// The position of `image` in an area, whose height limits the longer side.
picture::PictureBox Fit(const picture::RgbImage& image,
                        const picture::PictureBox& room) {
  const double scale = room.height / std::max(image.width(), image.height());
  picture::PictureBox box;
  if (scale >= 1) {
    box.width = image.width() * std::floor(scale);
    box.height = image.height() * std::floor(scale);
  } else {
    box.width = std::max(1.0, std::round(image.width() * scale));
    box.height = std::max(1.0, std::round(image.height() * scale));
  }
  box.left = room.left + std::floor((room.width - box.width) / 2);
  box.top = room.top + std::floor((room.height - box.height) / 2);
  return box;
}

class Sheet {
 public:
  Sheet(const std::vector<SheetPair>& pairs, double cell, int columns)
      : pairs_(pairs),
        cell_(cell),
        slot_(std::max(cell, kMinSlot)),
        pair_width_(2 * slot_ + kPictureGap),
        columns_(columns) {
    if (columns_ == 0) {
      columns_ = static_cast<int>((kWantedWidth + kColumnGap) /
                                  (pair_width_ + kColumnGap));
    }
    columns_ =
        std::clamp(columns_, 1, std::max(1, static_cast<int>(pairs.size())));
    width_ =
        std::max(kMinWidth, columns_ * (pair_width_ + kColumnGap) - kColumnGap);
  }

  int columns() const { return columns_; }

  picture::Picture LayOut(const SheetHead& head) {
    double top = kMargin;
    AddHead(head.title, kTitleSize, kInk, top);
    for (const std::string& line : head.lines) {
      AddHead(line, kHeadSize, kPale, top);
    }
    if (pairs_.empty()) AddHead("no samples", kHeadSize, kInk, top);
    for (size_t first = 0; first < pairs_.size(); first += columns_) {
      top += kRowGap;
      const size_t end = std::min(first + columns_, pairs_.size());
      double bottom = top;
      for (size_t i = first; i < end; ++i) {
        const double left = kMargin + static_cast<double>(i - first) *
                                          (pair_width_ + kColumnGap);
        bottom = std::max(bottom, AddPair(pairs_[i], left, top));
      }
      top = bottom;
    }
    picture_.width = static_cast<int>(width_ + 2 * kMargin);
    picture_.height = static_cast<int>(top + kMargin);
    return std::move(picture_);
  }

 private:
  // Moves `top` below the added line.
  void AddLine(const std::string& text, double left, double width, double size,
               picture::Rgb color, bool bold, double& top) {
    const picture::PictureBox box = {left, top, width,
                                     picture::TextLineHeight(size)};
    picture_.items.emplace_back(picture::PictureText{
        box, text, size, color, picture::PictureText::Align::kLeft, bold});
    top = box.bottom();
  }

  void AddHead(const std::string& text, double size, picture::Rgb color,
               double& top) {
    for (const std::string& line :
         picture::WrapText(text, width_, size, kMaxLines)) {
      AddLine(line, kMargin, width_, size, color, size == kTitleSize, top);
    }
  }

  // Returns the lower end.
  double AddPair(const SheetPair& pair, double left, double top) {
    AddLine(pair.title, left, pair_width_, kHeadSize, kInk, true, top);
    top += kTextGap;
    AddPicture(pair.before, pair.kept, left, top);
    AddPicture(pair.after, {}, left + slot_ + kPictureGap, top);
    top += cell_ + picture::TextLineHeight(kCaptionSize) + 2 * kTextGap;
    for (const std::string& text : pair.lines) {
      for (const std::string& line :
           picture::WrapText(text, pair_width_, kCaptionSize, kMaxLines)) {
        AddLine(line, left, pair_width_, kCaptionSize, kInk, false, top);
      }
    }
    return top;
  }

  void AddPicture(const SheetPicture& shown,
                  const std::vector<picture::PicturePoint>& kept, double left,
                  double top) {
    const picture::PictureBox room = {left, top, slot_, cell_};
    picture_.items.emplace_back(picture::PictureFill{room, kRoom});
    double below = room.bottom() + kTextGap;
    AddLine(shown.caption, left, slot_, kCaptionSize, kPale, false, below);
    if (shown.pixels.width() == 0 || shown.pixels.height() == 0) return;
    const picture::PictureBox box = Fit(shown.pixels, room);
    picture_.items.emplace_back(picture::PicturePixels{box, shown.pixels});
    const auto at = [&](double x, double y) {
      // Lines are sharp on whole pixels.
      return picture::PicturePoint{
          std::round(box.left + x * box.width / shown.pixels.width()),
          std::round(box.top + y * box.height / shown.pixels.height())};
    };
    for (const SheetBox& b : shown.boxes) {
      picture_.items.emplace_back(
          picture::PictureOutline{{at(b.left, b.top), at(b.right, b.top),
                                   at(b.right, b.bottom), at(b.left, b.bottom)},
                                  b.color,
                                  2,
                                  box});
    }
    if (kept.empty()) return;
    std::vector<picture::PicturePoint> corners;
    for (const picture::PicturePoint& corner : kept) {
      corners.push_back(at(corner.x, corner.y));
    }
    // The outline is visible on pictures of every colour.
    picture_.items.emplace_back(
        picture::PictureOutline{corners, kHalo, 4, box});
    picture_.items.emplace_back(
        picture::PictureOutline{corners, kFrame, 2, box});
  }

  const std::vector<SheetPair>& pairs_;
  const double cell_;
  const double slot_;  // width of a picture's area
  const double pair_width_;
  int columns_;
  double width_;  // without the margins
  picture::Picture picture_;
};

}  // namespace

picture::Picture LayOutContactSheet(const SheetHead& head,
                                    const std::vector<SheetPair>& pairs,
                                    const SheetOptions& options) {
  int columns = options.columns;
  for (;;) {
    Sheet sheet(pairs, options.cell, columns);
    picture::Picture picture = sheet.LayOut(head);
    if (options.columns > 0 || picture.height <= picture::kMaxPictureSide ||
        sheet.columns() == static_cast<int>(pairs.size())) {
      return picture;
    }
    columns = sheet.columns() * picture.height / picture::kMaxPictureSide + 1;
  }
}

}  // namespace millrace::data_tool
