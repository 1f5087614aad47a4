#include "server/data_tool/ordered_reads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cgroup.h"
#include "common/status_macros.h"

namespace millrace::data_tool {
namespace {

// Reads wait for storage more than they compute.
constexpr uint32_t kMinWaitingThreads = 8;
// Samples that are read ahead for each thread.
constexpr size_t kSlotsPerThread = 8;
// A slot keeps at most this memory for its next sample.
constexpr size_t kKeptBytes = 1 << 20;

uint32_t ThreadsFor(const storage::RecordSource& source, uint32_t wanted) {
  uint32_t threads = wanted;
  if (threads == 0) {
    threads = AvailableCpus();
    if (source.read_wait() == storage::ReadWait::kRead) {
      threads = std::max(threads, kMinWaitingThreads);
    }
  }
  if (const uint32_t max = source.max_concurrent_reads(); max > 0) {
    threads = std::min(threads, max);
  }
  const auto samples = static_cast<uint64_t>(source.info().samples());
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(threads, 1, std::max<uint64_t>(samples, 1)));
}

}  // namespace

OrderedReads::OrderedReads(int64_t samples, size_t slots,
                           const Options& options)
    : samples_(samples), options_(options), slots_(slots) {}

absl::StatusOr<std::unique_ptr<OrderedReads>> OrderedReads::Start(
    const storage::RecordSource& source, const Options& options) {
  const uint32_t threads = ThreadsFor(source, options.threads);
  std::unique_ptr<OrderedReads> reads(new OrderedReads(
      source.info().samples(), threads * kSlotsPerThread, options));
  for (uint32_t i = 0; i < threads; ++i) {
    MR_ASSIGN_OR_RETURN(auto reader, source.NewReader());
    // All readers before the first thread: an error leaves nothing to stop.
    reads->readers_.push_back(std::move(reader));
  }
  for (uint32_t i = 0; i < threads; ++i) {
    reads->threads_.emplace_back(
        absl::StrCat("mr-read-", i),
        [reads = reads.get(), i] { reads->Read(*reads->readers_[i]); });
  }
  return reads;
}

// threads_ is the last member, so its destructor joins the threads first. They
// see stop_ when they have finished the sample at hand.
OrderedReads::~OrderedReads() {
  MutexLock lock(mu_);
  stop_ = true;
  room_.NotifyAll();
}

// The next sample to give is always taken or may be taken: when it is not
// taken, no sample is done, so bytes_ is 0. This guarantees that Next() ends.
bool OrderedReads::MayTake() const {
  return taken_ < samples_ &&
         taken_ - given_ < static_cast<int64_t>(slots_.size()) &&
         bytes_ < std::max<uint64_t>(options_.max_bytes, 1);
}

void OrderedReads::Read(storage::RecordReader& reader) {
  while (true) {
    int64_t index;
    {
      MutexLock lock(mu_);
      while (!stop_ && taken_ < samples_ && !MayTake()) room_.Wait(lock);
      if (stop_ || taken_ == samples_) return;
      index = taken_++;
      // Next() wakes one thread; a large sample may make room for several.
      if (MayTake()) room_.NotifyOne();
    }
    // Without the lock: samples in [given_, taken_) have a slot each, and a
    // slot belongs to the thread that took its sample until `done` is set.
    Slot& slot = SlotOf(index);
    ReadInto(reader, index, &slot);
    MutexLock lock(mu_);
    slot.done = true;
    bytes_ += slot.bytes.size();
    read_.NotifyAll();
  }
}

void OrderedReads::ReadInto(storage::RecordReader& reader, int64_t index,
                            Slot* slot) {
  slot->bytes.clear();
  Sample& sample = slot->sample;
  sample.index = index;
  sample.fields.clear();
  sample.status =
      reader.Read(index, [slot, &sample](const storage::EncodedSample& stored) {
        size_t size = 0;
        for (const auto& field : stored.fields) size += field.size();
        slot->bytes.reserve(size);
        for (const auto& field : stored.fields) {
          slot->bytes.append(reinterpret_cast<const char*>(field.data()),
                             field.size());
        }
        const auto* at = reinterpret_cast<const uint8_t*>(slot->bytes.data());
        for (const auto& field : stored.fields) {
          sample.fields.emplace_back(at, field.size());
          at += field.size();
        }
        return absl::OkStatus();
      });
  if (!sample.status.ok()) {
    sample.fields.clear();
    slot->bytes.clear();
  }
}

const OrderedReads::Sample& OrderedReads::Next() {
  MutexLock lock(mu_);
  if (next_ > given_) {
    // From now on the caller does not use it, and its slot may be filled again.
    // The sample of the last call.
    Slot& last = SlotOf(given_);
    bytes_ -= last.bytes.size();
    if (last.bytes.capacity() > kKeptBytes) std::string().swap(last.bytes);
    last.done = false;
    ++given_;
    room_.NotifyOne();
  }
  Slot& slot = SlotOf(next_++);
  while (!slot.done) read_.Wait(lock);
  return slot.sample;
}

}  // namespace millrace::data_tool
