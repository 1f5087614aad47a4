// AffineMap moves points of the plane: rotation, translation, scaling, shear.
// Coordinates are in pixels from the upper left corner of the image; the middle
// of pixel (0, 0) is at (0.5, 0.5).
//
// Value types and pure functions. Only IEEE + - * /: the same bits on every
// CPU.
//
//   const AffinePair maps = MakeAffine({.degrees = 30}, {224, 224});
//   double x = 10, y = 20;
//   maps.forward.Apply(x, y);  // where that point of the image moves to

#ifndef MILLRACE_SERVER_AUGMENT_AFFINE_MAP_H_
#define MILLRACE_SERVER_AUGMENT_AFFINE_MAP_H_

#include "server/augment/geometry.h"

namespace millrace::augment {

// x' = xx x + xy y + x0, y' = yx x + yy y + y0.
struct AffineMap {
  double xx = 1;
  double xy = 0;
  double x0 = 0;
  double yx = 0;
  double yy = 1;
  double y0 = 0;

  void Apply(double& x, double& y) const {
    const double to_x = xx * x + xy * y + x0;
    y = yx * x + yy * y + y0;
    x = to_x;
  }
  friend bool operator==(const AffineMap&, const AffineMap&) = default;
};

// The parameters of torchvision.transforms.v2.functional.affine. The parameters
// of its rotate() are {.degrees = -angle}.
struct AffineParameters {
  double degrees = 0;      // clockwise, as the image is seen
  double translate_x = 0;  // pixels
  double translate_y = 0;
  double scale = 1;  // above 0
  // Tangents of the shears' angles.
  double shear_x = 0;
  double shear_y = 0;
  // Rotate, scale and shear about the upper left corner instead of the middle.
  bool about_corner = false;
};

struct AffinePair {
  AffineMap forward;  // from the image to the result
  AffineMap inverse;  // from the result to the image
};

// T C R S Y X C^-1 of torchvision's _get_inverse_affine_matrix: the centre
// moves to the origin, then shear along x, shear along y, scaling, rotation,
// the inverse of the first move, and translation.
AffinePair MakeAffine(const AffineParameters& parameters, Size image);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_AFFINE_MAP_H_
