#include "server/pipeline/stage/box_stage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/augment/affine_map.h"
#include "server/augment/geometry_op.h"
#include "server/augment/random_affine.h"
#include "server/pipeline/stage/transform_ops.h"

namespace millrace::pipeline {
namespace {

struct Box {
  float left, top, right, bottom;
};
static_assert(sizeof(Box) == 16);

// One operation on every box of a sample.
struct Move {
  enum class Kind { kShift, kScale, kMirrorX, kMirrorY, kMap };
  Kind kind = Kind::kShift;
  float x = 0;  // subtracted, or a factor
  float y = 0;
  std::array<float, 6> map{};  // xx, xy, x0, yx, yy, y0
  float width = 0;             // of the canvas after the operation
  float height = 0;
};
using MoveList = absl::InlinedVector<Move, 12>;

bool IsFinite(const Box& box) {
  return std::isfinite(box.left) && std::isfinite(box.top) &&
         std::isfinite(box.right) && std::isfinite(box.bottom);
}

void Clamp(const Move& move, Box& box) {
  box.left = std::clamp(box.left, 0.0f, move.width);
  box.top = std::clamp(box.top, 0.0f, move.height);
  box.right = std::clamp(box.right, 0.0f, move.width);
  box.bottom = std::clamp(box.bottom, 0.0f, move.height);
}

void Map(const std::array<float, 6>& m, Box& box) {
  const float xs[4] = {box.left, box.right, box.right, box.left};
  const float ys[4] = {box.top, box.top, box.bottom, box.bottom};
  for (int i = 0; i < 4; ++i) {
    const float x = xs[i] * m[0] + ys[i] * m[1] + m[2];
    const float y = xs[i] * m[3] + ys[i] * m[4] + m[5];
    if (i == 0) {
      box = {x, y, x, y};
      continue;
    }
    box.left = std::min(box.left, x);
    box.top = std::min(box.top, y);
    box.right = std::max(box.right, x);
    box.bottom = std::max(box.bottom, y);
  }
}

void Apply(const Move& move, Box& box) {
  switch (move.kind) {
    case Move::Kind::kShift:
      box = {box.left - move.x, box.top - move.y, box.right - move.x,
             box.bottom - move.y};
      return Clamp(move, box);
    case Move::Kind::kScale:
      box = {box.left * move.x, box.top * move.y, box.right * move.x,
             box.bottom * move.y};
      return;
    case Move::Kind::kMirrorX:
      box = {move.width - box.right, box.top, move.width - box.left,
             box.bottom};
      return;
    case Move::Kind::kMirrorY:
      box = {box.left, move.height - box.bottom, box.right,
             move.height - box.top};
      return;
    case Move::Kind::kMap:
      Map(move.map, box);
      return Clamp(move, box);
  }
}

Move MoveOf(const augment::GeometryStep& step, augment::Size& size) {
  Move move;
  switch (step.kind) {
    case augment::GeometryStep::Kind::kCut:
      move.kind = Move::Kind::kShift;
      move.x = static_cast<float>(step.rect.left);
      move.y = static_cast<float>(step.rect.top);
      size = {step.rect.width, step.rect.height};
      break;
    case augment::GeometryStep::Kind::kResize:
      move.kind = Move::Kind::kScale;
      move.x = static_cast<float>(static_cast<double>(step.size.width) /
                                  static_cast<double>(size.width));
      move.y = static_cast<float>(static_cast<double>(step.size.height) /
                                  static_cast<double>(size.height));
      size = step.size;
      break;
    case augment::GeometryStep::Kind::kFlipHorizontal:
      move.kind = Move::Kind::kMirrorX;
      break;
    case augment::GeometryStep::Kind::kFlipVertical:
      move.kind = Move::Kind::kMirrorY;
      break;
  }
  move.width = static_cast<float>(size.width);
  move.height = static_cast<float>(size.height);
  return move;
}

class BoxStage final : public ImageStage {
 public:
  using Op = std::variant<augment::GeometryOp, augment::RandomAffineOptions>;

