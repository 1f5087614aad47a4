// PipelineCache keeps the pipelines that were used last, found by the bytes of
// the spec that they were asked for with (as it came, and resolved): a repeated
// request costs one look-up, and a server that never saw Open builds once.
//
// Bounded in number and in bytes, together with pipelines that were thrown out
// and live on in the runs that use them: who builds one takes room for it
// first, which the pipeline holds as long as it lives.
//
// Thread-safe. Room may outlive the cache.

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_CACHE_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "server/pipeline/built/built_pipeline.h"

namespace millrace {

class PipelineCache {
 public:
  // Spellings of a spec that are remembered for one pipeline.
  static constexpr size_t kMaxSpellings = 4;

  // `bytes` of all pipelines together, in the cache or in use; a single one may
  // be larger.
  PipelineCache(size_t capacity, uint64_t bytes)
      : capacity_(capacity), bytes_(bytes) {}

  // Room for a pipeline; to be held by it. Throws out idle ones for it, those
  // that were used longest ago first. Null: those in use leave too little.
  std::shared_ptr<const void> TakeRoom(uint64_t bytes) {
    while (true) {
      std::shared_ptr<const BuiltPipeline> thrown_out;  // outside the lock
      MutexLock lock(mu_);
      const uint64_t used = used_->load();
      if (used == 0 || used + bytes <= bytes_) {
        used_->fetch_add(bytes);
        return std::shared_ptr<const void>(
            this,
            [used = used_, bytes](const void*) { used->fetch_sub(bytes); });
      }
      auto idle = entries_.end();
      for (auto it = entries_.begin(); it != entries_.end(); ++it) {
        // Others get it from here alone.
        if (it->pipeline.use_count() == 1) idle = it;
      }
      if (idle == entries_.end()) return nullptr;
      thrown_out = Drop(idle);
    }
  }

  // Of all pipelines that hold room.
  uint64_t used_bytes() const { return used_->load(); }
  uint64_t max_bytes() const { return bytes_; }

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
      thrown_out = Drop(std::prev(entries_.end()));
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

  std::shared_ptr<const BuiltPipeline> Drop(std::list<Entry>::iterator entry)
      MR_REQUIRES(mu_) {
    for (const std::string& spelling : entry->spellings) {
      by_spec_.erase(spelling);
    }
    std::shared_ptr<const BuiltPipeline> pipeline = std::move(entry->pipeline);
    entries_.erase(entry);
    return pipeline;
  }

  const size_t capacity_;
  const uint64_t bytes_;
  // Grows under the lock alone.
  const std::shared_ptr<std::atomic<uint64_t>> used_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  mutable Mutex mu_;
  std::list<Entry> entries_ MR_GUARDED_BY(mu_);  // the last used in front
  std::unordered_map<std::string, std::list<Entry>::iterator> by_spec_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_CACHE_H_
