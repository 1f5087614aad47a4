#include "client/receive/same_host_peer.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/prefetch/retry_schedules.h"
#include "common/logging.h"

namespace millrace::receive {

void SameHostPeer::Poll() {
  if (link_ == nullptr) return;
  switch (link_->Poll()) {
    case local::ServerLink::State::kGreeting:
      return;
    case local::ServerLink::State::kReady:
      if (!ready_) {
        MR_LOG(INFO) << "server " << address_
                     << " is on this machine; batches come in shared memory";
      }
      ready_ = true;
      shared_with_ = link_->nonce();
      said_ = false;
      problem_ = absl::OkStatus();
      return;
    case local::ServerLink::State::kEnded:
      problem_ = link_->status();
      nonce_ = link_->nonce();
      retry_at_ = SteadyDeadline(prefetch::kSharedMemoryRetry.Delay());
      link_ = nullptr;
      ready_ = false;
      Say(problem_);
      return;
  }
}

std::shared_ptr<local::ServerLink> SameHostPeer::Prepare(
    GetBatchesRequest* request, uint64_t call) {
  request->clear_same_host();
  if (wish_ == SameHost::kOff) return nullptr;
  Poll();
  SameHostCall& ask = *request->mutable_same_host();
  if (link_ == nullptr || !ready_) return nullptr;
  ask.set_link(link_->id().data(), link_->id().size());
  ask.set_call(call);
  return link_;
}

absl::Status SameHostPeer::TakeOffer(std::optional<absl::string_view> bytes) {
  if (wish_ == SameHost::kOff || link_ != nullptr) return absl::OkStatus();
  SameHostOffer offer;
  if (!bytes.has_value()) {
    problem_ = absl::UnavailableError(
        "the server does not offer shared memory: it has an earlier version, "
        "or was started with --local_socket=off");
  } else if (!offer.ParseFromArray(bytes->data(),
                                   static_cast<int>(bytes->size()))) {
    problem_ =
        absl::DataLossError("the server's offer of shared memory is invalid");
  } else if (problem_.ok() || offer.nonce() != nonce_ ||
             std::chrono::steady_clock::now() >= retry_at_) {
    nonce_ = offer.nonce();
    auto link = local::ServerLink::Connect(offer);
    problem_ = link.status();
    if (link.ok()) {
      link_ = *std::move(link);
    } else {
      retry_at_ = SteadyDeadline(prefetch::kSharedMemoryRetry.Delay());
      if (absl::IsUnavailable(problem_)) {
        problem_ = absl::UnavailableError(
            absl::StrCat("the server is on another machine or in another "
                         "network namespace (",
                         problem_.message(), ")"));
      }
    }
  }
  if (problem_.ok()) return absl::OkStatus();
  // A server that has shared memory before also ends a link when it needs the
  // memory for others. That is no reason to leave it out.
  const bool shared_before = bytes.has_value() && !offer.nonce().empty() &&
                             offer.nonce() == shared_with_;
  if (wish_ != SameHost::kRequire || shared_before) {
    Say(problem_);
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "same_host requires shared memory, but this server cannot share it: ",
      problem_.message(),
      "; run client and server on one machine, or set same_host to auto"));
}

void SameHostPeer::Say(const absl::Status& why) {
  if (std::exchange(said_, true)) return;
  MR_LOG(WARNING) << "no shared memory with server " << address_ << ": "
                  << why.message() << "; its batches come over the network";
}

}  // namespace millrace::receive
