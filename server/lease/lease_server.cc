#include "server/lease/lease_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/packet_socket.h"
#include "common/status_macros.h"

namespace millrace::lease {
namespace {

// Interval in which times are looked at while there are connections. A choice,
// short compared with the times.
constexpr int kTickMs = 100;
// Datasets that are opened at the same time. A few, so that a file system that
// does not answer holds up only its own datasets. A choice.
constexpr uint32_t kOpeners = 8;
// Connections that are accepted before the leases are looked at again: as many
// as the system lets wait (common/packet_socket.cc). A connection beyond those
// that wait is refused, so that programs which start at the same time would
// have to try again and again.
constexpr int kAcceptsAtOnce = 64;

SteadyTime Now() { return std::chrono::steady_clock::now(); }

std::chrono::nanoseconds Nanos(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseServer>> LeaseServer::Start(
    Options options) {
  MR_ASSIGN_OR_RETURN(UniqueFd listener, ListenForPackets(options.socket));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot serve leases: eventfd: ", strerror(errno)));
  }
  // Not make_unique, because the constructor is private.
  return std::unique_ptr<LeaseServer>(new LeaseServer(
      std::move(options), std::move(listener), std::move(wake)));
}

LeaseServer::LeaseServer(Options options, UniqueFd listener, UniqueFd wake)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      socket_file_(FindSocketFile(options_.socket)),
      wake_(std::move(wake)),
      datasets_(options_.datasets),
      // As many as are let in (HandleRequest), so there is always room.
      openers_("mr-lease", kOpeners, options_.max_leases) {}

LeaseServer::~LeaseServer() = default;

bool LeaseServer::stopping() {
  MutexLock lock(mu_);
  return stopping_;
}

// Any thread. Run() looks at `stopping_` before each poll(); Wake() ends a
// poll() that has begun already, so Stop() takes effect at once.
void LeaseServer::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  Wake();
}

void LeaseServer::Wake() {
  const uint64_t one = 1;
  // Fails only if the counter is full, and poll() returns then.
  static_cast<void>(!write(wake_.get(), &one, sizeof(one)));
}

// Any thread, after Run(). No request is accepted any more, so `opening_` only
// falls.
bool LeaseServer::AwaitOpening(absl::Duration timeout) {
  const SteadyTime deadline = SteadyDeadline(timeout);
  MutexLock lock(mu_);
  while (opening_ > 0) {
    if (!none_opening_.WaitUntil(lock, deadline)) return opening_ == 0;
  }
  return true;
}

// The thread in Run() is the only one that uses leases_ and the sockets, so
// these need no lock. An opening thread gives its result in answers_ and wakes
// this thread; it never touches a lease, which may have ended while the dataset
// was opened.
bool LeaseServer::Run() {
  SteadyTime unused_since = Now();
  bool unused = false;
  std::vector<pollfd> polled;
  while (!stopping()) {
    // polled[0] wakes the thread, polled[1] is the listener (-1: ignored by
    // poll()), and polled[i + 2] belongs to leases_[i]. Leases are erased and
    // added only after the iteration over polled.
    polled.clear();
    polled.push_back({wake_.get(), POLLIN, 0});
    polled.push_back({Now() >= accept_from_ ? listener_.get() : -1, POLLIN, 0});
    for (const Lease& lease : leases_) {
      polled.push_back({lease.socket.get(), POLLIN, 0});
    }
    // Times need no event of their own: the timeout of poll() is the tick.
    poll(polled.data(), polled.size(), kTickMs);
    if (polled[0].revents != 0) {
      // The counter is reset before answers_ is taken below: a Wake() that
      // comes between the two is seen by the next poll(), so no answer is left.
      uint64_t count = 0;
      static_cast<void>(!read(wake_.get(), &count, sizeof(count)));
    }
    for (size_t i = 2; i < polled.size(); ++i) {
      // Read() may end a lease but erases none, so the indices stay valid.
      if (polled[i].revents != 0) Read(leases_[i - 2]);
    }
    HandleAnswers();
    const SteadyTime now = Now();
    Tick(now);
    std::erase_if(leases_, [](const Lease& l) { return !l.socket.ok(); });
    for (int i = 0; i < kAcceptsAtOnce && polled[1].revents != 0; ++i) {
      if (!Accept()) break;
    }
    // A connection counts as a lease before its first request: the server does
    // not end between the connect() of a program and its request.
    if (!leases_.empty()) unused_since = now;
    unused = now - unused_since >= Nanos(options_.linger);
    if (unused) break;
  }
  // In this order: a program that finds no listener starts another server at
  // the same path, whose socket file must stay.
  if (socket_file_.has_value()) {
    RemoveSocketFile(options_.socket, *socket_file_);
  }
  listener_.Reset();
  for (Lease& lease : leases_) End(lease);
  leases_.clear();
  return unused;
}

void LeaseServer::Tick(SteadyTime now) {
  for (Lease& lease : leases_) {
    if (!lease.socket.ok()) continue;
    if (!lease.greeted && now - lease.since > Nanos(options_.greeting_time)) {
      End(lease);
    } else if (lease.waits && now >= lease.next_sign) {
      lease.next_sign = now + Nanos(options_.sign_interval);
      Send(lease, EncodeLeaseOpening());
    }
  }
  datasets_.CloseUnused(now);
}

bool LeaseServer::Accept() {
  absl::StatusOr<UniqueFd> socket = AcceptPackets(listener_.get());
  // No connection waits, or it ended before it was accepted.
  if (absl::IsUnavailable(socket.status())) return false;
  if (!socket.ok()) {
    // The connection still waits, so poll() would return at once, again and
    // again.
    accept_from_ = Now() + std::chrono::milliseconds(kTickMs);
    MR_LOG_EVERY(WARNING, absl::Seconds(30))
        << "programs cannot take leases: " << socket.status().message();
    return false;
  }
  const absl::StatusOr<uid_t> user = PeerUser(socket->get());
  absl::Status refused;
  if (!user.ok()) {
    refused = user.status();
  } else if (*user != geteuid()) {
    refused = absl::PermissionDeniedError(
        absl::StrCat("this data server belongs to user ", geteuid(),
                     " and serves no process of user ", *user));
  } else if (leases_.size() >= options_.max_leases) {
    refused = absl::ResourceExhaustedError(absl::StrCat(
        CountText(leases_.size(), "lease"),
        " of this data server are taken, its maximum: close loaders"));
  }
  if (!refused.ok()) {
    MR_LOG_EVERY(WARNING, absl::Seconds(1)) << refused.message();
    SendPacket(socket->get(), EncodeLeaseError(refused)).IgnoreError();
    return true;  // closed
  }
  Lease& lease = leases_.emplace_back();
  lease.id = ++last_id_;
  lease.socket = *std::move(socket);
  lease.since = Now();
  return true;
}

void LeaseServer::Read(Lease& lease) {
  // One byte more than the longest packet, so that a longer one is recognised.
  char packet[kMaxLeasePacketBytes + 1];
  size_t bytes = 0;
  UniqueFd attached;
  switch (ReceivePacket(lease.socket.get(), packet, sizeof(packet), &bytes,
                        &attached)) {
    case Received::kNothing:
      return;
    case Received::kEnd:
      End(lease);
      return;
    case Received::kPacket:
      HandleRequest(lease, {packet, bytes}, std::move(attached));
      return;
  }
}

void LeaseServer::HandleRequest(Lease& lease, absl::string_view packet,
                                UniqueFd attached) {
  absl::StatusOr<LeaseRequest> request =
      ParseLeaseRequest(packet, std::move(attached));
  if (request.ok() && lease.waits) {
    request = absl::FailedPreconditionError(
        "a second request before the first is answered");
  }
  if (!request.ok()) {  // a peer with another protocol, or a broken one
    MR_LOG_EVERY(WARNING, absl::Seconds(1))
        << "a lease is ended: " << request.status().message();
    Send(lease, EncodeLeaseError(request.status()));
    End(lease);
    return;
  }
  lease.greeted = true;
  if (lease.names.size() >= options_.max_datasets_each) {
    Send(lease, EncodeLeaseError(absl::ResourceExhaustedError(
                    absl::StrCat("a lease holds ", options_.max_datasets_each,
                                 " datasets at most: take another lease"))));
    return;
  }
  bool room = false;
  {
    MutexLock lock(mu_);
    // Requests of leases that have ended since count as well.
    room = opening_ < options_.max_leases;
    if (room) ++opening_;
  }
  if (!room) {
    Send(lease, EncodeLeaseError(absl::ResourceExhaustedError(
                    "too many datasets wait to be opened: try again")));
    return;
  }
  lease.waits = true;
  lease.next_sign = Now() + Nanos(options_.sign_interval);
  // The task gets the id of the lease and not the lease, because leases_ moves
  // its elements and the lease may end before the task does.
  openers_.Submit([this, id = lease.id, request = *std::move(request)] {
    absl::StatusOr<LeasedDataset> dataset = datasets_.Acquire(request);
    {
      MutexLock lock(mu_);
      // In one critical section: AwaitOpening() must not find `opening_` at 0
      // while the answer, which holds the dataset, is missing.
      answers_.push_back({id, std::move(dataset)});
      --opening_;
      none_opening_.NotifyAll();
    }
    Wake();
  });
}

void LeaseServer::HandleAnswers() {
  std::vector<Answer> answers;
  {
    MutexLock lock(mu_);
    answers.swap(answers_);
  }
  // An answer that is ok has counted a holder of its dataset. The lease takes
  // it over, with the name in Lease::names, or the holder is released here.
  for (Answer& answer : answers) {
    Lease* asker = nullptr;
    for (Lease& lease : leases_) {
      if (lease.id == answer.lease && lease.socket.ok()) asker = &lease;
    }
    if (asker == nullptr) {  // over in the meantime
      if (answer.dataset.ok()) datasets_.Release(answer.dataset->name);
      continue;
    }
    asker->waits = false;
    if (!answer.dataset.ok()) {
      Send(*asker, EncodeLeaseError(answer.dataset.status()));
      continue;
    }
    asker->names.push_back(answer.dataset->name);
    const auto& arrays = answer.dataset->arrays;
    Send(*asker, EncodeLeaseAdded(options_.address, *answer.dataset),
         arrays == nullptr ? -1 : arrays->get());
  }
}

void LeaseServer::Send(Lease& lease, absl::string_view packet, int attached) {
  if (!lease.socket.ok()) return;
  if (SendPacket(lease.socket.get(), packet, attached).ok()) return;
  End(lease);  // gone, or it does not read
}

void LeaseServer::End(Lease& lease) {
  // A socket that is not ok() marks the lease as over; Run() erases it later.
  // Idempotent: the names are released once.
  lease.socket.Reset();
  for (const std::string& name : lease.names) datasets_.Release(name);
  lease.names.clear();
}

}  // namespace millrace::lease
