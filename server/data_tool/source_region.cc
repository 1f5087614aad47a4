#include "server/data_tool/source_region.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "server/augment/affine_map.h"
#include "server/augment/geometry_op.h"
#include "server/augment/random_affine.h"
#include "server/pipeline/stage/transform_ops.h"

namespace millrace::data_tool {
namespace {

// Maps the result of a step back to the input of the step. `size` is the size
// of the input, and is set to the size of the result.
augment::AffineMap Undo(const augment::GeometryStep& step,
                        augment::Size& size) {
  const augment::Size before = size;
  augment::AffineMap map;
  switch (step.kind) {
    case augment::GeometryStep::Kind::kCut:
      size = {step.rect.width, step.rect.height};
      map.x0 = static_cast<double>(step.rect.left);
      map.y0 = static_cast<double>(step.rect.top);
      break;
    case augment::GeometryStep::Kind::kResize:
      size = step.size;
      map.xx = static_cast<double>(before.width) / size.width;
      map.yy = static_cast<double>(before.height) / size.height;
      break;
    case augment::GeometryStep::Kind::kFlipHorizontal:
      map.xx = -1;
      map.x0 = static_cast<double>(size.width);
      break;
    case augment::GeometryStep::Kind::kFlipVertical:
      map.yy = -1;
      map.y0 = static_cast<double>(size.height);
      break;
  }
  return map;
}

using Polygon = std::vector<picture::PicturePoint>;

Polygon CornersOf(augment::Size size) {
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  return {{0, 0}, {width, 0}, {width, height}, {0, height}};
}

// Twice the area of a triangle; above 0 if `c` is on the right of the way from
// `a` to `b`, as seen on the picture.
double Side(const picture::PicturePoint& a, const picture::PicturePoint& b,
            const picture::PicturePoint& c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

double Area(const Polygon& polygon) {
  double twice = 0;
  for (size_t i = 2; i < polygon.size(); ++i) {
    twice += Side(polygon[0], polygon[i - 1], polygon[i]);
  }
  return std::abs(twice) / 2;
}

// The intersection of two convex polygons (I. Sutherland and G. Hodgman,
// "Reentrant Polygon Clipping", CACM 17, 1974).
Polygon Intersection(Polygon polygon, Polygon other) {
  // A mirrored polygon has the opposite orientation.
  if (Side(other[0], other[1], other[2]) < 0) {
    std::reverse(other.begin(), other.end());
  }
  for (size_t i = 0; i < other.size(); ++i) {
    const picture::PicturePoint& a = other[i];
    const picture::PicturePoint& b = other[(i + 1) % other.size()];
    Polygon kept;
    for (size_t j = 0; j < polygon.size(); ++j) {
      const picture::PicturePoint& p = polygon[j];
      const picture::PicturePoint& q = polygon[(j + 1) % polygon.size()];
      const double side = Side(a, b, p);
      const double next = Side(a, b, q);
      if (side >= 0) kept.push_back(p);
      if (side * next < 0) {
        const double share = side / (side - next);
        kept.push_back({p.x + (q.x - p.x) * share, p.y + (q.y - p.y) * share});
      }
    }
    polygon = std::move(kept);
  }
  return polygon;
}

// Traces an image through its transforms.
class Region {
 public:
  explicit Region(augment::Size stored)
      : size_(stored), shown_(CornersOf(stored)) {}

  augment::Size size() const { return size_; }
  const Polygon& shown() const { return shown_; }

  void Apply(const augment::GeometryStep& step) { Follow(Undo(step, size_)); }
  void Apply(const augment::AffinePair& maps) { Follow(maps.inverse); }

 private:
  void Follow(const augment::AffineMap& undo) {
    undo_.push_back(undo);
    Polygon canvas = CornersOf(size_);
    for (picture::PicturePoint& corner : canvas) {
      for (auto map = undo_.rbegin(); map != undo_.rend(); ++map) {
        map->Apply(corner.x, corner.y);
      }
    }
    shown_ = Intersection(std::move(shown_), std::move(canvas));
  }

  augment::Size size_;  // current size of the image
  Polygon shown_;       // visible part of the stored image
  std::vector<augment::AffineMap> undo_;
};

}  // namespace

absl::StatusOr<std::vector<picture::PicturePoint>> SourceRegion(
    absl::Span<const pipeline::PlacedTransform> transforms,
    augment::Size stored, uint64_t sample_key) {
  const pipeline::ImageStageOptions options;
  Region region(stored);
  for (const pipeline::PlacedTransform& placed : transforms) {
    if (const auto geometry = pipeline::GeometryOf(placed, options)) {
      augment::StepList steps;
      augment::Size after = region.size();
      MR_RETURN_IF_ERROR(
          augment::Resolve(*geometry, sample_key, nullptr, after, steps));
      for (const augment::GeometryStep& step : steps) region.Apply(step);
    } else if (const auto affine = pipeline::AffineOf(placed, options)) {
      augment::AffinePair maps;
      if (augment::DrawAffine(*affine, sample_key, region.size(), nullptr,
                              maps)) {
        region.Apply(maps);
      }
    }
  }
  // Tolerance for the rounding of a rotation by zero.
  constexpr double kWhole = 1 - 1e-9;
  if (Area(region.shown()) >= kWhole * Area(CornersOf(stored))) {
    return std::vector<picture::PicturePoint>();
  }
  return region.shown();
}

}  // namespace millrace::data_tool
