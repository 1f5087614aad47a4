#include "server/augment/copy_pixels.h"

#include <algorithm>
#include <cstring>

namespace millrace::augment {
namespace {

// kChannels is 0 if the number is known only at run time.
template <int kChannels>
inline void CopyPixel(const uint8_t* from, int channels, uint8_t* to) {
  const int n = kChannels == 0 ? channels : kChannels;
  for (int c = 0; c < n; ++c) to[c] = from[c];
}

// Copies three-byte pixels as four bytes if the fourth byte may be read and the
// next pixel overwrites it: one move instead of three.
inline void CopyThreeAsFour(const uint8_t* from, uint8_t* to) {
  std::memcpy(to, from, 4);
}

template <int kChannels>
void MirrorRow(const uint8_t* from, int64_t width, int channels, uint8_t* to) {
  if (width <= 0) return;
  from += (width - 1) * channels;
  // The first pixel may end with the source, the last one with the row.
  CopyPixel<kChannels>(from, channels, to);
  int64_t x = 1;
  from -= channels;
  to += channels;
  if constexpr (kChannels == 3) {
    for (; x + 1 < width; ++x, from -= 3, to += 3) CopyThreeAsFour(from, to);
  }
  for (; x < width; ++x, from -= channels, to += channels) {
    CopyPixel<kChannels>(from, channels, to);
  }
}

void MirrorRow(const uint8_t* from, int64_t width, int channels, uint8_t* to) {
  switch (channels) {
    case 1:
      return MirrorRow<1>(from, width, 1, to);
    case 3:
      return MirrorRow<3>(from, width, 3, to);
    default:
      return MirrorRow<0>(from, width, channels, to);
  }
}

void FillRect(uint8_t* to, ptrdiff_t stride, int64_t width, int64_t height,
              const FillColor& fill, int channels) {
  if (width <= 0 || height <= 0) return;
  if (fill.count() == 1 || channels == 1) {
    for (int64_t y = 0; y < height; ++y) {
      std::memset(to + y * stride, fill.of(0), width * channels);
    }
    return;
  }
  for (int64_t x = 0; x < width; ++x) {
    for (int c = 0; c < channels; ++c) to[x * channels + c] = fill.of(c);
  }
  for (int64_t y = 1; y < height; ++y) {
    std::memcpy(to + y * stride, to, width * channels);
  }
}

template <int kChannels>
void GatherRow(const uint8_t* from, const AxisFilter& x, int64_t left,
               int channels, bool flip, uint8_t* to) {
  const int64_t n = x.count();
  auto source = [&](int64_t i) {
    return from + (x.start(flip ? n - 1 - i : i) - left) * channels;
  };
  int64_t i = 0;
  if constexpr (kChannels == 3) {
    // The last place may be at the end of the source.
    const uint8_t* const last = from + (x.source_end() - 1 - left) * 3;
    for (; i + 1 < n; ++i, to += 3) {
      const uint8_t* pixel = source(i);
      if (pixel == last) {
        CopyPixel<3>(pixel, 3, to);
      } else {
        CopyThreeAsFour(pixel, to);
      }
    }
  }
  for (; i < n; ++i, to += channels) {
    CopyPixel<kChannels>(source(i), channels, to);
  }
}

}  // namespace

void CopyPixels(const uint8_t* from, ptrdiff_t from_stride, Size size,
                int channels, bool flip, uint8_t* to, ptrdiff_t to_stride) {
  const int64_t row_bytes = size.width * channels;
  if (!flip && from_stride == row_bytes && to_stride == row_bytes) {
    if (size.height > 0) std::memcpy(to, from, row_bytes * size.height);
    return;
  }
  for (int64_t y = 0; y < size.height; ++y) {
    const uint8_t* row = from + y * from_stride;
    uint8_t* out = to + y * to_stride;
    if (flip) {
      MirrorRow(row, size.width, channels, out);
    } else {
      std::memcpy(out, row, row_bytes);
    }
  }
}

void FillAround(uint8_t* to, ptrdiff_t stride, Size canvas, const Rect& window,
                const FillColor& fill, int channels) {
  if (window.width == 0 || window.height == 0) {
    FillRect(to, stride, canvas.width, canvas.height, fill, channels);
    return;
  }
  const int64_t right = window.left + window.width;
  const int64_t bottom = window.top + window.height;
  FillRect(to, stride, canvas.width, window.top, fill, channels);
  uint8_t* middle = to + window.top * stride;
  FillRect(middle, stride, window.left, window.height, fill, channels);
  FillRect(middle + right * channels, stride, canvas.width - right,
           window.height, fill, channels);
  FillRect(to + bottom * stride, stride, canvas.width, canvas.height - bottom,
           fill, channels);
}

void CopySurrounded(const SurroundJob& job) {
  const int channels = job.channels;
  // The columns of the canvas that show the image itself.
  const int64_t begin = std::clamp<int64_t>(job.left, 0, job.canvas.width);
  const int64_t end =
      std::clamp<int64_t>(job.left + job.edge.width, begin, job.canvas.width);
  for (int64_t y = 0; y < job.canvas.height; ++y) {
    const int64_t source_row =
        SurroundSource(job.surround, y - job.top, job.edge.height);
    const uint8_t* row =
        job.from + (source_row - job.from_top) * job.from_stride;
    uint8_t* out = job.to + y * job.to_stride;
    auto copy_outside = [&](int64_t from, int64_t to) {
      for (int64_t x = from; x < to; ++x) {
        const int64_t source =
            SurroundSource(job.surround, x - job.left, job.edge.width);
        const int64_t at = job.flip ? job.canvas.width - 1 - x : x;
        CopyPixel<0>(row + (source - job.from_left) * channels, channels,
                     out + at * channels);
      }
    };
    copy_outside(0, begin);
    if (end > begin) {
      const uint8_t* inside =
          row + (begin - job.left - job.from_left) * channels;
      if (job.flip) {
        MirrorRow(inside, end - begin, channels,
                  out + (job.canvas.width - end) * channels);
      } else {
        std::memcpy(out + begin * channels, inside, (end - begin) * channels);
      }
    }
    copy_outside(end, job.canvas.width);
  }
}

void CopyNearest(const NearestJob& job) {
  for (int64_t j = 0; j < job.y->count(); ++j) {
    uint8_t* out = job.to + j * job.to_stride;
    if (j > 0 && job.y->start(j) == job.y->start(j - 1)) {
      std::memcpy(out, out - job.to_stride, job.x->count() * job.channels);
      continue;
    }
    const uint8_t* row =
        job.from + (job.y->start(j) - job.top) * job.from_stride;
    switch (job.channels) {
      case 1:
        GatherRow<1>(row, *job.x, job.left, 1, job.flip, out);
        break;
      case 3:
        GatherRow<3>(row, *job.x, job.left, 3, job.flip, out);
        break;
      default:
        GatherRow<0>(row, *job.x, job.left, job.channels, job.flip, out);
        break;
    }
  }
}

}  // namespace millrace::augment
