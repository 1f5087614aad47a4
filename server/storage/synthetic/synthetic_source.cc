#include "server/storage/synthetic/synthetic_source.h"

#include <time.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/synthetic.h"
#include "server/storage/content_hash.h"
#include "server/storage/read_error.h"
#include "server/storage/synthetic/synthetic_values.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kWindows = 1 << 16;
constexpr uint64_t kWindowStride = 16;
constexpr uint64_t kTableKey = 0x6d696c6c72616365;  // "millrace"

// Noise; the fields are windows of it. Never freed.
const uint8_t* Table() {
  static const uint8_t* const table = [] {
    constexpr uint64_t kBytes =
        kMaxSyntheticFieldBytes + kWindows * kWindowStride;
    auto* bytes = new uint8_t[kBytes];
    FillSynthetic(DTYPE_UINT8, 0, kTableKey, absl::MakeSpan(bytes, kBytes));
    return bytes;
  }();
  return table;
}

// Sleeps; no signal ends the sleep early. The slack of the system's timers is
// added.
void Wait(uint32_t micros) {
  timespec left = {.tv_sec = micros / 1'000'000,
                   .tv_nsec = static_cast<long>(micros % 1'000'000) * 1000};
  timespec rest;
  while (nanosleep(&left, &rest) != 0 && errno == EINTR) left = rest;
}

struct FieldMaker {
  DType dtype;
  int64_t num_classes;
  uint64_t bytes;
  bool window;      // of the table
  uint64_t offset;  // otherwise: in the reader's memory
  uint64_t key;
};

// The state that the readers share.
struct Recipe {
  int64_t samples = 0;
  uint32_t latency_us = 0;
  std::vector<FieldMaker> fields;
  uint64_t made_bytes = 0;
};

class SyntheticReader final : public RecordReader {
 public:
  explicit SyntheticReader(std::shared_ptr<const Recipe> recipe)
      : recipe_(std::move(recipe)),
        made_(recipe_->made_bytes),
        spans_(recipe_->fields.size()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= recipe_->samples) {
      return NoSuchSample(index, recipe_->samples);
    }
    if (recipe_->latency_us > 0) Wait(recipe_->latency_us);
    for (size_t i = 0; i < spans_.size(); ++i) {
      const FieldMaker& field = recipe_->fields[i];
      const uint64_t key =
          SyntheticWord(field.key, static_cast<uint64_t>(index));
      if (field.window) {
        spans_[i] = {Table() + key % kWindows * kWindowStride, field.bytes};
        continue;
      }
      const auto out = absl::MakeSpan(made_.data() + field.offset, field.bytes);
      FillSynthetic(field.dtype, field.num_classes, key, out);
      spans_[i] = out;
    }
    EncodedSample sample;
    sample.fields = spans_;
    sample.row = index;
    return visit(sample);
  }

 private:
  const std::shared_ptr<const Recipe> recipe_;
  std::vector<uint8_t> made_;
  std::vector<absl::Span<const uint8_t>> spans_;
};

class SyntheticSource final : public RecordSource {
 public:
  SyntheticSource(DatasetInfo info, std::shared_ptr<const Recipe> recipe)
      : info_(std::move(info)), recipe_(std::move(recipe)) {}

  const DatasetInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override {
    return std::make_unique<SyntheticReader>(recipe_);
  }
  ReadWait read_wait() const override {
    return recipe_->latency_us > 0 ? ReadWait::kRead : ReadWait::kNever;
  }

 private:
  const DatasetInfo info_;
  const std::shared_ptr<const Recipe> recipe_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordSource>> NewSyntheticSource(
    const Synthetic& synthetic) {
  MR_RETURN_IF_ERROR(CheckSynthetic(synthetic));
  DatasetInfo info;
  info.set_name(kSyntheticName);
  info.set_format(kSyntheticName);
  info.set_samples(static_cast<int64_t>(synthetic.samples()));
  auto recipe = std::make_shared<Recipe>();
  recipe->samples = info.samples();
  recipe->latency_us = synthetic.latency_us();
  for (const SyntheticField& asked : synthetic.fields()) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(asked.name());
    field.set_kind(FIELD_KIND_TENSOR);
    field.set_dtype(asked.dtype());
    *field.mutable_shape() = asked.shape();
    field.set_num_classes(asked.num_classes());
    FieldMaker maker;
    maker.dtype = asked.dtype();
    maker.num_classes = asked.num_classes();
    maker.bytes = SyntheticFieldBytes(asked);
    maker.window = IsAnyBits(asked);
    maker.offset = recipe->made_bytes;
    maker.key = SyntheticWord(synthetic.seed(), recipe->fields.size());
    if (!maker.window) recipe->made_bytes += (maker.bytes + 7) / 8 * 8;
    recipe->fields.push_back(maker);
  }
  ShardInfo& shard = *info.add_shards();
  shard.set_name(kSyntheticName);
  shard.set_samples(info.samples());
  // Replaces the sum of the samples' hashes, which would take too long to
  // compute.
  const std::string content =
      std::string("millrace synthetic 1 ") + std::to_string(synthetic.seed());
  info.set_fingerprint(DatasetFingerprint(
      info.samples(), info.schema(),
      HashBytes(
          {reinterpret_cast<const uint8_t*>(content.data()), content.size()})));
  return std::make_shared<SyntheticSource>(std::move(info), std::move(recipe));
}

}  // namespace millrace::storage
