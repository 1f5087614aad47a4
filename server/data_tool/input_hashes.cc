#include "server/data_tool/input_hashes.h"

#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"

namespace millrace::data_tool {

storage::Hash128 HashInput(int64_t index, const SampleReader::Sample& sample) {
  std::vector<absl::Span<const uint8_t>> parts = sample.fields;
  parts.emplace_back(reinterpret_cast<const uint8_t*>(sample.origin.data()),
                     sample.origin.size());
  return storage::HashSample(index, parts);
}

class InputHashes::Reader final : public SampleReader {
 public:
  Reader(std::unique_ptr<SampleReader> reader,
         std::deque<storage::Hash128>* hashes)
      : reader_(std::move(reader)),
        description_(reader_->description()),
        hashes_(hashes) {}

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    MR_RETURN_IF_ERROR(reader_->Next(sample));
    hashes_->push_back(HashInput(next_++, *sample));
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    return reader_->Warnings();
  }

  absl::Status Skip(int64_t count,
                    absl::FunctionRef<absl::Status(storage::Hash128)> see) {
    Sample sample;
    for (int64_t i = 0; i < count; ++i) {
      MR_RETURN_IF_ERROR(reader_->Next(&sample));
      MR_RETURN_IF_ERROR(see(HashInput(next_++, sample)));
    }
    description_.set_samples(description_.samples() - count);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<SampleReader> reader_;
  DatasetInfo description_;
  int64_t next_ = 0;
  std::deque<storage::Hash128>* const hashes_;
};

std::unique_ptr<SampleReader> InputHashes::Over(
    std::unique_ptr<SampleReader> reader) {
  auto over = std::make_unique<Reader>(std::move(reader), &hashes_);
  reader_ = over.get();
  return over;
}

absl::Status InputHashes::Skip(
    int64_t count, absl::FunctionRef<absl::Status(storage::Hash128)> see) {
  return reader_->Skip(count, see);
}

storage::Hash128 InputHashes::Take() {
  const storage::Hash128 hash = hashes_.front();
  hashes_.pop_front();
  return hash;
}

}  // namespace millrace::data_tool
