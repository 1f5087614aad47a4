#include "server/data_tool/parallel_reader.h"

#include "common/status_macros.h"

namespace millrace::data_tool {
namespace {

// Samples that are read ahead for each thread, so that the next one is ready
// when one is done.
constexpr size_t kAheadPerThread = 2;

}  // namespace

ParallelReader::ParallelReader(std::unique_ptr<SampleReader> reader,
                               const Options& options, Convert convert)
    : reader_(std::move(reader)),
      description_(options.description.value_or(reader_->description())),
      convert_(std::move(convert)),
      ahead_(options.threads * kAheadPerThread),
      pool_(options.name, options.threads, options.threads * kAheadPerThread) {}

absl::Status ParallelReader::Next(Sample* sample) {
  while (read_ < reader_->description().samples() && queue_.size() < ahead_) {
    MR_RETURN_IF_ERROR(ReadAhead());
  }
  given_ = std::move(queue_.front());
  queue_.pop_front();
  {
    MutexLock lock(mu_);
    while (!given_->done) done_.Wait(lock);
  }
  MR_RETURN_IF_ERROR(given_->work.status);
  sample->fields.clear();
  for (const std::string& field : given_->work.fields) {
    sample->fields.emplace_back(reinterpret_cast<const uint8_t*>(field.data()),
                                field.size());
  }
  sample->origin = given_->work.origin;
  return absl::OkStatus();
}

absl::Status ParallelReader::ReadAhead() {
  Sample sample;
  MR_RETURN_IF_ERROR(reader_->Next(&sample));
  ++read_;
  auto slot = std::make_shared<Slot>();
  for (const auto& field : sample.fields) {
    slot->work.fields.emplace_back(reinterpret_cast<const char*>(field.data()),
                                   field.size());
  }
  slot->work.origin = std::move(sample.origin);
  queue_.push_back(slot);
  pool_.Submit([this, slot = std::move(slot)] {
    convert_(slot->work);
    MutexLock lock(mu_);
    slot->done = true;
    done_.NotifyAll();
  });
  return absl::OkStatus();
}

}  // namespace millrace::data_tool
