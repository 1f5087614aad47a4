#include "server/rpc/stream_registry.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "proto/blocked_call.h"
#include "server/rpc/batch_stream.h"
#include "server/rpc/running_since.h"

namespace millrace::rpc {
namespace {

// Interval between calls of Options::tend.
constexpr std::chrono::seconds kTendInterval{1};

}  // namespace

StreamRegistry::StreamRegistry(Options options,
                               std::shared_ptr<StatusCounters> counters)
    : options_(std::move(options)),
      counters_(std::move(counters)),
      watcher_([this] { Watch(); }) {}

StreamRegistry::~StreamRegistry() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
    MR_CHECK(streams_.empty()) << "a stream outlives its server";
  }
  watcher_.join();
}

void StreamRegistry::Add(BatchStream* stream) {
  MutexLock lock(mu_);
  streams_.insert(stream);
  had_streams_ = true;
}

void StreamRegistry::Remove(BatchStream* stream) {
  MutexLock lock(mu_);
  streams_.erase(stream);
  // Notified under the lock: AwaitEmpty() may return at once and the registry
  // be destroyed, but not before this thread has released the lock.
  if (streams_.empty()) changed_.NotifyAll();
}

bool StreamRegistry::AwaitEmpty(absl::Duration timeout) {
  const SteadyTime deadline = SteadyDeadline(timeout);
  MutexLock lock(mu_);
  while (!streams_.empty()) {
    if (!changed_.WaitUntil(lock, deadline)) return streams_.empty();
  }
  return true;
}

void StreamRegistry::StopAll(const absl::Status& status) {
  std::vector<BatchStream::Deferred> ends;
  {
    // A stream in the registry is alive: its OnDone waits for this lock to
    // remove the stream before it deletes it.
    MutexLock lock(mu_);
    for (BatchStream* stream : streams_) {
      if (auto end = stream->Stop(status)) ends.push_back(std::move(end));
    }
  }
  for (const BatchStream::Deferred& end : ends) end();
}

// The registry's thread. Each round decides under mu_ and the locks of the
// streams (in this order) and collects what is to be done as Deferred; those
// run after mu_ is released, because they may end a stream, whose OnDone takes
// mu_ to remove itself.
void StreamRegistry::Watch() {
  // A blocked write is noticed at most an eighth of its timeout late, a slow
  // reader at most a quarter.
  const absl::Duration tick = std::clamp(
      std::min(options_.send_timeout / 8, options_.batch_timeout / 4),
      absl::Milliseconds(10), absl::Seconds(1));
  SteadyTime now = std::chrono::steady_clock::now();
  RunningSince running(absl::ToChronoNanoseconds(tick), now);
  SteadyTime tended = now;
  while (true) {
    {
      MutexLock lock(mu_);
      const SteadyTime wake = SteadyDeadline(tick);
      while (!closing_ && changed_.WaitUntil(lock, wake)) {
      }
      if (closing_) return;
    }
    now = std::chrono::steady_clock::now();
    // Time in which the whole process was stopped (a debugger, a suspended
    // machine) does not count, because no client could read then.
    const SteadyTime since = running.Look(now);
    // In this order: a call whose client reads nothing is ended as a whole, and
    // so are its batches, before slow readers lose single ones. Then shares
    // that became free wake the clients that wait for them, and what is left is
    // reported.
    CancelBlocked(since);
    MarkSlow(now, since);
    TakeBackExcess(now, since);
    for (const auto& on_room : options_.shares->Look()) on_room();
    SayFullShares(now, since);
    if (now - tended < kTendInterval) continue;
    tended = now;
    bool idle;
    {
      MutexLock lock(mu_);
      // Idle means no call since the last time, and not only none at this
      // moment: short calls between two looks count.
      idle = !had_streams_;
      had_streams_ = !streams_.empty();
    }
    if (options_.tend != nullptr) options_.tend(idle);
  }
}

void StreamRegistry::MarkSlow(SteadyTime now, SteadyTime since) {
  const SteadyTime slow =
      now - absl::ToChronoNanoseconds(options_.batch_timeout);
  std::vector<BatchStream::Deferred> wakes;
  {
    MutexLock lock(mu_);
    for (BatchStream* stream : streams_) {
      // Taking the stream's lock under mu_: the stream cannot be deleted before
      // Remove() gets mu_.
      if (stream->WaitsSince(since) > slow) continue;
      if (auto wake = stream->SetSlow()) wakes.push_back(std::move(wake));
    }
  }
  for (const BatchStream::Deferred& wake : wakes) wake();
}

