#include "trainer/bad_sample_watch.h"

#include "absl/strings/str_cat.h"

namespace millrace::trainer {

BadSampleWatch::BadSampleWatch(Options options) : options_(std::move(options)) {
  {
    MutexLock asking(asking_);
    // Before the thread exists and before any loader of this run: what the
    // servers name now was found by earlier runs.
    for (const BadSample& bad : options_.ask()) {
      before_[{bad.dataset(), bad.sample()}] += bad.times();
    }
  }
  thread_ = NamedThread("mr-bad-samples", [this] { Run(); });
}

// Called by the thread and by the trainer. asking_ is held for the whole look,
// which waits for servers, so that lines come in the order of the answers; mu_
// is held only to update the lists, so found() never waits for a server.
void BadSampleWatch::Look() {
  MutexLock asking(asking_);
  std::map<Key, uint64_t> times;
  std::map<Key, BadSample> named;
  // A sample may be named by several servers; their counts are added.
  for (BadSample& bad : options_.ask()) {
    if (!options_.datasets.contains(bad.dataset())) continue;
    const Key key(bad.dataset(), bad.sample());
    times[key] += bad.times();
    named.emplace(key, std::move(bad));
  }
  std::vector<BadSample> fresh;
  {
    MutexLock lock(mu_);
    for (auto& [key, bad] : named) {
      // Found before the run, and not once more since: not of this run.
      const auto before = before_.find(key);
      if (before != before_.end() && times[key] <= before->second) continue;
      if (!known_.insert(key).second) continue;
      found_.push_back(bad);
      fresh.push_back(std::move(bad));
    }
  }
  // Without mu_: `say` writes to the terminal, which may block.
  for (const BadSample& bad : fresh) options_.say(bad);
}

std::vector<BadSample> BadSampleWatch::found() const {
  MutexLock lock(mu_);
  return found_;
}

void BadSampleWatch::End() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  // A look in progress ends first; it is bounded by the timeout of `ask`.
  thread_.Join();
}

void BadSampleWatch::Run() {
  while (true) {
    {
      const SteadyTime next = SteadyDeadline(options_.period);
      MutexLock lock(mu_);
      while (!ending_ && changed_.WaitUntil(lock, next)) {
      }
      if (ending_) return;
    }
    Look();
  }
}

std::string PlaceOf(const BadSample& bad) {
  std::string place = bad.dataset();
  if (!bad.shard().empty()) absl::StrAppend(&place, " shard ", bad.shard());
  if (bad.row() >= 0) {
    absl::StrAppend(&place, " row ", bad.row());
  } else {
    absl::StrAppend(&place, " sample ", bad.sample());
  }
  return place;
}

}  // namespace millrace::trainer
