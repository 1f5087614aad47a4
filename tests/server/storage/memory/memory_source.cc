#include "tests/server/storage/memory/memory_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/logging.h"
#include "server/storage/content_hash.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class MemorySource final : public RecordSource {
 public:
  MemorySource(DatasetInfo info, SampleCheck check,
               std::vector<std::vector<std::string>> samples)
      : check_(std::move(check)), samples_(std::move(samples)) {
    views_.reserve(samples_.size() * check_.fields());
    for (const std::vector<std::string>& sample : samples_) {
      MR_CHECK(sample.size() == check_.fields())
          << "a sample has " << sample.size() << " fields";
      for (const std::string& field : sample) views_.push_back(Bytes(field));
    }
    info.set_format("memory");
    info.set_samples(static_cast<int64_t>(samples_.size()));
    if (info.shards().empty()) {
      ShardInfo* shard = info.add_shards();
      shard->set_name("memory");
      shard->set_samples(info.samples());
    }
    if (info.fingerprint().empty()) {
      ContentSum sum;
      for (int64_t i = 0; i < info.samples(); ++i) sum.Add(i, Fields(i));
      info.set_fingerprint(
          DatasetFingerprint(info.samples(), info.schema(), sum.value()));
    }
    info_ = std::move(info);
  }

  const DatasetInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) const {
    if (index < 0 || index >= info_.samples()) {
      return NoSuchSample(index, info_.samples());
    }
    const auto shard = std::prev(std::upper_bound(
        info_.shards().begin(), info_.shards().end(), index,
        [](int64_t i, const ShardInfo& s) { return i < s.first_sample(); }));
    EncodedSample sample;
    sample.fields = Fields(index);
    sample.shard = static_cast<int32_t>(shard - info_.shards().begin());
    sample.row = index - shard->first_sample();
    if (absl::Status status = check_.Check(sample.fields); !status.ok()) {
      return AtSample(std::move(status), shard->name(), sample.row, index);
    }
    return visit(sample);
  }

 private:
  absl::Span<const absl::Span<const uint8_t>> Fields(int64_t index) const {
    return absl::MakeConstSpan(views_).subspan(index * check_.fields(),
                                               check_.fields());
  }

  const SampleCheck check_;
  const std::vector<std::vector<std::string>> samples_;
  std::vector<absl::Span<const uint8_t>> views_;  // of samples_, row by row
  DatasetInfo info_;
};

class MemoryReader final : public RecordReader {
 public:
  explicit MemoryReader(const MemorySource& source) : source_(source) {}
  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    return source_.Read(index, visit);
  }

 private:
  const MemorySource& source_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> MemorySource::NewReader() const {
  return std::make_unique<MemoryReader>(*this);
}

}  // namespace

std::shared_ptr<const RecordSource> NewMemorySource(
    DatasetInfo info, std::vector<std::vector<std::string>> samples) {
  absl::StatusOr<SampleCheck> check = SampleCheck::Create(info.schema());
  MR_CHECK(check.ok()) << check.status().message();
  MR_CHECK(info.shards().empty() || info.shards(0).first_sample() == 0);
  return std::make_shared<MemorySource>(std::move(info), *std::move(check),
                                        std::move(samples));
}

}  // namespace millrace::storage
