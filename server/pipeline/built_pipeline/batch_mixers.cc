#include "server/pipeline/built_pipeline/batch_mixers.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/plan/field_trace.h"
#include "server/plan/find_field.h"
#include "server/plan/keys.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::pipeline {
namespace {

// The size of the images, which must be the same for all images of the
// transform.
absl::Status ReadSize(const PipelineSpec& resolved, const DatasetInfo& info,
                      const CutMix& cut, augment::BatchMixer& mixer) {
  for (const std::string& name : cut.fields()) {
    const Field* field = plan::FindField(info, name);
    if (field == nullptr) continue;  // ResolveSpec() has refused that
    MR_ASSIGN_OR_RETURN(const plan::FieldTrace trace,
                        plan::TraceField(resolved, *field));
    if (!trace.shape || trace.shape->size() != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("transforms[", mixer.place, "].cut_mix: field ", name,
                       " has images of different sizes"));
    }
    const int64_t height = trace.shape->at(0);
    const int64_t width = trace.shape->at(1);
    if (mixer.height == 0) {
      mixer.height = height;
      mixer.width = width;
    } else if (mixer.height != height || mixer.width != width) {
      return absl::InvalidArgumentError(
          absl::StrCat("transforms[", mixer.place, "].cut_mix: field ", name,
                       " is ", height, " x ", width, ", another of its fields ",
                       mixer.height, " x ", mixer.width,
                       ": cut_mix cuts one rectangle from all of its fields, "
                       "so give them one size"));
    }
  }
  return absl::OkStatus();
}

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
      MR_RETURN_IF_ERROR(ReadSize(resolved, info, transform.cut_mix(), mixer));
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
