#include "server/pipeline/reading/sample_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace::pipeline {
namespace {

// Fields are aligned to this number of bytes, which is enough for every tensor
// type.
constexpr uint64_t kAlignment = 16;
// Bytes charged in addition to each sample: about the size of the object and
// its list of fields. The charge also bounds the number of tiny samples.
constexpr uint64_t kOverheadBytes = 256;

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t BytesOf(const storage::EncodedSample& sample) {
  uint64_t bytes = 0;
  for (const auto& field : sample.fields) bytes += Aligned(field.size());
  return bytes;
}

}  // namespace

void SampleBuffers::Enter(ReadAccount& account) {
  MutexLock lock(mu_);
  if (account.users_++ > 0) return;
  ++plans_;
  // A waiter whose part is smaller now may have no reason to wait any more.
  WakeNext();
}

void SampleBuffers::Leave(ReadAccount& account) {
  MutexLock lock(mu_);
  if (--account.users_ > 0) return;
  --plans_;
  WakeNext();
}

SampleBuffers::Turn::Turn(SampleBuffers& buffers, ReadAccount& account)
    : buffers_(buffers), account_(account) {
  MutexLock lock(buffers_.mu_);
  number_ = buffers_.next_turn_++;
  // Numbers are assigned under the lock, so both lists stay in ascending order.
  buffers_.turns_.push_back(number_);
  account_.turns_.push_back(number_);
}

SampleBuffers::Turn::~Turn() {
  // Without the lock, because Give() takes it.
  buffers_.Give(reserved_);
  MutexLock lock(buffers_.mu_);
  std::erase(buffers_.turns_, number_);
  std::erase(account_.turns_, number_);
  // A waiter may have become the oldest turn, which does not wait while nothing
  // is ready.
  buffers_.WakeNext();
}

void SampleBuffers::WakeNext() {
  // Under the lock: a turn found in waiters_ cannot stop waiting, and destroy
  // its condition variable, before the lock is released.
  ++scans_;
  bool one_exceeds = false;
  for (const auto& [number, turn] : waiters_) {
    ReadAccount& account = turn->account_;
    if (std::exchange(account.scan_, scans_) == scans_) continue;
    const uint64_t bytes = turn->awaited_;
    const bool exceeds = bytes + kOverheadBytes > PartOf(account) &&
                         !ExceedsPart(account, bytes);
    if (exceeds && std::exchange(one_exceeds, true)) continue;
    if (MustWait(*turn, bytes)) continue;
    turn->room_.NotifyOne();
    return;
  }
}

bool SampleBuffers::Turn::MayFindRoom() const {
  MutexLock lock(buffers_.mu_);
  return !buffers_.Exceeds(account_, account_.recent_) ||
         buffers_.RoomComes(*this, account_.recent_);
}

FetchedSample* SampleBuffers::Turn::Copy(const storage::EncodedSample& sample) {
  const uint64_t bytes = BytesOf(sample);
  FetchedSample* const copy = buffers_.Take(*this, bytes);
  return copy == nullptr ? nullptr : Fill(copy, sample, bytes);
}

FetchedSample* SampleBuffers::Turn::TryCopy(
    const storage::EncodedSample& sample) {
  const uint64_t bytes = BytesOf(sample);
  FetchedSample* copy = nullptr;
  // If the file has changed, a second read of the sample may return more bytes.
  // Then the room for the first read is not enough, and it is returned with the
  // turn.
  if (reserved_ != nullptr && bytes <= wanted_) {
    copy = std::exchange(reserved_, nullptr);
  } else {
    copy = buffers_.Take(*this, bytes, /*wait=*/false);
  }
  wanted_ = copy == nullptr ? bytes : 0;
  return copy == nullptr ? nullptr : Fill(copy, sample, bytes);
}

