// The mix_up and cut_mix of a spec, ready to be drawn for each step, and the
// pairs of rows that they mix.
//
// Partners are the samples at places 2i and 2i + 1 of the global batch. A last
// sample without a partner is not mixed, and neither is a sample whose partner
// is padding or an emptied bad sample. A rank whose slice begins or ends within
// a pair also builds the partner, so the global batch is the same at every
// world size.
//
// Pure functions and value types.

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_BATCH_MIXERS_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_BATCH_MIXERS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/augment/batch_mix.h"

namespace millrace::pipeline {

class BatchMixers {
 public:
  // `resolved` comes from ResolveSpec(). Errors as plan::CutMixSize().
  static absl::StatusOr<BatchMixers> Read(const PipelineSpec& resolved,
                                          const DatasetInfo& info);

  bool empty() const { return mixers_.empty(); }

  // Bit i: mixer i names the field, as an image or as a label.
  uint64_t Mixing(const std::string& field) const;

  // For a step of an epoch: f(seed, epoch, step, place of the transform).
  augment::BatchMix Draw(uint64_t epoch, uint64_t step) const;

  // The transform of mixer `i` in the spec.
  uint32_t place(int i) const { return mixers_[i].place; }

 private:
  BatchMixers() = default;

  uint64_t seed_ = 0;
  std::vector<augment::BatchMixer> mixers_;
  std::vector<std::vector<std::string>> fields_;  // of each
};

// The rows of a rank in a step as units of work: single rows, or pairs of
// partners, of which the first and the last may have one row of the rank alone.
struct RowUnits {
  uint64_t rows = 0;
  bool pairs = false;
  bool odd = false;  // row 0 is the second of its pair

  // A rank without rows has no unit.
  uint64_t count() const {
    return pairs && rows > 0 ? (rows + odd + 1) / 2 : rows;
  }
  uint64_t begin(uint64_t unit) const {
    return pairs ? std::max<uint64_t>(2 * unit, odd) - odd : unit;
  }
  uint64_t end(uint64_t unit) const {
    return pairs ? std::min(2 * unit + 2 - odd, rows) : unit + 1;
  }
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_BATCH_MIXERS_H_
