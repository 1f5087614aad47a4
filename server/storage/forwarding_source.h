// ForwardingSource is a RecordSource that stands for another one: every call
// goes to the base. A class that changes one answer derives from it and
// overrides that one, so that no other answer is lost.
//
// Thread-safe as RecordSource says. Shares the ownership of the base.
//
//   class Renamed final : public ForwardingSource {
//    public:
//     using ForwardingSource::ForwardingSource;
//     const DatasetInfo& info() const override { return renamed_; }
//   };

#ifndef MILLRACE_SERVER_STORAGE_FORWARDING_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_FORWARDING_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

class ForwardingSource : public RecordSource {
 public:
  explicit ForwardingSource(std::shared_ptr<const RecordSource> base)
      : base_(std::move(base)) {}

  const DatasetInfo& info() const override { return base_->info(); }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override {
    return base_->NewReader();
  }
  absl::Status CheckFields(const std::vector<bool>& used) const override {
    return base_->CheckFields(used);
  }
  absl::Status CheckFieldsWithin(const std::vector<bool>& used,
                                 uint64_t cache_bytes) const override {
    return base_->CheckFieldsWithin(used, cache_bytes);
  }
  ReadWait read_wait() const override { return base_->read_wait(); }
  uint64_t BytesOf(int64_t index,
                   const std::vector<bool>& used) const override {
    return base_->BytesOf(index, used);
  }
  const SampleFiles* sample_files() const override {
    return base_->sample_files();
  }
  std::string FilesIdentity() const override { return base_->FilesIdentity(); }
  std::string index_file() const override { return base_->index_file(); }
  absl::Status CheckFiles() const override { return base_->CheckFiles(); }
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override {
    return base_->CheckFilesOf(samples);
  }
  uint32_t max_concurrent_reads() const override {
    return base_->max_concurrent_reads();
  }
  uint64_t metadata_bytes() const override { return base_->metadata_bytes(); }
  uint64_t unused_bytes() const override { return base_->unused_bytes(); }

 protected:
  const RecordSource& base() const { return *base_; }

 private:
  const std::shared_ptr<const RecordSource> base_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FORWARDING_SOURCE_H_
