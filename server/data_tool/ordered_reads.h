// OrderedReads reads all samples of a dataset on several threads and hands them
// out in order. It is for commands that go through a whole dataset once; it
// knows nothing of batches or decoding.
//
// Belongs to one thread at a time; owns its reading threads and their readers.
// Memory: Options::max_bytes and one more sample for each thread. The source
// must outlive it.
//
//   MR_ASSIGN_OR_RETURN(auto reads, OrderedReads::Start(*source, {}));
//   for (int64_t i = 0; i < source->info().samples(); ++i) {
//     const OrderedReads::Sample& sample = reads->Next();
//     if (sample.status.ok()) Use(sample.fields);
//   }

#ifndef MILLRACE_SERVER_DATA_TOOL_ORDERED_READS_H_
#define MILLRACE_SERVER_DATA_TOOL_ORDERED_READS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "common/thread.h"
#include "server/storage/record_source.h"

namespace millrace::data_tool {

class OrderedReads {
 public:
  struct Options {
    // 0: the CPUs of this process, and at least 8 if reads wait for storage.
    uint32_t threads = 0;
    // No read begins while samples of this size wait for Next().
    uint64_t max_bytes = 256 << 20;
  };

  struct Sample {
    int64_t index = 0;
    // As RecordReader::Read(); the samples behind a failed one follow.
    absl::Status status;
    // As the schema says; empty if the status is not OK.
    std::vector<absl::Span<const uint8_t>> fields;
  };

  // Errors as RecordSource::NewReader().
  static absl::StatusOr<std::unique_ptr<OrderedReads>> Start(
      const storage::RecordSource& source, const Options& options);

  // Waits for the reads in flight.
  ~OrderedReads();
  OrderedReads(const OrderedReads&) = delete;
  OrderedReads& operator=(const OrderedReads&) = delete;

  // The next sample, from 0; blocks until it is read. Called samples() times at
  // most. The sample is valid until the next call.
  const Sample& Next();

 private:
  struct Slot {
    Sample sample;
    std::string bytes;  // of all fields
    bool done = false;  // guarded by mu_; false: the slot belongs to a thread
  };

  OrderedReads(int64_t samples, size_t slots, const Options& options);
  void Read(storage::RecordReader& reader);
  static void ReadInto(storage::RecordReader& reader, int64_t index,
                       Slot* slot);
  bool MayTake() const MR_REQUIRES(mu_);
  Slot& SlotOf(int64_t index) {
    return slots_[static_cast<size_t>(index) % slots_.size()];
  }

  const int64_t samples_;
  const Options options_;
  std::vector<Slot> slots_;  // a ring; sample i lies in slot i % size

  Mutex mu_;
  CondVar read_;                           // a sample is done
  CondVar room_;                           // there is room, or stop_
  int64_t taken_ MR_GUARDED_BY(mu_) = 0;   // samples that threads have taken
  int64_t given_ MR_GUARDED_BY(mu_) = 0;   // samples that are no longer needed
  uint64_t bytes_ MR_GUARDED_BY(mu_) = 0;  // of done samples in slots
  bool stop_ MR_GUARDED_BY(mu_) = false;
  int64_t next_ = 0;  // of the owner: what Next() returns

  std::vector<std::unique_ptr<storage::RecordReader>> readers_;
  std::vector<NamedThread> threads_;  // last: they use the members above
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_ORDERED_READS_H_