bool SampleBuffers::Turn::AwaitRoom() {
  if (wanted_ == 0 || reserved_ != nullptr) return false;
  // The turn keeps its number, so a thread that reads the sample again keeps
  // its place.
  reserved_ = buffers_.Take(*this, wanted_);
  return reserved_ != nullptr;
}

bool SampleBuffers::Turn::AwaitRoomFor(uint64_t bytes, size_t fields) {
  const uint64_t padded = bytes + fields * kAlignment;
  if (padded + kOverheadBytes > buffers_.half_) return false;
  wanted_ = padded;
  return AwaitRoom();
}

FetchedSample* SampleBuffers::Turn::Fill(FetchedSample* copy,
                                         const storage::EncodedSample& sample,
                                         uint64_t bytes) {
  // Without the lock, because the sample belongs to this turn.
  uint8_t* at = copy->bytes_.Reserve(bytes);
  if (at == nullptr) {
    buffers_.Give(copy);
    return nullptr;
  }
  copy->fields_.clear();
  for (const auto& field : sample.fields) {
    if (!field.empty()) std::memcpy(at, field.data(), field.size());
    copy->fields_.push_back({at, field.size()});
    at += Aligned(field.size());
  }
  copy->shard_ = sample.shard;
  copy->row_ = sample.row;
  return copy;
}

FetchedSample* SampleBuffers::Turn::Fail(absl::Status status) {
  FetchedSample* const sample = buffers_.Take(*this, 0);
  if (sample != nullptr) sample->status_ = std::move(status);
  return sample;
}

uint64_t SampleBuffers::PartOf(const ReadAccount& account) const {
  return half_ / std::max<uint64_t>(1, plans_ + (account.users_ == 0));
}

bool SampleBuffers::ExceedsPart(const ReadAccount& account,
                                uint64_t bytes) const {
  return account.held_ > 0 &&
         account.held_ + bytes + kOverheadBytes > PartOf(account);
}

bool SampleBuffers::Exceeds(const ReadAccount& account, uint64_t bytes) const {
  if (ExceedsPart(account, bytes)) return true;
  const uint64_t charge = bytes + kOverheadBytes;
  if (charge > PartOf(account)) return over_ > 0 && over_ + charge > half_;
  // The parts sum up to half_. Room is missing only while a plan still holds
  // the larger part that it had with fewer plans.
  return held_ - over_ + charge > half_;
}

bool SampleBuffers::RoomComes(const Turn& turn, uint64_t bytes) const {
  // Only the plan itself can free room in its part. Neither list of turns is
  // empty, because the turn is in both.
  const ReadAccount& account = turn.account_;
  if (ExceedsPart(account, bytes)) {
    return account.ready_ > 0 || account.turns_.front() != turn.number_;
  }
  return ready_ > 0 || turns_.front() != turn.number_;
}

