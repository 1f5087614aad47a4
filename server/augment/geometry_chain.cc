#include "server/augment/geometry_chain.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace millrace::augment {
namespace {

Segment WholeImage(Size image) {
  Segment segment;
  segment.box = {0, 0, image.width, image.height};
  segment.resized = image;
  segment.window = segment.box;
  segment.canvas = image;
  return segment;
}

bool Inside(const Rect& rect, Size size) {
  return rect.left >= 0 && rect.top >= 0 &&
         rect.left + rect.width <= size.width &&
         rect.top + rect.height <= size.height;
}

// Makes the rest of a window after a cut the whole box, so that a later resize
// does not see the part that was cut off.
void NarrowBox(Segment& s) {
  if (s.window.width == 0) {  // one pixel, which is not drawn
    s.resize = false;
    s.box.width = s.box.height = 1;
    s.resized = {1, 1};
    s.window = {0, 0, 0, 0};
    return;
  }
  if (s.resize) return;
  s.box.left += s.window.left;
  s.box.top += s.window.top;
  s.box.width = s.window.width;
  s.box.height = s.window.height;
  s.resized = {s.box.width, s.box.height};
  s.window = {0, 0, s.box.width, s.box.height};
}

// Makes `rect`, in coordinates of the segment's output, the new output. Outside
// the canvas the padding continues.
void Cut(Segment& s, Rect rect) {
  if (s.flip) rect.left = s.canvas.width - rect.left - rect.width;
  if (s.flip_vertical) rect.top = s.canvas.height - rect.top - rect.height;
  s.canvas = {rect.width, rect.height};
  if (s.surround != Surround::kFill) {
    s.pad_left -= rect.left;
    s.pad_top -= rect.top;
    return;
  }
  const int64_t left = std::max(s.pad_left, rect.left);
  const int64_t top = std::max(s.pad_top, rect.top);
  const int64_t right =
      std::min(s.pad_left + s.window.width, rect.left + rect.width);
  const int64_t bottom =
      std::min(s.pad_top + s.window.height, rect.top + rect.height);
  if (left >= right || top >= bottom) {
    s.window = {0, 0, 0, 0};
    s.pad_left = s.pad_top = 0;
  } else {
    s.window = {s.window.left + left - s.pad_left,
                s.window.top + top - s.pad_top, right - left, bottom - top};
    s.pad_left = left - rect.left;
    s.pad_top = top - rect.top;
  }
  NarrowBox(s);
}

void SetResize(Segment& s, Size size, const GeometryOp& op) {
  s.resize = true;
  s.antialias = op.antialias;
  s.nearest = op.nearest;
  s.resized = size;
  s.window = {0, 0, size.width, size.height};
  s.canvas = size;
}

// The places of [0, size) that [begin, end) of a continued line shows.
void SourceRange(Surround surround, int64_t begin, int64_t end, int64_t size,
                 int64_t& low, int64_t& high) {
  if (end - begin >= 4 * size) {  // every place is shown
    low = 0;
    high = size;
    return;
  }
  low = size;
  high = 0;
  for (int64_t at = begin; at < end; ++at) {
    // The places inside are a range, so its ends are sufficient.
    if (at > 0 && at < size - 1 && at > begin && at < end - 1) {
      at = std::min(size - 1, end - 1) - 1;
      continue;
    }
    const int64_t place = SurroundSource(surround, at, size);
    low = std::min(low, place);
    high = std::max(high, place + 1);
  }
}

// Reduces the read part of the edge to what the canvas shows.
void NarrowEdge(Segment& s) {
  int64_t left, right, top, bottom;
  SourceRange(s.surround, -s.pad_left, s.canvas.width - s.pad_left,
              s.edge.width, left, right);
  SourceRange(s.surround, -s.pad_top, s.canvas.height - s.pad_top,
              s.edge.height, top, bottom);
  s.box = {s.edge.left + left, s.edge.top + top, right - left, bottom - top};
  s.resized = {s.box.width, s.box.height};
  s.window = {0, 0, s.box.width, s.box.height};
}

class Planner {
 public:
  explicit Planner(Size image) { segments_.push_back(WholeImage(image)); }

  void Apply(const GeometryStep& step) {
    switch (step.kind) {
      case GeometryStep::Kind::kCut:
        ApplyCut(step.rect, *step.op);
        break;
      case GeometryStep::Kind::kResize:
        // In a mirrored image the nearest pixel is a different one.
        if (last().resize || last().padded() ||
            (step.op->nearest && (last().flip || last().flip_vertical))) {
          Begin();
        }
        SetResize(last(), step.size, *step.op);
        break;
      case GeometryStep::Kind::kFlipHorizontal:
        last().flip = !last().flip;
        break;
      case GeometryStep::Kind::kFlipVertical:
        last().flip_vertical = !last().flip_vertical;
        break;
    }
  }

  SegmentList Take() {
    for (size_t i = segments_.size(); i-- > 0;) {
      Segment& s = segments_[i];
      if (s.surround == Surround::kFill) continue;
      NarrowEdge(s);
      if (i == 0) continue;
      // The rest of the previous segment is not used.
      Cut(segments_[i - 1], s.box);
      s.edge.left -= s.box.left;
      s.edge.top -= s.box.top;
      s.box.left = s.box.top = 0;
    }
    return std::move(segments_);
  }

 private:
  Segment& last() { return segments_.back(); }

  void Begin() { segments_.push_back(WholeImage(last().canvas)); }

  void ApplyCut(const Rect& rect, const GeometryOp& op) {
    if (!Inside(rect, last().canvas)) {
      if (op.surround != Surround::kFill) {
        if (last().resize || last().padded()) Begin();
        last().surround = op.surround;
        last().edge = last().box;
      } else {
        if (last().surround != Surround::kFill ||
            (last().padded() && last().fill != op.fill)) {
          Begin();
        }
        last().fill = op.fill;
      }
    }
    Cut(last(), rect);
  }

  SegmentList segments_;
};

}  // namespace

GeometryChain::GeometryChain(std::vector<GeometryOp> ops,
                             std::optional<Size> input)
    : ops_(std::move(ops)), output_(input) {
  for (const GeometryOp& op : ops_) output_ = OutputSize(op, output_);
}

absl::StatusOr<SegmentList> GeometryChain::Plan(Size image, uint64_t sample_key,
                                                ParameterLog* log) const {
  Planner planner(image);
  StepList steps;
  Size size = image;
  for (const GeometryOp& op : ops_) {
    steps.clear();
    MR_RETURN_IF_ERROR(Resolve(op, sample_key, log, size, steps));
    for (const GeometryStep& step : steps) planner.Apply(step);
  }
  return planner.Take();
}

}  // namespace millrace::augment
