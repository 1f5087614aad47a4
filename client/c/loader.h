// Loader is a loader of millrace.h: it opens a HostLoader on a thread of its
// own, so that no caller has to wait for servers, and hands its batches out.
//
// Threads: any thread may call any method; Next() one at a time, a second one
// is refused. The destructor needs all calls to have ended (CallGate). Close()
// and the destructor join the thread.
//
// States: opening, then open or failed; closed from Close() on. `host_` is set
// once, when the loader becomes open, and lives as long as the Loader.
//
//   MR_ASSIGN_OR_RETURN(LoadRequest request, MakeLoadRequest(values));
//   auto loader = std::make_unique<Loader>(std::move(request));
//   MR_ASSIGN_OR_RETURN(const bool open, loader->WaitOpen(absl::Seconds(1)));

#ifndef MILLRACE_CLIENT_C_LOADER_H_
#define MILLRACE_CLIENT_C_LOADER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/c/batch.h"
#include "client/c/error.h"
#include "client/c/options.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/unary_call.h"
#include "common/mutex.h"
#include "common/thread.h"

namespace millrace::c {

class Loader {
 public:
  explicit Loader(LoadRequest request);
  ~Loader() { Close(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // False: still opening after `timeout`. The error of opening; Cancelled:
  // closed.
  Ready WaitOpen(absl::Duration timeout);

  // Null: no batch within `timeout`.
  absl::StatusOr<std::unique_ptr<millrace_batch>> Next(absl::Duration timeout);

  Position position();
  absl::Status Seek(Position position);
  absl::Status Offer(void* data, uint64_t bytes);
  absl::StatusOr<uint32_t> Wanted();

  // Fills all members but struct_size. The texts are the loader's.
  absl::StatusOr<millrace_plan> Plan();
  std::string Stats();
  // Of the time since the last call.
  std::string WhereTheTimeWent();
  // Cancelled: by CancelExplain(), or closed.
  absl::StatusOr<std::string> Explain(Position position,
                                      absl::Duration timeout);
  // Ends the calls of Explain() that have begun.
  void CancelExplain();

  void Close();

 private:
  // What Plan() points to, and what batches share.
  struct Opened {
    std::unique_ptr<HostLoader> host;
    std::shared_ptr<const BatchPlan> batch_plan;
    std::string plan_hash;
    std::string plan_json;
  };

  // On the thread that opens.
  void Open();
  absl::StatusOr<std::unique_ptr<Opened>> OpenHost();

  // Waits until the loader is open. Null: not before `deadline`.
  absl::StatusOr<Opened*> AwaitOpen(SteadyTime deadline);
  // The open loader, also when it is closed by now. FailedPrecondition: it is
  // not open yet.
  absl::StatusOr<Opened*> GetOpened();

  LoadRequest request_;  // its spec is completed by the thread that opens
  const absl::Time opened_at_;
  receive::CancelFlag cancelled_{false};
  std::atomic<bool> in_next_{false};

  Mutex mu_;
  CondVar changed_;  // opened_, failure_ or closed_ has changed
  std::unique_ptr<Opened> opened_ MR_GUARDED_BY(mu_);
  absl::Status failure_ MR_GUARDED_BY(mu_);
  bool closed_ MR_GUARDED_BY(mu_) = false;
  // Of the calls of Explain() that have begun; each call owns its flag.
  std::set<receive::CancelFlag*> explaining_ MR_GUARDED_BY(mu_);
  // The last snapshot of WhereTheTimeWent().
  HostLoader::Stats told_ MR_GUARDED_BY(mu_);
  absl::Time told_at_ MR_GUARDED_BY(mu_);

  // Held while a Close() ends the threads, so that a second one waits for it.
  Mutex close_mu_;
  NamedThread opener_ MR_GUARDED_BY(close_mu_);
};

// CallGate counts the calls that are running, so that an object is not deleted
// under them.
class CallGate {
 public:
  class Call {
   public:
    explicit Call(CallGate& gate) : gate_(gate) {
      MutexLock lock(gate_.mu_);
      ++gate_.running_;
    }
    ~Call() {
      MutexLock lock(gate_.mu_);
      if (--gate_.running_ == 0) gate_.empty_.NotifyAll();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallGate& gate_;
  };

  void WaitUntilEmpty() {
    MutexLock lock(mu_);
    while (running_ > 0) empty_.Wait(lock);
  }

 private:
  Mutex mu_;
  CondVar empty_;
  int running_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::c

#endif  // MILLRACE_CLIENT_C_LOADER_H_
