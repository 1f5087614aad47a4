#include "server/pipeline/reading/sample_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

// Fields begin where any of their types may lie.
constexpr uint64_t kAlignment = 16;
// Beside the bytes: bounds the number of tiny samples, too.
constexpr uint64_t kOverheadBytes = 256;

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t BytesOf(const EncodedSample& sample) {
  uint64_t bytes = 0;
  for (const auto& field : sample.fields) bytes += Aligned(field.size());
  return bytes;
}

}  // namespace

SampleBuffers::Turn::Turn(SampleBuffers& buffers) : buffers_(buffers) {
  MutexLock lock(buffers_.mu_);
  number_ = buffers_.next_turn_++;
  buffers_.turns_.push_back(number_);
}

SampleBuffers::Turn::~Turn() {
  buffers_.Give(reserved_);
  MutexLock lock(buffers_.mu_);
  std::erase(buffers_.turns_, number_);
  buffers_.WakeFirst();  // it may now be the first of all
}

void SampleBuffers::WakeFirst() {
  // Under the lock: whoever waits does not leave before.
  if (!waiters_.empty()) waiters_.begin()->second->room_.NotifyOne();
}

FetchedSample* SampleBuffers::Turn::Copy(const EncodedSample& sample) {
  const uint64_t bytes = BytesOf(sample);
  return Fill(buffers_.Take(*this, bytes), sample, bytes);
}

FetchedSample* SampleBuffers::Turn::TryCopy(const EncodedSample& sample) {
  const uint64_t bytes = BytesOf(sample);
  FetchedSample* copy = nullptr;
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
  reserved_ = buffers_.Take(*this, wanted_);
  return true;
}

FetchedSample* SampleBuffers::Turn::Fill(FetchedSample* copy,
                                         const EncodedSample& sample,
                                         uint64_t bytes) {
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
  sample->status_ = std::move(status);
  return sample;
}

FetchedSample* SampleBuffers::Take(Turn& turn, uint64_t bytes, bool wait) {
  std::unique_ptr<FetchedSample> sample;
  MutexLock lock(mu_);
  const auto is_full = [&]() MR_REQUIRES(mu_) {
    return held_ + bytes + kOverheadBytes > half_ &&
           (ready_ > 0 || turns_.front() != turn.number_);
  };
  if (is_full()) {
    if (!wait) return nullptr;
    const auto start = std::chrono::steady_clock::now();
    waiting_.Add(1);
    waiters_.emplace(turn.number_, &turn);
    while (is_full()) turn.room_.Wait(lock);
    waiters_.erase(turn.number_);
    waiting_.Add(-1);
    turn.waited_ += std::chrono::steady_clock::now() - start;
  }
  if (!idle_samples_.empty()) {
    sample = std::move(idle_samples_.back());
    idle_samples_.pop_back();
    idle_ -= sample->charged_;
    // Not much more than what it holds.
    sample->bytes_.ReleaseAbove(2 * bytes + kOverheadBytes);
  } else {
    sample = std::make_unique<FetchedSample>();
  }
  sample->charged_ =
      std::max<uint64_t>(bytes, sample->bytes_.capacity()) + kOverheadBytes;
  held_ += sample->charged_;
  if (held_ + kOverheadBytes <= half_) WakeFirst();
  return sample.release();
}

void SampleBuffers::Ready(absl::Span<FetchedSample* const> samples) {
  MutexLock lock(mu_);
  for (FetchedSample* sample : samples) {
    if (sample == nullptr || sample->ready_) continue;
    sample->ready_ = true;
    ready_ += sample->charged_;
  }
}

void SampleBuffers::Give(FetchedSample* sample) {
  if (sample == nullptr) return;
  std::unique_ptr<FetchedSample> owned(sample);  // destroyed after the lock
  owned->status_ = absl::OkStatus();
  MutexLock lock(mu_);
  held_ -= owned->charged_;
  if (std::exchange(owned->ready_, false)) ready_ -= owned->charged_;
  owned->charged_ = owned->bytes_.capacity() + kOverheadBytes;
  if (idle_ + owned->charged_ <= half_) {
    idle_ += owned->charged_;
    idle_samples_.push_back(std::move(owned));
  }
  WakeFirst();
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

}  // namespace millrace
