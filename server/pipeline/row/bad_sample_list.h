// BadSampleList remembers the most recent damaged samples, each once, for
// GetStatus. It is not a counter: it
// forgets the oldest samples. Engine::Stats::bad_samples counts all.
//
// Thread-safe. Called only for damaged samples.
//
//   list.Add(status);  // with dataset, shard, row and sample in its detail
//   for (const BadSample& bad : list.Newest()) ...

#ifndef MILLRACE_SERVER_PIPELINE_ROW_BAD_SAMPLE_LIST_H_
#define MILLRACE_SERVER_PIPELINE_ROW_BAD_SAMPLE_LIST_H_

#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::pipeline {

class BadSampleList {
 public:
  static constexpr size_t kDefaultCapacity = 100;
  // Of a reason, which is made readable (common/clean_text.h); the rest is cut
  // off.
  static constexpr size_t kMaxReasonBytes = 300;

  explicit BadSampleList(size_t capacity = kDefaultCapacity)
      : capacity_(capacity) {}

  // One meeting with the sample that the status's ErrorDetail names. The oldest
  // makes room.
  void Add(const absl::Status& status);

  // At most `capacity`, the one met last first.
  std::vector<BadSample> Newest() const;

 private:
  using Key = std::pair<std::string, int64_t>;  // dataset and logical index

  const size_t capacity_;
  mutable Mutex mu_;
  std::list<BadSample> samples_ MR_GUARDED_BY(mu_);  // newest first
  std::map<Key, std::list<BadSample>::iterator> places_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_ROW_BAD_SAMPLE_LIST_H_
