#include "server/pipeline/built_pipeline/batch_mixers.h"

#include "common/status_macros.h"
#include "server/plan/cut_mix_size.h"
#include "server/plan/keys.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::pipeline {
namespace {

template <typename M>
augment::BatchMixer ReadMixer(const M& transform, uint32_t place) {
  augment::BatchMixer mixer;
  mixer.place = place;
  mixer.p = transform.p();
  mixer.alpha = transform.alpha();
  return mixer;
}

}  // namespace

absl::StatusOr<BatchMixers> BatchMixers::Read(const PipelineSpec& resolved,
                                              const DatasetInfo& info) {
  BatchMixers result;
  result.seed_ = resolved.seed();
  for (int place = 0; place < resolved.transforms_size(); ++place) {
    const Transform& transform = resolved.transforms(place);
    if (transform.has_mix_up()) {
      result.mixers_.push_back(ReadMixer(transform.mix_up(), place));
    } else if (transform.has_cut_mix()) {
      augment::BatchMixer mixer = ReadMixer(transform.cut_mix(), place);
      mixer.cut = true;
      MR_ASSIGN_OR_RETURN(const plan::CutSize size,
                          plan::CutMixSize(resolved, info, place));
      mixer.height = size.height;
      mixer.width = size.width;
      result.mixers_.push_back(mixer);
    } else {
      continue;
    }
    result.fields_.push_back(plan::TransformFields(transform));
  }
  return result;
}

uint64_t BatchMixers::Mixing(const std::string& field) const {
  uint64_t bits = 0;  // a spec has at most 64 transforms
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (std::find(fields_[i].begin(), fields_[i].end(), field) !=
        fields_[i].end()) {
      bits |= uint64_t{1} << i;
    }
  }
  return bits;
}

augment::BatchMix BatchMixers::Draw(uint64_t epoch, uint64_t step) const {
  if (mixers_.empty()) return {};
  return augment::DrawBatchMix(mixers_, plan::BatchKey(seed_, epoch, step));
}

}  // namespace millrace::pipeline
