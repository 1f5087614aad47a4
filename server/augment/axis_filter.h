// AxisFilter is one axis of a resize: for each output place the first source
// place and the weights of the source places that it sums, as 16-bit fixed
// point. The filter is a triangle; with antialiasing it is as wide as the
// source step, as Pillow's BILINEAR is. Weights of one output place sum to
// 65536 exactly; a single weight of one is kept as 65535, which is the same
// after rounding.
//
// Not thread-safe; keeps its memory from build to build. IEEE + - * / only, so
// the weights are the same on every CPU.
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

namespace millrace {

class AxisFilter {
 public:
  struct Options {
    // The source interval that is resized. It may lie between places when the
    // source was decoded at a fraction of its size.
    double begin = 0;
    double end = 0;
    // Places that may be summed: a filter stops there, so that what lies
    // outside a crop does not reach into it. Must overlap [begin, end).
    int64_t limit_begin = 0;
    int64_t limit_end = 0;
    int64_t resized = 0;  // places that the whole interval becomes
    int64_t first = 0;    // of these, the ones that are wanted
    int64_t count = 0;
    bool antialias = true;
  };

  void Build(const Options& options);

  // The nearest place by torchvision's rule: output place i of the `resized`
  // ones is floor(i * (places / resized)), in float32. `begin` and `end` are
  // whole numbers; `antialias` and the limits mean nothing.
  void BuildNearest(const Options& options);

  int64_t count() const { return count_; }
  // First source place of output place i (of the wanted ones).
  int64_t start(int64_t i) const { return starts_[i]; }
  int32_t taps(int64_t i) const { return taps_[i]; }
  const uint16_t* weights(int64_t i) const { return &weights_[i * stride_]; }
  // Source places [source_begin, source_end) are read.
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

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_AXIS_FILTER_H_
