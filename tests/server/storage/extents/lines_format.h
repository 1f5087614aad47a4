// A format for tests: an object is a row of records "NNN" + body, NNN the
// body's bytes as three digits; a body is a digit, the class, and a text. The
// names of objects end in ".rec".

#ifndef MILLRACE_TESTS_SERVER_STORAGE_EXTENTS_LINES_FORMAT_H_
#define MILLRACE_TESTS_SERVER_STORAGE_EXTENTS_LINES_FORMAT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

inline std::string Lines(const std::vector<std::string>& bodies) {
  std::string bytes;
  for (const std::string& body : bodies) {
    absl::StrAppendFormat(&bytes, "%03d%s", body.size(), body);
  }
  return bytes;
}

class LinesRule final : public FieldRule {
 public:
  LinesRule() {
    Field& text = *schema_.add_fields();
    text.set_name("text");
    text.set_kind(FIELD_KIND_RAGGED);
    text.set_dtype(DTYPE_UINT8);
    Field& label = *schema_.add_fields();
    label.set_name("label");
    label.set_kind(FIELD_KIND_TENSOR);
    label.set_dtype(DTYPE_INT64);
  }
  const Schema& schema() const override { return schema_; }
  int class_field() const override { return 1; }
  std::string Encode() const override { return "lines 1"; }
  absl::Status Split(absl::Span<const uint8_t> record,
                     const std::vector<bool>& used,
                     RecordFields* fields) const override {
    if (record.empty()) {
      return absl::DataLossError("byte 0 of the record: there is no label");
    }
    if (used.empty() || used[0]) fields->Set(0, record.subspan(1));
    if (used.empty() || used[1]) {
      // '/' is the sign before '0': class -1.
      const int64_t label = record[0] - '0';
      std::memcpy(fields->Make(1, sizeof(label)), &label, sizeof(label));
    }
    return absl::OkStatus();
  }
  std::string NameOf(absl::Span<const uint8_t> record) const override {
    return std::string(record.begin(), record.end());
  }

 private:
  Schema schema_;
};

class LinesScanner final : public RecordScanner {
 public:
  LinesScanner(ObjectWindow& window, bool classes)
      : window_(window), classes_(classes) {}
  absl::StatusOr<std::optional<IndexedRecord>> Next() override {
    if (at_ == window_.size()) return std::nullopt;
    MR_ASSIGN_OR_RETURN(auto header, window_.At(at_, 3));
    int bytes;
    if (!absl::SimpleAtoi(std::string(header.begin(), header.end()), &bytes)) {
      return absl::DataLossError(absl::StrCat("byte ", at_, ": no length"));
    }
    IndexedRecord record{.offset = at_ + 3,
                         .bytes = static_cast<uint64_t>(bytes),
                         .name = absl::StrCat("line", count_++)};
    if (classes_) {
      MR_ASSIGN_OR_RETURN(auto label, window_.At(at_ + 3, 1));
      record.class_index = label[0] - '0';
    }
    at_ += 3 + static_cast<uint64_t>(bytes);
    return record;
  }

 private:
  ObjectWindow& window_;
  const bool classes_;
  uint64_t at_ = 0;
  int count_ = 0;
};

class LinesFormat final : public ExtentFormat {
 public:
  // `classes`: the scan knows them.
  explicit LinesFormat(bool classes = false) : classes_(classes) {}
  absl::string_view scheme() const override { return "lines"; }
  absl::StatusOr<ObjectList> List(const std::string& path,
                                  const FormatOptions& options) const override {
    MR_RETURN_IF_ERROR(CheckOptions("lines", options, {"colour"}));
    MR_ASSIGN_OR_RETURN(ShardPaths shards, FindShards(path, ".rec"));
    return ObjectList{.names = std::move(shards.files), .description = ""};
  }
  absl::StatusOr<std::unique_ptr<FieldRule>> NewRule(
      const ObjectList&, const FormatOptions&, ObjectWindow&) const override {
    return std::make_unique<LinesRule>();
  }
  absl::StatusOr<std::unique_ptr<FieldRule>> RestoreRule(
      absl::string_view encoded) const override {
    if (encoded != "lines 1") return absl::DataLossError("no such rule");
    return std::make_unique<LinesRule>();
  }
  absl::StatusOr<std::unique_ptr<RecordScanner>> Scan(
      ObjectWindow& window, const FieldRule&) const override {
    return std::make_unique<LinesScanner>(window, classes_);
  }

 private:
  const bool classes_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_EXTENTS_LINES_FORMAT_H_
