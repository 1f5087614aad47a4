// BadSampleWatch reports the damaged samples that the data servers find under
// bad_samples ZERO or SUBSTITUTE during a run. Batches do not name a damaged
// sample; servers do (GetStatus), so the watch asks them every few seconds.
//
// What it is not: a count of a run's rows. A server names the samples that it
// found last, each once, whichever client received the batch.
//
// Owns a thread, joined by End() or the destructor. Look() and found() from any
// thread; `ask` and `found` are called by one thread at a time.
//
//   BadSampleWatch watch({.datasets = {"photos"}, .ask = ..., .say = ...});
//   ... an epoch ...
//   watch.Look();
//   for (const BadSample& bad : watch.found()) ...

#ifndef MILLRACE_TRAINER_BAD_SAMPLE_WATCH_H_
#define MILLRACE_TRAINER_BAD_SAMPLE_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/thread.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::trainer {

class BadSampleWatch {
 public:
  struct Options {
    // Damaged samples of other datasets are ignored.
    std::set<std::string> datasets;
    absl::Duration period = absl::Seconds(2);
    // Returns what all servers name now: a sample once for each server. A
    // server that does not answer names nothing.
    std::function<std::vector<BadSample>()> ask;
    // Called once for each damaged sample that a server finds from now on.
    std::function<void(const BadSample&)> say;
  };

  // Asks once, so that samples found earlier are ignored. Construct it before
  // the loaders open, because they request batches at once.
  explicit BadSampleWatch(Options options);
  ~BadSampleWatch() { End(); }
  BadSampleWatch(const BadSampleWatch&) = delete;
  BadSampleWatch& operator=(const BadSampleWatch&) = delete;

  // Asks the servers now.
  void Look();

  // Damaged samples since the start, each once, in the order of their
  // discovery.
  std::vector<BadSample> found() const;

  // Idempotent.
  void End();

 private:
  using Key = std::pair<std::string, int64_t>;  // dataset and logical index

  void Run();

  const Options options_;

  Mutex asking_;  // held while asking
  // How often the servers had met a sample when it was looked at first.
  std::map<Key, uint64_t> before_ MR_GUARDED_BY(asking_);

  mutable Mutex mu_;
  CondVar changed_;
  bool ending_ MR_GUARDED_BY(mu_) = false;
  std::set<Key> known_ MR_GUARDED_BY(mu_);
  std::vector<BadSample> found_ MR_GUARDED_BY(mu_);

  NamedThread thread_;
};

// "photos shard a.mdb row 17"; "photos sample 17" when the row is unknown.
std::string PlaceOf(const BadSample& bad);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BAD_SAMPLE_WATCH_H_