FetchedSample* SampleBuffers::Take(Turn& turn, uint64_t bytes, bool wait) {
  std::unique_ptr<FetchedSample> sample;
  // Declared before the lock, so that dropped memory is freed after it.
  std::vector<std::unique_ptr<FetchedSample>> dropped;
  ReadAccount& account = turn.account_;
  MutexLock lock(mu_);
  // A sample that is given up counts, too: later tasks then wait for fewer
  // samples of that size.
  account.recent_ = std::max(bytes, account.recent_ - account.recent_ / 8);
  if (Exceeds(account, bytes)) {
    if (!wait || !RoomComes(turn, bytes)) return nullptr;
    const auto start = std::chrono::steady_clock::now();
    waiting_.Add(1);
    // The turn is in waiters_ exactly while it waits. WakeNext() relies on
    // this.
    turn.awaited_ = bytes;
    waiters_.emplace(turn.number_, &turn);
    while (MustWait(turn, bytes)) {
      turn.room_.Wait(lock);
      // Another thread may have taken the room. Then another waiter may be able
      // to continue.
      if (MustWait(turn, bytes)) WakeNext();
    }
    waiters_.erase(turn.number_);
    waiting_.Add(-1);
    turn.waited_ += std::chrono::steady_clock::now() - start;
    if (Exceeds(account, bytes)) {
      WakeNext();
      return nullptr;
    }
  }
  if (!idle_samples_.empty()) {
    sample = std::move(idle_samples_.back());
    idle_samples_.pop_back();
    idle_ -= sample->charged_;
    // Limits the memory that a small sample keeps from an earlier large one to
    // twice its bytes and the overhead.
    sample->bytes_.ReleaseAbove(2 * bytes + kOverheadBytes);
  } else {
    sample = std::make_unique<FetchedSample>();
  }
  // The charge is the capacity and not the bytes, because the system has
  // allocated the capacity.
  sample->charged_ =
      std::max<uint64_t>(bytes, sample->bytes_.capacity()) + kOverheadBytes;
  sample->account_ = &account;
  sample->over_ = bytes + kOverheadBytes > PartOf(account);
  held_ += sample->charged_;
  account.held_ += sample->charged_;
  if (sample->over_) over_ += sample->charged_;
  // If samples take more than half of the bytes, less idle memory is kept.
  while (!idle_samples_.empty() && held_ + idle_ > 2 * half_) {
    idle_ -= idle_samples_.back()->charged_;
    dropped.push_back(std::move(idle_samples_.back()));
    idle_samples_.pop_back();
  }
  // There may be room for the next waiter, too; only one was woken.
  WakeNext();
  return sample.release();
}

void SampleBuffers::Ready(absl::Span<FetchedSample* const> samples) {
  MutexLock lock(mu_);
  for (FetchedSample* sample : samples) {
    if (sample == nullptr || sample->ready_) continue;
    sample->ready_ = true;
    // No turn is woken: a larger ready_ never lets a waiting turn continue.
    ready_ += sample->charged_;
    sample->account_->ready_ += sample->charged_;
  }
}

void SampleBuffers::Give(FetchedSample* sample) {
  if (sample == nullptr) return;
  // Declared before the lock, so that memory that is not kept is freed after
  // it.
  std::unique_ptr<FetchedSample> owned(sample);
  // Without the lock: the calling thread owns the sample until it is in
  // idle_samples_.
  owned->status_ = absl::OkStatus();
  MutexLock lock(mu_);
  ReadAccount& account = *std::exchange(owned->account_, nullptr);
  held_ -= owned->charged_;
  account.held_ -= owned->charged_;
  if (std::exchange(owned->over_, false)) over_ -= owned->charged_;
  if (std::exchange(owned->ready_, false)) {
    ready_ -= owned->charged_;
    account.ready_ -= owned->charged_;
  }
  // From here on the charge is that of the idle memory.
  owned->charged_ = owned->bytes_.capacity() + kOverheadBytes;
  // A single idle sample is kept even if it exceeds the half, as long as it
  // fits into all bytes. If it was freed, malloc would keep its memory for each
  // thread that has read such a sample.
  if ((idle_samples_.empty() || idle_ + owned->charged_ <= half_) &&
      held_ + idle_ + owned->charged_ <= 2 * half_) {
    idle_ += owned->charged_;
    idle_samples_.push_back(std::move(owned));
  }
  WakeNext();
}

uint64_t SampleBuffers::MaxTaskSamples(const ReadAccount& account) const {
  MutexLock lock(mu_);
  return std::max<uint64_t>(
      1, PartOf(account) / 4 / (account.recent_ + kOverheadBytes));
}

double SampleBuffers::WaitedSeconds() {
  MutexLock lock(mu_);
  return waiting_.Seconds();
}

uint64_t SampleBuffers::held_bytes() const {
  MutexLock lock(mu_);
  return held_;
}

uint64_t SampleBuffers::ready_bytes() const {
  MutexLock lock(mu_);
  return ready_;
}

uint64_t SampleBuffers::idle_bytes() const {
  MutexLock lock(mu_);
  return idle_;
}

}  // namespace millrace::pipeline