void StreamRegistry::TakeBackExcess(SteadyTime now, SteadyTime since) {
  // Number of batches to take back: one for each waiting batch.
  const uint64_t waiting =
      options_.budget->waiting() + options_.shares->starving();
  // Nobody waits, so a slow reader harms nobody and keeps its batches.
  if (waiting == 0) return;
  const absl::Status status = absl::UnavailableError(
      "the server dropped this batch, because the client reads slowly and "
      "other clients wait for memory: request it again");
  const SteadyTime slow =
      now - absl::ToChronoNanoseconds(options_.batch_timeout);
  std::vector<BatchStream::Deferred> ends;
  uint64_t taken = 0;
  std::string peer;  // the slowest
  {
    MutexLock lock(mu_);
    std::vector<std::pair<SteadyTime, BatchStream*>> readers;
    for (BatchStream* stream : streams_) {
      const SteadyTime waits = stream->WaitsSince(since);
      if (waits <= slow) readers.emplace_back(waits, stream);
    }
    std::sort(readers.begin(), readers.end());
    // Batches that can be taken back without ending a call come first, from all
    // slow readers. If they are not enough, calls are ended.
    const auto take_back = [&](BatchStream::Excess excess) {
      for (const absl::Status& end : {absl::OkStatus(), status}) {
        for (const auto& [waits, stream] : readers) {
          if (taken >= waiting) return;
          if (auto free =
                  stream->TakeBack(excess, waiting - taken, end, &taken)) {
            if (peer.empty()) peer = stream->peer();
            ends.push_back(std::move(free));
          }
        }
      }
    };
    take_back(BatchStream::Excess::kOfClient);
    // Here a connection may lose its only batch, and it gets no other one
    // before its host's share has room. So the batch that began to wait last is
    // taken back, and the older ones are sent completely.
    std::reverse(readers.begin(), readers.end());
    take_back(BatchStream::Excess::kOfHost);
  }
  // Counted before the memory is free, so that an observer of a batch in that
  // memory finds the count.
  counters_->revoked_batches.fetch_add(taken);
  for (const BatchStream::Deferred& end : ends) end();
  if (taken == 0) return;
  MR_LOG_EVERY(INFO, absl::Seconds(10))
      << CountText(taken, "batch", "batches") << " taken back from "
      << CountText(ends.size(), "call") << " of slow readers, the slowest "
      << peer << ", because "
      << CountText(waiting, "other batch waits", "other batches wait")
      << " for memory (" << counters_->revoked_batches.load()
      << " since the start)";
}

std::vector<FullShare> StreamRegistry::FullShares() const {
  const SteadyTime before = std::chrono::steady_clock::now() -
                            absl::ToChronoNanoseconds(options_.batch_timeout);
  std::vector<FullShare> shares;
  for (const ClientShares::FullHost& host :
       options_.shares->FullHosts(before, SteadyTime::min())) {
    shares.push_back(Describe(host));
  }
  return shares;
}

FullShare StreamRegistry::Describe(const ClientShares::FullHost& host) const {
  FullShare share;
  share.set_peer(host.host);
  share.set_waiting_clients(host.clients);
  share.set_connections(host.connections);
  share.set_held_bytes(host.held_bytes);
  share.set_share_bytes(host.share_bytes);
  if (options_.budget_for == nullptr) return share;
  // An eighth is added: with a larger budget the server may use more threads,
  // and a batch then takes slightly more memory.
  share.set_advised_budget_bytes(
      options_.budget_for(host.needed_bytes + host.needed_bytes / 8));
  return share;
}

void StreamRegistry::SayFullShares(SteadyTime now, SteadyTime since) {
  const SteadyTime before =
      now - absl::ToChronoNanoseconds(options_.batch_timeout);
  const auto hosts = options_.shares->FullHosts(before, since);
  if (hosts.empty()) return;
  const ClientShares::FullHost& host = hosts[0];
  const FullShare share = Describe(host);
  MR_LOG_EVERY(WARNING, absl::Seconds(10))
      << CountText(share.waiting_clients(), "client") << " of " << share.peer()
      << (share.waiting_clients() == 1 ? " gets" : " get")
      << " no batches: the " << CountText(share.connections(), "connection")
      << " of that address hold " << FormatByteSize(share.held_bytes())
      << " of batches, its share is " << FormatByteSize(share.share_bytes())
      << " of the memory budget of "
      << FormatByteSize(options_.budget->capacity())
      << ", a batch that waits needs " << FormatByteSize(host.batch_bytes)
      << ", and "
      << (host.slow_connections == 0
              ? "none of their clients reads slowly"
              : absl::StrCat(host.slow_connections,
                             host.slow_connections == 1
                                 ? " of their clients reads slowly"
                                 : " of their clients read slowly"))
      << "; "
      << (share.advised_budget_bytes() == 0
              ? "raise --memory_budget"
              : absl::StrCat("raise --memory_budget to ",
                             share.advised_budget_bytes() >> 20, "MiB"))
      << ", or bound the connections with --max_connections_per_peer"
      << (hosts.size() == 1
              ? ""
              : absl::StrCat(" (",
                             CountText(hosts.size() - 1, "more address",
                                       "more addresses"),
                             ": see `millrace status`)"));
}

uint64_t StreamRegistry::Blocked(absl::Duration timeout) {
  MutexLock lock(mu_);
  uint64_t blocked = 0;
  for (const BatchStream* stream : streams_) {
    if (stream->IsBlockedFor(timeout)) ++blocked;
  }
  return blocked;
}

std::map<std::string, uint64_t> StreamRegistry::CallsByPeer() {
  std::map<std::string, uint64_t> calls;
  MutexLock lock(mu_);
  for (const BatchStream* stream : streams_) ++calls[stream->peer()];
  return calls;
}

void StreamRegistry::CancelBlocked(SteadyTime since) {
  const absl::Status status = absl::UnavailableError(absl::StrCat(
      kTookNothing, absl::FormatDuration(options_.send_timeout),
      "; the server dropped the batches of the call: request them again"));
  std::vector<std::pair<BatchStream::Deferred, std::string>> blocked;
  {
    MutexLock lock(mu_);
    for (BatchStream* stream : streams_) {
      if (auto end =
              stream->StopIfBlockedFor(options_.send_timeout, since, status)) {
        blocked.emplace_back(std::move(end), stream->peer());
      }
    }
  }
  for (const auto& [end, peer] : blocked) {
    counters_->cancelled_sends.fetch_add(1);
    MR_LOG_EVERY(WARNING, absl::Seconds(1))
        << "client " << peer << " has read nothing for "
        << options_.send_timeout << ": the server cancels its call ("
        << counters_->cancelled_sends.load() << " since the start)";
    end();
  }
}

}  // namespace millrace::rpc
