// PipelineCache keeps the pipelines that were used last, found by the bytes of
// the spec that they were requested with (as it came, and resolved): a repeated
// request costs one look-up, and a server that never saw Open builds once.
//
// Bounded in number and in bytes. The bytes count all living pipelines, also
// evicted pipelines that runs still use. A thread that builds a pipeline first
// reserves room for it; the pipeline holds the room as long as it lives.
//
// Thread-safe. Room may outlive the cache. Pipelines are destroyed outside the
// lock, for their destructor may take long.

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_PIPELINE_CACHE_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_PIPELINE_CACHE_H_

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

#include "absl/functional/function_ref.h"
#include "common/mutex.h"
#include "server/pipeline/built_pipeline/built_pipeline.h"

namespace millrace::pipeline {

class PipelineCache {
 public:
  // Spellings of a spec that are remembered for one pipeline, the resolved one
  // among them: programs send few. A choice.
  static constexpr size_t kMaxSpellings = 4;

  // At most `capacity` pipelines in the cache, and `bytes` of all together, in
  // the cache or in use; a single one may be larger.
  PipelineCache(size_t capacity, uint64_t bytes)
      : capacity_(capacity), bytes_(bytes) {}

  // Reserves room for a pipeline, which must hold the result. Evicts idle
  // pipelines for it, least recently used first. Null: the pipelines in use
  // leave too little room.
  std::shared_ptr<const void> TakeRoom(uint64_t bytes) {
    while (true) {
      // Declared before the lock: destroyed after it, and its room is back
      // before the next look.
      std::shared_ptr<const BuiltPipeline> thrown_out;
      MutexLock lock(mu_);
      // The value may fall meanwhile, because pipelines are destroyed without
      // the lock. It rises only under the lock, so the bound holds.
      const uint64_t used = used_->load();
      if (used == 0 || used + bytes <= bytes_) {
        used_->fetch_add(bytes);
        // The pointer is only there to be not null; the room is the deleter,
        // which shares the counter and does not touch the cache.
        return std::shared_ptr<const void>(
            this,
            [used = used_, bytes](const void*) { used->fetch_sub(bytes); });
      }
      auto idle = entries_.end();
      for (auto it = entries_.begin(); it != entries_.end(); ++it) {
        // A count of 1 means that only the cache holds the pipeline. A new
        // holder could only come through Find(), which needs the lock: the
        // pipeline is idle. The scan goes to the end of the list, so it finds
        // the oldest idle pipeline.
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
    // Not found: it was thrown out since it was built. The next request builds
    // it again.
    const auto it = by_spec_.find(spec_bytes);
    if (it == by_spec_.end() || by_spec_.contains(other_bytes)) return;
    Entry& entry = *it->second;
    if (entry.spellings.size() == kMaxSpellings) {
      // The first is the resolved one and stays: clients send it with every
      // call. The oldest of the others goes.
      by_spec_.erase(entry.spellings[1]);
      entry.spellings.erase(entry.spellings.begin() + 1);
    }
    entry.spellings.push_back(other_bytes);
    by_spec_.emplace(other_bytes, it->second);
  }

  // Keeps the pipeline and returns it, or the one that another thread has put
  // there first: then the caller's own is dropped, and all use one.
  std::shared_ptr<const BuiltPipeline> Insert(
      const std::string& spec_bytes,
      std::shared_ptr<const BuiltPipeline> pipeline) {
    // Declared before the lock: destroyed after it.
    std::shared_ptr<const BuiltPipeline> thrown_out;
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

  // Takes out every pipeline for which `drop` is true.
  void DropIf(absl::FunctionRef<bool(const BuiltPipeline&)> drop) {
    // Declared before the lock: destroyed after it.
    std::vector<std::shared_ptr<const BuiltPipeline>> thrown_out;
    MutexLock lock(mu_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto entry = it++;
      if (drop(*entry->pipeline)) thrown_out.push_back(Drop(entry));
    }
  }

  size_t size() const {
    MutexLock lock(mu_);
    return entries_.size();
  }

 private:
  // A pipeline and all keys of by_spec_ that lead to it; the first is the
  // resolved spec.
  struct Entry {
    std::shared_ptr<const BuiltPipeline> pipeline;
    std::vector<std::string> spellings;
  };

  // Takes the entry and its keys out. The caller destroys the result without
  // the lock.
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
  // Bytes of all room that is held. Rises under mu_ alone, falls at any time.
  // Shared with the deleters of room.
  const std::shared_ptr<std::atomic<uint64_t>> used_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  mutable Mutex mu_;
  // The last used in front. A list, so that iterators in by_spec_ stay valid
  // when entries move.
  std::list<Entry> entries_ MR_GUARDED_BY(mu_);
  // By each spelling of each entry.
  std::unordered_map<std::string, std::list<Entry>::iterator> by_spec_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_PIPELINE_CACHE_H_
