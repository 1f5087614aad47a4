#include "server/augment/affine_map.h"

#include "server/augment/portable_math.h"

namespace millrace::augment {

AffinePair MakeAffine(const AffineParameters& p, Size image) {
  const SinCos turn = PortableSinCosDegrees(p.degrees);
  // torchvision's a, b, c, d: its cos(turn - shear_y) / cos(shear_y) etc.,
  // multiplied out. The determinant is 1.
  const double a = turn.cos + turn.sin * p.shear_y;
  const double c = turn.sin - turn.cos * p.shear_y;
  const double b = -(a * p.shear_x + turn.sin);
  const double d = turn.cos - c * p.shear_x;
  const double center_x =
      p.about_corner ? 0.0 : static_cast<double>(image.width) * 0.5;
  const double center_y =
      p.about_corner ? 0.0 : static_cast<double>(image.height) * 0.5;
  const double to_x = center_x + p.translate_x;
  const double to_y = center_y + p.translate_y;
  AffinePair maps;
  maps.forward = {a * p.scale, b * p.scale, 0, c * p.scale, d * p.scale, 0};
  maps.forward.x0 =
      to_x - (maps.forward.xx * center_x + maps.forward.xy * center_y);
  maps.forward.y0 =
      to_y - (maps.forward.yx * center_x + maps.forward.yy * center_y);
  maps.inverse = {d / p.scale, -b / p.scale, 0, -c / p.scale, a / p.scale, 0};
  maps.inverse.x0 =
      center_x - (maps.inverse.xx * to_x + maps.inverse.xy * to_y);
  maps.inverse.y0 =
      center_y - (maps.inverse.yx * to_x + maps.inverse.yy * to_y);
  return maps;
}

}  // namespace millrace::augment
