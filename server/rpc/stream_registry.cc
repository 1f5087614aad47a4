#include "server/rpc/stream_registry.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/rpc/batch_stream.h"
#include "server/rpc/running_since.h"

namespace millrace {

StreamRegistry::StreamRegistry(absl::Duration send_timeout,
                               std::shared_ptr<RpcCounters> counters)
    : send_timeout_(send_timeout),
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
}

void StreamRegistry::Remove(BatchStream* stream) {
  MutexLock lock(mu_);
  streams_.erase(stream);
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
    // A stream that is found here is alive: OnDone removes it first.
    MutexLock lock(mu_);
    for (BatchStream* stream : streams_) {
      if (auto end = stream->Stop(status)) ends.push_back(std::move(end));
    }
  }
  for (const BatchStream::Deferred& end : ends) end();
}

void StreamRegistry::Watch() {
  // A blocked write is noticed at most an eighth of the timeout late.
  const absl::Duration tick =
      std::clamp(send_timeout_ / 8, absl::Milliseconds(10), absl::Seconds(1));
  RunningSince running(absl::ToChronoNanoseconds(tick),
                       std::chrono::steady_clock::now());
  while (true) {
    {
      MutexLock lock(mu_);
      const SteadyTime wake = SteadyDeadline(tick);
      while (!closing_ && changed_.WaitUntil(lock, wake)) {
      }
      if (closing_) return;
    }
    CancelBlocked(running.Look(std::chrono::steady_clock::now()));
  }
}

uint64_t StreamRegistry::Blocked(absl::Duration timeout) {
  MutexLock lock(mu_);
  uint64_t blocked = 0;
  for (const BatchStream* stream : streams_) {
    if (stream->IsBlockedFor(timeout)) ++blocked;
  }
  return blocked;
}

void StreamRegistry::CancelBlocked(SteadyTime since) {
  const absl::Status status = absl::UnavailableError(absl::StrCat(
      "the client has taken nothing for ", absl::FormatDuration(send_timeout_),
      "; the server dropped its batches, ask for them again"));
  std::vector<std::pair<BatchStream::Deferred, std::string>> blocked;
  {
    MutexLock lock(mu_);
    for (BatchStream* stream : streams_) {
      if (auto end = stream->StopIfBlockedFor(send_timeout_, since, status)) {
        blocked.emplace_back(std::move(end), stream->peer());
      }
    }
  }
  for (const auto& [end, peer] : blocked) {
    counters_->cancelled_sends.fetch_add(1);
    MR_LOG(WARNING) << "client " << peer << " has taken nothing for "
                    << send_timeout_ << ": its call is cancelled";
    end();
  }
}

}  // namespace millrace
