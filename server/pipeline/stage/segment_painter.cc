#include "server/pipeline/stage/segment_painter.h"

#include <algorithm>

#include "common/status_macros.h"
#include "server/augment/copy_pixels.h"
#include "server/decode/memory_text.h"

namespace millrace::pipeline {

int ChooseDivisor(const augment::Segment& segment, int max_divisor) {
  // The nearest pixel is always one of the stored pixels.
  if (!segment.resize || segment.nearest) return 1;
  int divisor = max_divisor;
  while (divisor > 1 &&
         (segment.box.width < divisor * segment.resized.width ||
          segment.box.height < divisor * segment.resized.height)) {
    divisor /= 2;
  }
  return divisor;
}

void SegmentPainter::BuildFilters(const augment::Segment& s,
                                  augment::Size image, int divisor) {
  auto build = [&](augment::AxisFilter& filter, int64_t begin, int64_t size,
                   int64_t image_size, int64_t resized, int64_t first,
                   int64_t count) {
    const double scale = 1.0 / divisor;  // a power of two: exact
    augment::AxisFilter::Options o;
    o.begin = static_cast<double>(begin) * scale;
    o.end = static_cast<double>(begin + size) * scale;
    o.limit_begin = begin / divisor;
    o.limit_end = std::min((begin + size + divisor - 1) / divisor,
                           (image_size + divisor - 1) / divisor);
    o.resized = resized;
    o.first = first;
    o.count = count;
    o.antialias = s.antialias;
    if (s.nearest) {
      filter.BuildNearest(o);
    } else {
      filter.Build(o);
    }
  };
  build(x_, s.box.left, s.box.width, image.width, s.resized.width,
        s.window.left, s.window.width);
  build(y_, s.box.top, s.box.height, image.height, s.resized.height,
        s.window.top, s.window.height);
}

void SegmentPainter::Prepare(const augment::Segment& segment,
                             augment::Size image) {
  if (segment.resize) BuildFilters(segment, image, 1);
}

decode::DecodeRegion SegmentPainter::RegionOf(const augment::Segment& segment,
                                              augment::Size image,
                                              const Decoding& how) {
  decode::DecodeRegion region;
  region.divisor = how.divisor;
  region.channels = how.channels;
  region.index = how.index;
  if (segment.resize) {
    BuildFilters(segment, image, how.divisor);
    region.left = x_.source_begin();
    region.top = y_.source_begin();
    region.width = x_.source_end() - x_.source_begin();
    region.height = y_.source_end() - y_.source_begin();
  } else {
    region.left = segment.box.left;
    region.top = segment.box.top;
    region.width = segment.box.width;
    region.height = segment.box.height;
  }
  return region;
}

int64_t SegmentPainter::BytesFor(const augment::Segment& segment,
                                 augment::Size image, const Decoding& how) {
  return decoder_.BytesFor(RegionOf(segment, image, how));
}

absl::Status SegmentPainter::Decode(const augment::Segment& segment,
                                    augment::Size image, const Decoding& how,
                                    Pixels* pixels) {
  const decode::DecodeRegion region = RegionOf(segment, image, how);
  MR_ASSIGN_OR_RETURN(decode::DecodedImage decoded, decoder_.Decode(region));
  *pixels = {decoded.data, decoded.stride, region.left, region.top, true};
  return absl::OkStatus();
}

absl::Status SegmentPainter::Draw(const augment::Segment& segment,
                                  Pixels pixels, int channels, uint8_t* to,
                                  ptrdiff_t stride) {
  if (segment.flip_vertical) {  // copies the rows from last to first
    to += (segment.canvas.height - 1) * stride;
    stride = -stride;
  }
  if (segment.surround != augment::Surround::kFill) {
    augment::SurroundJob job;
    job.from = pixels.data;
    job.from_stride = pixels.stride;
    job.from_left = pixels.left - segment.edge.left;
    job.from_top = pixels.top - segment.edge.top;
    job.edge = {segment.edge.width, segment.edge.height};
    job.surround = segment.surround;
    job.left = segment.pad_left;
    job.top = segment.pad_top;
    job.channels = channels;
    job.canvas = segment.canvas;
    job.flip = segment.flip;
    job.to = to;
    job.to_stride = stride;
    augment::CopySurrounded(job);
    return absl::OkStatus();
  }
  const augment::Size window = {segment.window.width, segment.window.height};
  if (segment.padded()) {
    const int64_t left =
        segment.flip ? segment.canvas.width - segment.pad_left - window.width
                     : segment.pad_left;
    augment::FillAround(to, stride, segment.canvas,
                        {left, segment.pad_top, window.width, window.height},
                        segment.fill, channels);
    if (window.width == 0) return absl::OkStatus();
    to += segment.pad_top * stride + left * channels;
  }
  if (!segment.resize) {
    augment::CopyPixels(
        pixels.data + (segment.box.top - pixels.top) * pixels.stride +
            (segment.box.left - pixels.left) * channels,
        pixels.stride, window, channels, segment.flip, to, stride);
    return absl::OkStatus();
  }
  if (segment.nearest) {
    augment::NearestJob job;
    job.from = pixels.data;
    job.from_stride = pixels.stride;
    job.left = pixels.left;
    job.top = pixels.top;
    job.x = &x_;
    job.y = &y_;
    job.channels = channels;
    job.flip = segment.flip;
    job.to = to;
    job.to_stride = stride;
    augment::CopyNearest(job);
    return absl::OkStatus();
  }
  if (!pixels.slack) {
    // The memory may end with the stored pixels.
    const augment::Size read = {x_.source_end() - x_.source_begin(),
                                y_.source_end() - y_.source_begin()};
    const int64_t bytes = read.width * channels * read.height;
    uint8_t* copy = copy_.Reserve(bytes + augment::kResizeReadSlack);
    if (copy == nullptr) return decode::NoMemoryForPixels(bytes);
    augment::CopyPixels(pixels.data + y_.source_begin() * pixels.stride +
                            x_.source_begin() * channels,
                        pixels.stride, read, channels, false, copy,
                        read.width * channels);
    pixels = {copy, read.width * channels, x_.source_begin(), y_.source_begin(),
              true};
  }
  augment::ResizeJob job;
  job.source = pixels.data;
  job.source_stride = pixels.stride;
  job.source_left = pixels.left;
  job.source_top = pixels.top;
  job.x = &x_;
  job.y = &y_;
  job.channels = channels;
  job.out = to;
  job.out_stride = stride;
  job.flip = segment.flip;
  if (!augment::ResizePixels(job, resize_)) {
    return decode::NoMemoryForPixels((x_.source_end() - x_.source_begin()) *
                                     channels * 64);
  }
  return absl::OkStatus();
}

void SegmentPainter::ReleaseAbove(size_t bytes) {
  decoder_.ReleaseAbove(bytes);
  resize_.ReleaseAbove(bytes);
  copy_.ReleaseAbove(bytes);
}

}  // namespace millrace::pipeline
