#include "server/augment/geometry_op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/augment/random.h"

namespace millrace::augment {
namespace {

using Kind = GeometryOp::Kind;

// The cut that adds a padding around an image.
Rect Padded(Size size, const Padding& p) {
  return {-p.left, -p.top, size.width + p.left + p.right,
          size.height + p.top + p.bottom};
}

// Also appended if nothing is cut off, because boxes that extend outside the
// image are clipped, as in torchvision.
void AppendCut(const GeometryOp& op, Rect rect, Size& size, StepList& steps) {
  GeometryStep& step = steps.emplace_back();
  step.kind = GeometryStep::Kind::kCut;
  step.rect = rect;
  step.op = &op;
  size = {rect.width, rect.height};
}

void AppendResize(const GeometryOp& op, Size to, Size& size, StepList& steps) {
  if (to == size) return;  // no change, as in torchvision
  GeometryStep& step = steps.emplace_back();
  step.kind = GeometryStep::Kind::kResize;
  step.size = to;
  step.op = &op;
  size = to;
}

void LogRect(ParameterLog* log, const GeometryOp& op, const Rect& rect) {
  if (log == nullptr) return;
  log->Add(op.place,
           absl::StrCat("left ", rect.left, ", top ", rect.top, ", width ",
                        rect.width, ", height ", rect.height));
}

absl::Status ResolveRandomCrop(const GeometryOp& op, bool applied,
                               CounterRandom& random, ParameterLog* log,
                               Size& size, StepList& steps) {
  Padding padding = op.padding;
  Rect padded = Padded(size, padding);
  if (op.pad_if_needed) {
    // Missing pixels of an axis are added on both of its sides.
    const int64_t height = std::max<int64_t>(0, op.size.height - padded.height);
    const int64_t width = std::max<int64_t>(0, op.size.width - padded.width);
    padding.top += height;
    padding.bottom += height;
    padding.left += width;
    padding.right += width;
    padded = Padded(size, padding);
  }
  if (padded.width < op.size.width || padded.height < op.size.height) {
    return absl::DataLossError(absl::StrCat(
        OpName(op), ": the image of ", size.height, " x ", size.width,
        " pixels (height x width) is ",
        padded.width != size.width || padded.height != size.height
            ? absl::StrCat(padded.height, " x ", padded.width, " with padding")
            : "smaller than the window",
        ", the window ", op.size.height, " x ", op.size.width,
        "; set pad_if_needed, or resize before it"));
  }
  Rect rect;
  if (applied) {
    const int64_t top = random.Below(padded.height - op.size.height + 1);
    const int64_t left = random.Below(padded.width - op.size.width + 1);
    rect = {left, top, op.size.width, op.size.height};
  } else {
    rect = CenterRect({padded.width, padded.height}, op.size);
  }
  rect.left -= padding.left;
  rect.top -= padding.top;
  LogRect(log, op, rect);
  // torchvision's RandomCrop does not change images of the right size.
  if (rect != Rect{0, 0, size.width, size.height}) {
    AppendCut(op, rect, size, steps);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SurroundSource(Surround surround, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (surround == Surround::kEdge || size == 1) {
    return std::clamp<int64_t>(at, 0, size - 1);
  }
  const int64_t period =
      surround == Surround::kReflect ? 2 * (size - 1) : 2 * size;
  int64_t rest = at % period;
  if (rest < 0) rest += period;
  if (rest < size) return rest;
  return surround == Surround::kReflect ? period - rest : period - 1 - rest;
}

std::string OpName(const GeometryOp& op) {
  return absl::StrCat(op.name, " (transform ", op.place, ")");
}

std::optional<Size> OutputSize(const GeometryOp& op, std::optional<Size> size) {
  switch (op.kind) {
    case Kind::kRandomResizedCrop:
    case Kind::kResize:
    case Kind::kCenterCrop:
    case Kind::kRandomCrop:
      return op.size;
    case Kind::kResizeShortSide:
      if (!size.has_value()) return std::nullopt;
      return ShortSideSize(*size, op.short_side);
    case Kind::kPad: {
      if (!size.has_value()) return std::nullopt;
      const Rect padded = Padded(*size, op.padding);
      return Size{padded.width, padded.height};
    }
    case Kind::kHorizontalFlip:
    case Kind::kVerticalFlip:
      break;
  }
  return size;
}

absl::Status Resolve(const GeometryOp& op, uint64_t sample_key,
                     ParameterLog* log, Size& size, StepList& steps) {
  CounterRandom random(sample_key, op.place);
  const bool applied =
      op.probability >= 1.0 || random.Uniform() < op.probability;
  switch (op.kind) {
    case Kind::kRandomResizedCrop: {
      if (applied) {
        const Rect crop = RandomCropRect(size, op.distribution, random);
        LogRect(log, op, crop);
        AppendCut(op, crop, size, steps);
      } else {
        LogRect(log, op, {0, 0, size.width, size.height});
      }
      AppendResize(op, op.size, size, steps);
      break;
    }
    case Kind::kResizeShortSide:
      AppendResize(op, ShortSideSize(size, op.short_side), size, steps);
      break;
    case Kind::kResize:
      AppendResize(op, op.size, size, steps);
      break;
    case Kind::kCenterCrop:
      AppendCut(op, CenterRect(size, op.size), size, steps);
      break;
    case Kind::kRandomCrop:
      return ResolveRandomCrop(op, applied, random, log, size, steps);
    case Kind::kPad:
      AppendCut(op, Padded(size, op.padding), size, steps);
      break;
    case Kind::kHorizontalFlip:
    case Kind::kVerticalFlip: {
      if (log != nullptr)
        log->Add(op.place, applied ? "flipped" : "not flipped");
      if (!applied) break;
      GeometryStep& step = steps.emplace_back();
      step.kind = op.kind == Kind::kHorizontalFlip
                      ? GeometryStep::Kind::kFlipHorizontal
                      : GeometryStep::Kind::kFlipVertical;
      step.op = &op;
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::augment
