#include "server/local/client_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/packet_socket.h"

namespace millrace::local {
namespace {

// Upper bound of ended_early_. A client gives up few calls at a time, and the
// list must not grow with its messages. A choice.
constexpr size_t kMaxEndedEarly = 1024;

SteadyTime Now() { return std::chrono::steady_clock::now(); }

}  // namespace

// The payload memory of one call, which uses the link. The batches of the call
// hold this object, so it is destroyed with the last of them.
class ClientLink::Call final : public batch::PayloadMemory {
 public:
  Call(std::shared_ptr<ClientLink> link, uint64_t number)
      : link_(std::move(link)), number_(number) {}
  ~Call() override { link_->CallIsOver(number_); }

  uint8_t* Take(uint64_t bytes) override { return link_->Take(bytes); }
  void Give(uint8_t* data) override { link_->Give(data); }
  std::optional<Lent> Lend(uint8_t* data) override {
    return link_->Lend(data, number_, &sequence_);
  }
  void TakeBack(const Lent& lent) override { link_->TakeBack(lent); }

 private:
  const std::shared_ptr<ClientLink> link_;
  const uint64_t number_;
  // Number of announcements of this call; written in Lend() under the link's
  // lock.
  uint64_t sequence_ = 0;
};

ClientLink::ClientLink(UniqueFd socket, wire::SameHostId id,
                       std::shared_ptr<SharedMemoryLimits> limits)
    : socket_(std::move(socket)),
      id_(id),
      limits_(std::move(limits)),
      last_release_(Now()) {
  limits_->links().fetch_add(1);
}

ClientLink::~ClientLink() { End(); }

std::shared_ptr<batch::PayloadMemory> ClientLink::BeginCall(uint64_t call) {
  MutexLock lock(mu_);
  // The client's messages do not arrive over the call, so the client may have
  // given the call up before the call arrives.
  const auto early = std::find(ended_early_.begin(), ended_early_.end(), call);
  if (ended_ || early != ended_early_.end() || !calls_.insert(call).second) {
    return nullptr;
  }
  return std::make_shared<Call>(shared_from_this(), call);
}

void ClientLink::CallIsOver(uint64_t call) {
  MutexLock lock(mu_);
  calls_.erase(call);
  given_up_.erase(call);
}

uint8_t* ClientLink::Take(uint64_t bytes) {
  const uint64_t rounded = SealedMemory::Rounded(bytes);
  uint64_t link_bytes = 0;
  {
    MutexLock lock(mu_);
    if (ended_) return nullptr;
    // The slot was idle and belongs to this batch from here on. In the state
    // kFilling no other thread uses the memory, so it is written without the
    // lock.
    if (const auto slot = slots_.Take(rounded)) {
      return memory_.at(*slot).mapping.data();
    }
    if (slots_.size() + dropped_.size() >= SharedMemoryLimits::kMaxSlots) {
      return nullptr;
    }
    link_bytes = bytes_;
  }
  // Without the lock, because a reservation and a mapping take long. Two
  // threads may pass the checks at the same time: the limit for all links is
  // exact, but the limits of a link (its share, kMaxSlots) are not.
  Memory memory;
  if (!limits_->TryReserve(rounded, link_bytes, &memory.reservation)) {
    return nullptr;
  }
  UniqueFd file;
  absl::StatusOr<SealedMemory> made = SealedMemory::Create(rounded, &file);
  if (!made.ok()) {
    MR_LOG_EVERY(WARNING, absl::Seconds(30))
        << made.status().message()
        << "; the server sends the batches over the network instead";
    Forget(std::move(memory));
    return nullptr;
  }
  memory.mapping = *std::move(made);
  uint8_t* const data = memory.mapping.data();
  std::vector<Memory> over;
  {
    MutexLock lock(mu_);
    uint64_t slot = 0;
    absl::Status sent = absl::CancelledError("the link has ended");
    if (!ended_) {
      slot = slots_.Add(rounded);
      // Sent before any announcement of the slot, which goes over gRPC. If the
      // client sees the announcement first, it reads this socket. The slot is
      // in the table before, so that the client's answer finds it.
      sent = SendPacket(socket_.get(),
                        wire::EncodeSameHost({.kind = wire::SameHostKind::kSlot,
                                              .slot = slot,
                                              .number = rounded}),
                        file.get());
      if (!sent.ok()) slots_.Remove(slot);
    }
    if (sent.ok()) {
      bytes_ += rounded;
      memory_[slot] = std::move(memory);
      return data;
    }
    over.push_back(std::move(memory));
  }
  ForgetAll(std::move(over));
  return nullptr;
}

// A linear search: there are at most kMaxSlots slots.
std::optional<uint64_t> ClientLink::SlotAt(const uint8_t* data) {
  for (const auto& [slot, memory] : memory_) {
    if (memory.mapping.data() == data) return slot;
  }
  return std::nullopt;
}

void ClientLink::Give(uint8_t* data) {
  std::vector<Memory> over;
  {
    MutexLock lock(mu_);
    const auto slot = SlotAt(data);
    MR_CHECK(slot.has_value()) << "memory that is none of the link's";
    if (ended_) {
      // End() has left the removal to this thread.
      slots_.Remove(*slot);
      over.push_back(std::move(memory_.at(*slot)));
      memory_.erase(*slot);
    } else {
      slots_.Return(*slot, Now());
    }
  }
  ForgetAll(std::move(over));
}

std::optional<batch::PayloadMemory::Lent> ClientLink::Lend(uint8_t* data,
                                                           uint64_t call,
                                                           uint64_t* sequence) {
  MutexLock lock(mu_);
  if (ended_ || given_up_.count(call) > 0) return std::nullopt;
  const auto slot = SlotAt(data);
  MR_CHECK(slot.has_value()) << "memory that is none of the link's";
  limits_->batches_lent().fetch_add(1, std::memory_order_relaxed);
  return batch::PayloadMemory::Lent{
      *slot, slots_.Lend(*slot, call, ++*sequence, Now())};
}

void ClientLink::TakeBack(const batch::PayloadMemory::Lent& lent) {
  MutexLock lock(mu_);
  // The client may have ended the call in the meantime, which has made the slot
  // idle. Release() then correctly refuses the generation.
  if (!ended_) slots_.Release(lent.slot, lent.generation, Now()).IgnoreError();
}

absl::Status ClientLink::OnMessage(const wire::SameHostMessage& message) {
  std::vector<Memory> over;
  absl::Status status;
  {
    MutexLock lock(mu_);
    if (ended_) return absl::OkStatus();
    const SteadyTime now = Now();
    switch (message.kind) {
      case wire::SameHostKind::kRelease:
        status = slots_.Release(message.slot, message.number, now);
        if (status.ok()) last_release_ = now;
        break;
      case wire::SameHostKind::kEndCall:
        if (slots_.EndCall(message.slot, message.number, now)) {
          last_release_ = now;
        }
        // The slot field of this message contains the number of the call.
        if (calls_.count(message.slot) > 0) {
          given_up_.insert(message.slot);
        } else {
          ended_early_.push_back(message.slot);
          if (ended_early_.size() > kMaxEndedEarly) ended_early_.pop_front();
        }
        break;
      case wire::SameHostKind::kGone: {
        const auto it = dropped_.find(message.slot);
        if (it == dropped_.end()) {
          status = absl::InvalidArgumentError(
              absl::StrCat("slot ", message.slot,
                           " was unmapped by the client without a request"));
          break;
        }
        bytes_ -= it->second.bytes();
        over.push_back({{}, std::move(it->second)});
        dropped_.erase(it);
        break;
      }
      default:
        status = absl::InvalidArgumentError(
            absl::StrCat("the client sent a message of the unknown kind ",
                         static_cast<uint32_t>(message.kind)));
    }
    // The shares shrink when clients join. Idle slots above this link's share
    // are freed for the other links.
    if (status.ok() && limits_->AboveShare(bytes_)) {
      Drop(slots_.RemoveIdle(SteadyTime::max()), &over);
    }
  }
  ForgetAll(std::move(over));
  return status;
}

absl::Status ClientLink::Tick(absl::Duration timeout) {
  const bool pressed = limits_->Pressed();
  absl::Status status;
  std::vector<Memory> over;
  {
    MutexLock lock(mu_);
    if (ended_) return absl::OkStatus();
    const SteadyTime now = Now();
    const absl::Duration keep = pressed ? kKeepIdlePressed : kKeepIdle;
    Drop(slots_.RemoveIdle(now - absl::ToChronoNanoseconds(keep)), &over);
    // The client holds memory that it must give back. Otherwise the time starts
    // again.
    const bool held = slots_.lent() > 0 || !dropped_.empty();
    if (!held) last_release_ = now;
    if (pressed && held && absl::FromChrono(now - last_release_) >= timeout) {
      status = absl::DeadlineExceededError(
          absl::StrCat("the client returned none of ", slots_.lent(),
                       " batches for ", absl::FormatDuration(timeout),
                       " while other clients wait for memory"));
    }
    // Finds a client that gives back one slot after the other but keeps one of
    // them: at the slowest allowed pace, all slots take this time.
    const absl::Duration longest = timeout * SharedMemoryLimits::kMaxSlots;
    if (pressed && status.ok() &&
        absl::FromChrono(now - slots_.oldest_lending().value_or(now)) >=
            longest) {
      status = absl::DeadlineExceededError(absl::StrCat(
          "the client kept a batch for ", absl::FormatDuration(longest),
          " while other clients wait for memory"));
    }
  }
  ForgetAll(std::move(over));
  return status;
}

void ClientLink::Drop(const std::vector<uint64_t>& slots,
                      std::vector<Memory>* over) {
  for (const uint64_t slot : slots) {
    Memory memory = std::move(memory_.at(slot));
    memory_.erase(slot);
    memory.mapping = SealedMemory();
    if (SendPacket(socket_.get(),
                   wire::EncodeSameHost(
                       {.kind = wire::SameHostKind::kDrop, .slot = slot}))
            .ok()) {
      dropped_[slot] = std::move(memory.reservation);
    } else {
      bytes_ -= memory.reservation.bytes();
      over->push_back(std::move(memory));
    }
  }
}

void ClientLink::Forget(Memory memory) {
  // Unmapped before the reservation is released, because the budget may grant
  // the bytes at once.
  memory.mapping = SealedMemory();
  limits_->Release(std::move(memory.reservation));
}

void ClientLink::End() {
  std::vector<Memory> over;
  {
    MutexLock lock(mu_);
    if (ended_) return;
    ended_ = true;
    // Shut down and not closed, so that the descriptor's number stays in use
    // until the last call is gone and no thread writes to another socket.
    shutdown(socket_.get(), SHUT_RDWR);
    for (auto it = memory_.begin(); it != memory_.end();) {
      // A thread is writing to the slot; that thread removes it (Give()).
      if (slots_.filling(it->first)) {
        ++it;
        continue;
      }
      slots_.Remove(it->first);
      over.push_back(std::move(it->second));
      it = memory_.erase(it);
    }
    for (auto& [slot, reservation] : dropped_) {
      over.push_back({{}, std::move(reservation)});
    }
    dropped_.clear();
  }
  // Once for each link, like the increment in the constructor: ended_ was false
  // above.
  limits_->links().fetch_sub(1);
  ForgetAll(std::move(over));
}

uint64_t ClientLink::lent() const {
  MutexLock lock(mu_);
  return slots_.lent();
}

}  // namespace millrace::local
