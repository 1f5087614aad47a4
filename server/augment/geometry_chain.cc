#include "server/augment/geometry_chain.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

using Kind = GeometryOp::Kind;

std::string OpName(const GeometryOp& op) {
  const char* name = "";
  switch (op.kind) {
    case Kind::kRandomResizedCrop:
      name = "random_resized_crop";
      break;
    case Kind::kResizeShortSide:
    case Kind::kResize:
      name = "resize";
      break;
    case Kind::kCenterCrop:
      name = "center_crop";
      break;
    case Kind::kHorizontalFlip:
      name = "horizontal_flip";
      break;
  }
  return absl::StrCat(name, " (transform ", op.place, ")");
}

bool SideIsSane(int64_t side) { return side > 0 && side <= kMaxImageSide; }

absl::Status CheckSize(const GeometryOp& op, Size size) {
  if (SideIsSane(size.width) && SideIsSane(size.height)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      OpName(op), " makes images of ", size.height, " x ", size.width,
      " (height x width); each side must be 1 to ", kMaxImageSide));
}

Segment WholeImage(Size image) {
  Segment segment;
  segment.box = {0, 0, image.width, image.height};
  segment.resized = image;
  segment.window = segment.box;
  segment.canvas = image;
  return segment;
}

bool IsPadded(const Segment& s) {
  return s.canvas.width != s.window.width || s.canvas.height != s.window.height;
}

// Cuts `rect`, given in the coordinates of the segment's output, out of it.
// `rect` lies inside the canvas and there is no padding.
void Cut(Segment& s, Rect rect) {
  if (s.flip) rect.left = s.canvas.width - rect.left - rect.width;
  s.window.left += rect.left;
  s.window.top += rect.top;
  s.window.width = rect.width;
  s.window.height = rect.height;
  s.canvas = {rect.width, rect.height};
  if (!s.resize) {
    // Nothing is resized yet: what was cut off will not be seen by a resize
    // that follows.
    s.box.left += s.window.left;
    s.box.top += s.window.top;
    s.box.width = rect.width;
    s.box.height = rect.height;
    s.resized = s.canvas;
    s.window = {0, 0, rect.width, rect.height};
  }
}

void SetResize(Segment& s, Size size, bool antialias) {
  s.resize = size != s.resized;  // resizing to the same size changes nothing
  s.antialias = antialias;
  s.resized = size;
  s.window = {0, 0, size.width, size.height};
  s.canvas = size;
}

class Planner {
 public:
  explicit Planner(Size image) { segments_.push_back(WholeImage(image)); }

  void Apply(const GeometryOp& op, uint64_t sample_key) {
    switch (op.kind) {
      case Kind::kRandomResizedCrop: {
        BeginUnresized();
        CounterRandom random(sample_key, op.place);
        Cut(last(), RandomCropRect(last().canvas, op.distribution, random));
        SetResize(last(), op.size, op.antialias);
        break;
      }
      case Kind::kResizeShortSide:
        BeginUnresized();
        SetResize(last(), ShortSideSize(last().canvas, op.short_side),
                  op.antialias);
        break;
      case Kind::kResize:
        BeginUnresized();
        SetResize(last(), op.size, op.antialias);
        break;
      case Kind::kCenterCrop:
        CenterCrop(op.size);
        break;
      case Kind::kHorizontalFlip: {
        CounterRandom random(sample_key, op.place);
        if (random.Uniform() < op.probability) last().flip = !last().flip;
        break;
      }
    }
  }

  SegmentList Take() { return std::move(segments_); }

 private:
  Segment& last() { return segments_.back(); }

  // A resize needs a segment that has neither one nor padding yet.
  void BeginUnresized() {
    if (last().resize || IsPadded(last())) {
      segments_.push_back(WholeImage(last().canvas));
    }
  }

  void CenterCrop(Size size) {
    if (IsPadded(last())) segments_.push_back(WholeImage(last().canvas));
    const Size canvas = last().canvas;
    const Rect rect = CenterRect(canvas, size);
    const Rect inside = {std::max<int64_t>(rect.left, 0),
                         std::max<int64_t>(rect.top, 0),
                         std::min(canvas.width, size.width),
                         std::min(canvas.height, size.height)};
    Cut(last(), inside);
    Segment& s = last();
    s.canvas = size;
    s.pad_top = std::max<int64_t>(0, -rect.top);
    s.pad_left = std::max<int64_t>(0, -rect.left);
    if (s.flip) s.pad_left = size.width - s.pad_left - inside.width;
  }

  SegmentList segments_;
};

}  // namespace

absl::StatusOr<GeometryChain> GeometryChain::CreateAnySize(
    std::vector<GeometryOp> ops, std::optional<Size> input) {
  std::optional<Size> size = input;
  for (const GeometryOp& op : ops) {
    switch (op.kind) {
      case Kind::kRandomResizedCrop:
      case Kind::kResize:
      case Kind::kCenterCrop:
        size = op.size;
        break;
      case Kind::kResizeShortSide:
        if (op.short_side <= 0 || op.short_side > kMaxImageSide) {
          return absl::InvalidArgumentError(
              absl::StrCat(OpName(op), " has short_side ", op.short_side,
                           "; it must be 1 to ", kMaxImageSide));
        }
        if (size.has_value()) size = ShortSideSize(*size, op.short_side);
        break;
      case Kind::kHorizontalFlip:
        continue;
    }
    if (!size.has_value()) continue;
    if (absl::Status status = CheckSize(op, *size); !status.ok()) return status;
  }
  return GeometryChain(std::move(ops), size);
}

absl::StatusOr<GeometryChain> GeometryChain::Create(std::vector<GeometryOp> ops,
                                                    std::optional<Size> input) {
  absl::StatusOr<GeometryChain> chain = CreateAnySize(std::move(ops), input);
  if (!chain.ok()) return chain;
  const GeometryOp* last_sizing = nullptr;
  for (const GeometryOp& op : chain->ops_) {
    if (op.kind != Kind::kHorizontalFlip) last_sizing = &op;
  }
  if (!chain->fixed_output().has_value()) {
    if (last_sizing == nullptr) {
      return absl::InvalidArgumentError(
          "no transform gives the images one size, but a batch needs one; add "
          "random_resized_crop, resize with height and width, or center_crop");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        OpName(*last_sizing),
        " keeps the aspect ratio of each image, so the results differ in size, "
        "but a batch needs one; add center_crop after it, or give it height "
        "and width"));
  }
  return chain;
}

SegmentList GeometryChain::Plan(Size image, uint64_t sample_key) const {
  Planner planner(image);
  for (const GeometryOp& op : ops_) planner.Apply(op, sample_key);
  return planner.Take();
}

}  // namespace millrace
