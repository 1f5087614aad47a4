// SegmentPainter draws the segments that a GeometryChain has planned: it
// decodes what a segment reads of the stored image, cuts, resizes, pads and
// mirrors it straight into its place.
//
// Belongs to one thread; keeps its memory from image to image.
//
//   SegmentPainter& p = scratch.painter;
//   MR_RETURN_IF_ERROR(p.Decode(segment, size, {.divisor = 2}, &pixels));
//   MR_RETURN_IF_ERROR(p.Draw(segment, pixels, channels, out, stride));

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_SEGMENT_PAINTER_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_SEGMENT_PAINTER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/aligned_buffer.h"
#include "server/augment/axis_filter.h"
#include "server/augment/geometry_chain.h"
#include "server/augment/resize.h"
#include "server/decode/image_decoder.h"

namespace millrace::pipeline {

// Pixels of an image, or of a part of it that begins at (left, top).
struct Pixels {
  const uint8_t* data = nullptr;
  ptrdiff_t stride = 0;
  int64_t left = 0;
  int64_t top = 0;
  bool slack = false;  // kResizeReadSlack bytes behind it may be read
};

// The fraction at which an image is decoded for `segment`: the largest at which
// the segment's box still has its resized size, 1 without a resize.
int ChooseDivisor(const augment::Segment& segment, int max_divisor);

class SegmentPainter {
 public:
  decode::ImageDecoder& decoder() { return decoder_; }

  struct Decoding {
    int divisor = 1;
    int channels = 3;
    bool index = false;  // to the stored numbers, as DecodeRegion has it
  };
  // Bytes that Decode() compares with the limit of one image
  // (ImageDecoder::BytesFor()).
  int64_t BytesFor(const augment::Segment& segment, augment::Size image,
                   const Decoding& how);

  // Decodes what `segment` reads of the opened image, which has the size
  // `image`. Draw() of the same segment must be next.
  absl::Status Decode(const augment::Segment& segment, augment::Size image,
                      const Decoding& how, Pixels* pixels);

  // The same for pixels that are there already.
  void Prepare(const augment::Segment& segment, augment::Size image);

  // Writes the segment's canvas, its rows `stride` bytes apart.
  absl::Status Draw(const augment::Segment& segment, Pixels pixels,
                    int channels, uint8_t* to, ptrdiff_t stride);

  // Gives back what an unusually large image has needed.
  void ReleaseAbove(size_t bytes);
  // Bytes that its buffers keep for the next image.
  size_t kept_bytes() const {
    return decoder_.kept_bytes() + resize_.kept_bytes() + copy_.capacity();
  }

 private:
  void BuildFilters(const augment::Segment& segment, augment::Size image,
                    int divisor);
  // What `segment` reads; with a resize, its filters are built.
  decode::DecodeRegion RegionOf(const augment::Segment& segment,
                                augment::Size image, const Decoding& how);

  decode::ImageDecoder decoder_;
  augment::AxisFilter x_;
  augment::AxisFilter y_;
  augment::ResizeScratch resize_;
  AlignedBuffer copy_;  // of pixels without slack
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_SEGMENT_PAINTER_H_
