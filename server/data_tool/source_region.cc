#include "server/data_tool/source_region.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/status_macros.h"
#include "server/augment/affine_map.h"
#include "server/augment/geometry_op.h"
#include "server/augment/random_affine.h"
#include "server/pipeline/transform_ops.h"

namespace millrace {
namespace {

// From the result of a step back to what the step was given. `size` is what it
// was given and becomes what it makes.
AffineMap Undo(const GeometryStep& step, Size& size) {
  const Size before = size;
  AffineMap map;
  switch (step.kind) {
    case GeometryStep::Kind::kCut:
      size = {step.rect.width, step.rect.height};
      map.x0 = static_cast<double>(step.rect.left);
      map.y0 = static_cast<double>(step.rect.top);
      break;
    case GeometryStep::Kind::kResize:
      size = step.size;
      map.xx = static_cast<double>(before.width) / size.width;
      map.yy = static_cast<double>(before.height) / size.height;
      break;
    case GeometryStep::Kind::kFlipHorizontal:
      map.xx = -1;
      map.x0 = static_cast<double>(size.width);
      break;
    case GeometryStep::Kind::kFlipVertical:
      map.yy = -1;
      map.y0 = static_cast<double>(size.height);
      break;
  }
  return map;
}

// Upright, and nothing of the image lies outside.
bool IsWhole(const std::vector<PicturePoint>& corners, Size stored) {
  // Of what rounding may leave of a turn by nothing.
  constexpr double kEnough = 1e-6;
  const auto is = [](double value, double wanted) {
    return std::abs(value - wanted) < kEnough;
  };
  return std::all_of(
      corners.begin(), corners.end(), [&](const PicturePoint& corner) {
        return (is(corner.x, 0) ||
                is(corner.x, static_cast<double>(stored.width))) &&
               (is(corner.y, 0) ||
                is(corner.y, static_cast<double>(stored.height)));
      });
}

}  // namespace

absl::StatusOr<std::vector<PicturePoint>> SourceRegion(
    absl::Span<const PlacedTransform> transforms, Size stored,
    uint64_t sample_key) {
  const ImageStageOptions options;
  std::vector<AffineMap> undo;
  Size size = stored;
  for (const PlacedTransform& placed : transforms) {
    if (const auto geometry = GeometryOf(placed, options)) {
      StepList steps;
      Size after = size;
      MR_RETURN_IF_ERROR(Resolve(*geometry, sample_key, nullptr, after, steps));
      for (const GeometryStep& step : steps) undo.push_back(Undo(step, size));
    } else if (const auto affine = AffineOf(placed, options)) {
      AffinePair maps;
      if (DrawAffine(*affine, sample_key, size, nullptr, maps)) {
        undo.push_back(maps.inverse);
      }
    }
  }
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  std::vector<PicturePoint> corners = {
      {0, 0}, {width, 0}, {width, height}, {0, height}};
  for (PicturePoint& corner : corners) {
    for (auto map = undo.rbegin(); map != undo.rend(); ++map) {
      map->Apply(corner.x, corner.y);
    }
  }
  if (IsWhole(corners, stored)) corners.clear();
  return corners;
}

}  // namespace millrace
