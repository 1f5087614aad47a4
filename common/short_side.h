// ResizeShortSide computes the size of an image whose short side is resized,
// for the plan, which knows sizes alone, and for the pixels, so that both have
// the same size.
//
// Pure function, safe from any thread.
//
//   int64_t height = 375, width = 500;
//   ResizeShortSide(256, height, width);  // 256, 341

#ifndef MILLRACE_COMMON_SHORT_SIDE_H_
#define MILLRACE_COMMON_SHORT_SIDE_H_

#include <cstdint>

namespace millrace {

// Changes the shorter side to `short_side` and the other one in proportion,
// rounded down as in torchvision. The sides are at least 1, and
// `short_side` times a side is below 2^63.
inline void ResizeShortSide(int64_t short_side, int64_t& height,
                            int64_t& width) {
  int64_t& shorter = width <= height ? width : height;
  int64_t& longer = width <= height ? height : width;
  longer = short_side * longer / shorter;
  shorter = short_side;
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_SHORT_SIDE_H_
