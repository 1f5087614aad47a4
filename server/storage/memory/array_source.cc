#include "server/storage/memory/array_source.h"

#include <unistd.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/byte_size.h"
#include "common/status_macros.h"
#include "server/storage/content_hash.h"
#include "server/storage/memory/array_layout.h"
#include "server/storage/memory/sealed_map.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

constexpr char kFormat[] = "memory";

// An entry of the page table for each page of the map.
uint64_t PageTableBytes(uint64_t mapped) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return mapped / page * sizeof(void*);
}

using Views = std::vector<absl::Span<const uint8_t>>;

class ArraySource final : public RecordSource {
 public:
  ArraySource(SealedMap map, ArrayLayout layout, ByteBudget::Reservation pages)
      : map_(std::move(map)),
        layout_(std::move(layout)),
        pages_(std::move(pages)) {}

  // Once, before the source is used. InvalidArgument: a class index is out of
  // range.
  absl::Status ReadContent() {
    MR_ASSIGN_OR_RETURN(const SampleCheck check,
                        SampleCheck::Create(layout_.schema));
    ContentSum sum;
    Views views(layout_.arrays.size());
    for (int64_t row = 0; row < layout_.rows; ++row) {
      View(row, views);
      if (const absl::Status good = check.Check(views); !good.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("row ", row, " of the arrays: ", good.message()));
      }
      sum.Add(row, views);
    }
    info_.set_format(kFormat);
    info_.set_samples(layout_.rows);
    *info_.mutable_schema() = layout_.schema;
    info_.set_fingerprint(
        DatasetFingerprint(layout_.rows, layout_.schema, sum.value()));
    ShardInfo& shard = *info_.add_shards();
    shard.set_name(kFormat);
    shard.set_samples(layout_.rows);
    shard.set_bytes(static_cast<int64_t>(map_.data().size()));
    shard.set_content_sum(HashToHex(sum.value()));
    return absl::OkStatus();
  }

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  uint64_t metadata_bytes() const override {
    return PageTableBytes(map_.data().size());
  }

  // Points `views` at the fields of a row, which exists.
  void View(int64_t row, Views& views) const {
    for (size_t i = 0; i < views.size(); ++i) {
      const ArrayLayout::Array& array = layout_.arrays[i];
      views[i] = map_.data().subspan(
          array.offset + static_cast<uint64_t>(row) * array.row_bytes,
          array.row_bytes);
    }
  }

 private:
  const SealedMap map_;
  const ArrayLayout layout_;
  const ByteBudget::Reservation pages_;
  DatasetInfo info_;  // constant after ReadContent()
};

class ArrayReader final : public RecordReader {
 public:
  explicit ArrayReader(const ArraySource& source)
      : source_(source), views_(source.info().schema().fields_size()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= source_.info().samples()) {
      return NoSuchSample(index, source_.info().samples());
    }
    source_.View(index, views_);
    EncodedSample sample;
    sample.fields = views_;
    sample.row = index;
    return visit(sample);  // checked by ReadContent(), and cannot change
  }

 private:
  const ArraySource& source_;
  Views views_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> ArraySource::NewReader() const {
  return std::make_unique<ArrayReader>(*this);
}

absl::StatusOr<ByteBudget::Reservation> ReservePages(
    uint64_t mapped, const OpenSourceOptions& options) {
  ByteBudget::Reservation pages;
  const uint64_t bytes = PageTableBytes(mapped);
  if (options.metadata_budget == nullptr ||
      options.metadata_budget->TryReserve(bytes, &pages)) {
    return pages;
  }
  const ByteBudget& budget = *options.metadata_budget;
  return absl::ResourceExhaustedError(absl::StrCat(
      "arrays of ", FormatByteSize(mapped), " need ",
      FormatExactByteSize(bytes),
      " of memory for page tables, and the memory budget has ",
      FormatExactByteSize(budget.capacity() - budget.used()), " for them: ",
      options.metadata_advice ? options.metadata_advice(bytes, nullptr)
                              : "close other datasets"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenArrays(
    int file, const OpenSourceOptions& options) {
  MR_ASSIGN_OR_RETURN(SealedMap map, SealedMap::Open(file));
  MR_ASSIGN_OR_RETURN(ByteBudget::Reservation pages,
                      ReservePages(map.data().size(), options));
  MR_ASSIGN_OR_RETURN(ArrayLayout layout, ParseArrayLayout(map.data()));
  auto source = std::make_unique<ArraySource>(std::move(map), std::move(layout),
                                              std::move(pages));
  MR_RETURN_IF_ERROR(source->ReadContent());
  return source;
}

}  // namespace millrace::storage
