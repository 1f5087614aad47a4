#include "server/pipeline/row/bad_sample_list.h"

#include <utility>

#include "common/clean_text.h"
#include "proto/error_detail.h"

namespace millrace::pipeline {

void BadSampleList::Add(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  BadSample sample;
  sample.set_dataset(detail.dataset());
  sample.set_shard(detail.shard());
  sample.set_row(detail.row());
  sample.set_sample(detail.sample());
  sample.set_stage(detail.stage());
  // The message may name files. File names are arbitrary bytes; proto strings
  // are not.
  sample.set_reason(CleanText(status.message(), kMaxReasonBytes));
  const Key key(sample.dataset(), detail.sample());

  MutexLock lock(mu_);
  // samples_ and places_ change together under mu_: each sample of the list has
  // one entry in the map, which holds its iterator. The newest is first, so the
  // last one is dropped.
  const auto known = places_.find(key);
  if (known != places_.end()) {
    sample.set_times(known->second->times() + 1);
    samples_.erase(known->second);
    places_.erase(known);
  } else {
    sample.set_times(1);
  }
  samples_.push_front(std::move(sample));
  places_[key] = samples_.begin();
  if (samples_.size() > capacity_) {
    places_.erase(Key(samples_.back().dataset(), samples_.back().sample()));
    samples_.pop_back();
  }
}

std::vector<BadSample> BadSampleList::Newest() const {
  MutexLock lock(mu_);
  return {samples_.begin(), samples_.end()};
}

}  // namespace millrace::pipeline
