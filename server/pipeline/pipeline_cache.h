// PipelineCache keeps the pipelines that were used last, found by the bytes of
// the spec that they were asked for with (as it came, and resolved): a repeated
// request costs one look-up, and a server that never saw Open builds once.
//
// Thread-safe. A pipeline that is thrown out lives on in the runs that use it.

#ifndef MILLRACE_SERVER_PIPELINE_PIPELINE_CACHE_H_
#define MILLRACE_SERVER_PIPELINE_PIPELINE_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "server/pipeline/built_pipeline.h"

namespace millrace {

class PipelineCache {
 public:
  // Spellings of a spec that are remembered for one pipeline.
  static constexpr size_t kMaxSpellings = 4;

  explicit PipelineCache(size_t capacity) : capacity_(capacity) {}

  // Null when there is none.
  std::shared_ptr<const BuiltPipeline> Find(const std::string& spec_bytes) {
    MutexLock lock(mu_);
    const auto it = by_spec_.find(spec_bytes);
    if (it == by_spec_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->pipeline;
  }

  // Also finds the pipeline of `spec_bytes` by `other_bytes`.
  void AddSpelling(const std::string& spec_bytes,
                   const std::string& other_bytes) {
    MutexLock lock(mu_);
    const auto it = by_spec_.find(spec_bytes);
    if (it == by_spec_.end() || by_spec_.contains(other_bytes)) return;
    Entry& entry = *it->second;
    if (entry.spellings.size() == kMaxSpellings) {
      // The first is the resolved one and stays.
      by_spec_.erase(entry.spellings[1]);
      entry.spellings.erase(entry.spellings.begin() + 1);
    }
    entry.spellings.push_back(other_bytes);
    by_spec_.emplace(other_bytes, it->second);
  }

  // The pipeline that is kept: another thread may have been faster.
  std::shared_ptr<const BuiltPipeline> Insert(
      const std::string& spec_bytes,
      std::shared_ptr<const BuiltPipeline> pipeline) {
    std::shared_ptr<const BuiltPipeline> thrown_out;  // outside the lock
    MutexLock lock(mu_);
    const auto it = by_spec_.find(spec_bytes);
    if (it != by_spec_.end()) return it->second->pipeline;
    if (entries_.size() >= capacity_) {
      Entry& last = entries_.back();
      for (const std::string& spelling : last.spellings) {
        by_spec_.erase(spelling);
      }
      thrown_out = std::move(last.pipeline);
      entries_.pop_back();
    }
    entries_.push_front({pipeline, {spec_bytes}});
    by_spec_.emplace(spec_bytes, entries_.begin());
    return pipeline;
  }

  size_t size() const {
    MutexLock lock(mu_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::shared_ptr<const BuiltPipeline> pipeline;
    std::vector<std::string> spellings;
  };

  const size_t capacity_;
  mutable Mutex mu_;
  std::list<Entry> entries_ MR_GUARDED_BY(mu_);  // the last used in front
  std::unordered_map<std::string, std::list<Entry>::iterator> by_spec_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_PIPELINE_CACHE_H_