  BoxStage(int64_t boxes, std::vector<Op> ops)
      : output_shape_{boxes, 4}, ops_(std::move(ops)) {}

  const std::vector<int64_t>& output_shape() const override {
    return output_shape_;
  }

  uint64_t max_scratch_bytes() const override { return 0; }

  std::unique_ptr<Scratch> NewScratch() const override {
    return NewImageScratch();
  }

  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t sample_key,
                   Scratch& scratch, absl::Span<uint8_t> out) const override {
    const size_t bytes = output_shape_[0] * sizeof(Box);
    if (stored.size() != bytes) {
      return absl::DataLossError(absl::StrCat(
          "the stored boxes have ", stored.size(), " bytes instead of ", bytes,
          "; pack the dataset again"));
    }
    if (out.size() != bytes) {
      return absl::InternalError(absl::StrCat(
          "boxes: ", out.size(), " bytes given for a result of ", bytes));
    }
    MoveList moves;
    MR_RETURN_IF_ERROR(
        Plan(scratch.image_size, sample_key, scratch.log, moves));
    for (size_t at = 0; at < bytes; at += sizeof(Box)) {
      Box box;
      std::memcpy(&box, stored.data() + at, sizeof(Box));
      if (!IsFinite(box)) {
        return absl::DataLossError(absl::StrCat(
            "box ", at / sizeof(Box), " is [", box.left, ", ", box.top, ", ",
            box.right, ", ", box.bottom,
            "], and the sides of a box are finite numbers of pixels; store "
            "four zeros where there is no box"));
      }
      if (box.left != 0 || box.top != 0 || box.right != 0 || box.bottom != 0) {
        for (const Move& move : moves) Apply(move, box);
      }
      std::memcpy(out.data() + at, &box, sizeof(Box));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Plan(augment::Size size, uint64_t sample_key,
                    augment::ParameterLog* log, MoveList& moves) const {
    if (size.width <= 0 || size.height <= 0) {
      return absl::InternalError("boxes: the size of the image is not known");
    }
    augment::StepList steps;
    for (const Op& op : ops_) {
      if (const auto* geometry = std::get_if<augment::GeometryOp>(&op)) {
        steps.clear();
        augment::Size after = size;
        MR_RETURN_IF_ERROR(
            augment::Resolve(*geometry, sample_key, log, after, steps));
        for (const augment::GeometryStep& step : steps) {
          moves.push_back(MoveOf(step, size));
        }
        continue;
      }
      augment::AffinePair maps;
      if (!augment::DrawAffine(std::get<augment::RandomAffineOptions>(op),
                               sample_key, size, log, maps)) {
        continue;
      }
      const augment::AffineMap& m = maps.forward;
      Move& move = moves.emplace_back();
      move.kind = Move::Kind::kMap;
      move.map = {static_cast<float>(m.xx), static_cast<float>(m.xy),
                  static_cast<float>(m.x0), static_cast<float>(m.yx),
                  static_cast<float>(m.yy), static_cast<float>(m.y0)};
      move.width = static_cast<float>(size.width);
      move.height = static_cast<float>(size.height);
    }
    return absl::OkStatus();
  }

  const std::vector<int64_t> output_shape_;
  const std::vector<Op> ops_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageStage>> MakeBoxStage(
    const Field& field, absl::Span<const PlacedTransform> transforms) {
  // As for a mask: the fill of a colour image does not apply to boxes.
  ImageStageOptions options;
  options.role = FieldRole::MASK;
  std::vector<BoxStage::Op> ops;
  for (const PlacedTransform& placed : transforms) {
    if (auto op = GeometryOf(placed, options)) {
      ops.emplace_back(*std::move(op));
    } else if (auto affine = AffineOf(placed, options)) {
      ops.emplace_back(*std::move(affine));
    } else {
      return absl::InternalError(
          absl::StrCat("transform ", placed.place, " does not move boxes"));
    }
  }
  return std::make_unique<BoxStage>(field.shape(0), std::move(ops));
}

}  // namespace millrace::pipeline
