// LeaseServer is how the programs of one user share a data server that nobody
// administers. A program connects to a Unix socket and asks for a dataset; the
// connection is its lease. The system closes the connection when the program
// ends, however it ends. After the last lease the server ends.
//
// Only processes of the server's own user are served. A peer that says nothing,
// sends something else, or does not read is disconnected and disturbs no other.
//
// Run() serves on the calling thread; Stop() may be called from any thread.
// Owns a few threads that open datasets, which may take long.
//
//   MR_ASSIGN_OR_RETURN(auto leases, LeaseServer::Start(options));
//   leases->Run();        // until the last lease has been over for a while

#ifndef MILLRACE_SERVER_LEASE_LEASE_SERVER_H_
#define MILLRACE_SERVER_LEASE_LEASE_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/socket_file.h"
#include "common/thread_pool.h"
#include "common/unique_fd.h"
#include "server/lease/lease_protocol.h"
#include "server/lease/leased_datasets.h"

namespace millrace::lease {

class LeaseServer {
 public:
  struct Options {
    std::string socket;   // path, or "@name" in the abstract namespace
    std::string address;  // HOST:PORT where holders get their batches
    LeasedDatasets::Options datasets;
    // Time without a lease after which Run() returns, also at the start.
    absl::Duration linger = absl::Seconds(10);
    // Upper bound of connections; further ones are refused.
    size_t max_leases = 1024;
    // Datasets that one connection may hold.
    size_t max_datasets_each = 64;
    // Time in which a connection must send its first request.
    absl::Duration greeting_time = absl::Seconds(10);
    // Interval of the signs of life while a dataset is being opened.
    absl::Duration sign_interval = absl::Seconds(1);
  };

  // As ListenForPackets().
  static absl::StatusOr<std::unique_ptr<LeaseServer>> Start(Options options);

  // Waits for the threads that open datasets: see AwaitOpening().
  ~LeaseServer();
  LeaseServer(const LeaseServer&) = delete;
  LeaseServer& operator=(const LeaseServer&) = delete;

  // Serves leases until there was none for `linger` (true), or Stop() (false).
  // Then nobody can connect any more, and all leases have ended. Call it once.
  bool Run();

  // Idempotent; does not wait for Run().
  void Stop();

  // After Run(): whether no dataset is being opened, waiting for that. A thread
  // may hang in a file system that does not answer; the process should then end
  // without the destructor.
  bool AwaitOpening(absl::Duration timeout);

 private:
  struct Lease {
    uint64_t id = 0;
    UniqueFd socket;  // not ok(): the lease is over
    SteadyTime since;
    bool greeted = false;
    // A dataset is being opened for it.
    bool waits = false;
    SteadyTime next_sign;  // of life, if it waits
    std::vector<std::string> names;
  };
  // What an opening thread has found.
  struct Answer {
    uint64_t lease = 0;
    absl::StatusOr<LeasedDataset> dataset;
  };

  LeaseServer(Options options, UniqueFd listener, UniqueFd wake);

  // False: no further connection can be accepted now.
  bool Accept();
  void Read(Lease& lease);
  void HandleRequest(Lease& lease, absl::string_view packet, UniqueFd attached);
  void HandleAnswers();
  void Tick(SteadyTime now);
  // The lease is over if the packet cannot be sent.
  void Send(Lease& lease, absl::string_view packet, int attached = -1);
  void End(Lease& lease);
  void Wake();
  bool stopping();

  const Options options_;
  UniqueFd listener_;
  std::optional<SocketFile> socket_file_;
  const UniqueFd wake_;
  LeasedDatasets datasets_;

  // Of the thread in Run().
  std::vector<Lease> leases_;
  uint64_t last_id_ = 0;
  // Until then no connection is accepted: the last attempt found no descriptor.
  SteadyTime accept_from_;

  Mutex mu_;
  CondVar none_opening_;
  bool stopping_ MR_GUARDED_BY(mu_) = false;
  size_t opening_ MR_GUARDED_BY(mu_) = 0;
  std::vector<Answer> answers_ MR_GUARDED_BY(mu_);

  ThreadPool openers_;  // last: its threads use all of the above
};

}  // namespace millrace::lease

#endif  // MILLRACE_SERVER_LEASE_LEASE_SERVER_H_
