// AxisFilter is one axis of a resize: for each output place, the first source
// place and the weights of the source places that it sums, in 16-bit fixed
// point. The filter is a triangle; with antialiasing it is as wide as the
// source step, like Pillow's BILINEAR. The weights of one output place sum up
// to exactly 65536. A single weight of one is stored as 65535, which gives the
// same result after rounding.
//
// Not thread-safe. Keeps its memory between builds. Only IEEE + - * /, so the
// weights are the same on every CPU.
//
//   AxisFilter filter;
//   // Columns 16 .. 239 of a resize of places [3.5, 303.5) to 256.
//   filter.Build({.begin = 3.5, .end = 303.5, .limit_begin = 3,
//                 .limit_end = 304, .resized = 256, .first = 16, .count =
//                 224});

#ifndef MILLRACE_SERVER_AUGMENT_AXIS_FILTER_H_
#define MILLRACE_SERVER_AUGMENT_AXIS_FILTER_H_

#include <cstdint>
#include <vector>

namespace millrace::augment {

class AxisFilter {
 public:
  struct Options {
    // The source interval that is resized. Its ends may be between places if
    // the source was decoded at a fraction of its size.
    double begin = 0;
    double end = 0;
    // Places that may be summed. A filter stops at the limits, so that pixels
    // outside a crop do not affect the crop. The limits must overlap [begin,
    // end).
    int64_t limit_begin = 0;
    int64_t limit_end = 0;
    int64_t resized = 0;  // output places of the whole interval
    int64_t first = 0;    // the first output place to compute
    int64_t count = 0;
    bool antialias = true;
  };

  void Build(const Options& options);

  // The nearest place by torchvision's rule: output place i of `resized` is
  // floor(i * (places / resized)), in float32. `begin` and `end` must be whole
  // numbers; `antialias` and the limits are ignored.
  void BuildNearest(const Options& options);

  int64_t count() const { return count_; }
  // First source place of output place i, counted from `first`.
  int64_t start(int64_t i) const { return starts_[i]; }
  int32_t taps(int64_t i) const { return taps_[i]; }
  const uint16_t* weights(int64_t i) const { return &weights_[i * stride_]; }
  // The filter reads source places [source_begin, source_end).
  int64_t source_begin() const { return source_begin_; }
  int64_t source_end() const { return source_end_; }

 private:
  void Reset(int64_t count, int64_t stride);

  int64_t count_ = 0;
  int64_t stride_ = 0;
  int64_t source_begin_ = 0;
  int64_t source_end_ = 0;
  std::vector<int64_t> starts_;
  std::vector<int32_t> taps_;
  std::vector<uint16_t> weights_;
  std::vector<double> exact_;
};

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_AXIS_FILTER_H_
