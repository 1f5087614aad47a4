#include "server/storage/extents/file_index_builder.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/mutex.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/content_hash.h"
#include "server/storage/extents/extent_index.h"
#include "server/storage/extents/file_rule.h"
#include "server/storage/extents/file_table.h"
#include "server/storage/extents/task_run.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 200;
constexpr uint64_t kMaxTableBytes = uint64_t{2} << 30;
// Files that one task asks for, and at most reads.
constexpr int64_t kTaskFiles = 256;
// Bytes that one task reads, unless one file has more.
constexpr uint64_t kTaskBytes = 4 << 20;

class FileBuilder {
 public:
  FileBuilder(const ExtentFormat& format, const ExtentUri& uri,
              const ObjectList& list, ObjectReader& objects,
              const BuildOptions& options)
      : format_(format),
        uri_(uri),
        list_(list),
        objects_(objects),
        options_(options) {}

  absl::StatusOr<BuiltIndex> Build() {
    MR_RETURN_IF_ERROR(ReadTable());
    FindTwice();
    MR_RETURN_IF_ERROR(LookAtFiles());
    MR_RETURN_IF_ERROR(CheckBad());
    AddNamesAndValues();
    if (options_.content) MR_RETURN_IF_ERROR(ReadFiles());
    built_.head.set_listing_sum(
        HashToHex(FileListingSum(built_.head, built_.columns)));
    return std::move(built_);
  }

 private:
  const std::string& table_name() const { return list_.names.front(); }

  // Reads the table, and what it depends on, in one version.
  absl::Status ReadTable() {
    std::vector<ObjectIdentity> identities;
    for (const std::string& name : list_.names) {
      MR_ASSIGN_OR_RETURN(identities.emplace_back(), StatObject(name));
    }
    if (identities[0].bytes > kMaxTableBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(table_name(), " has ", identities[0].bytes,
                       " bytes; the maximum of a table is ", kMaxTableBytes,
                       ": split it into several datasets"));
    }
    std::string text(identities[0].bytes, '\0');
    MR_RETURN_IF_ERROR(objects_.Read(
        table_name(), identities[0], 0,
        absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size())));
    MR_ASSIGN_OR_RETURN(table_, format_.ReadTable(uri_, text));
    for (size_t i = 1; i < list_.names.size(); ++i) {
      MR_ASSIGN_OR_RETURN(const ObjectIdentity now, StatObject(list_.names[i]));
      if (now == identities[i]) continue;
      return absl::DataLossError(absl::StrCat(
          list_.names[i], " has changed while it was read; try again"));
    }
    ExtentIndexHead& head = built_.head;
    head.set_format(std::string(format_.scheme()));
    head.set_path(uri_.path);
    head.set_options(uri_.record_options);
    head.set_rule(FileRule(table_->schema(), table_->class_field()).Encode());
    *head.mutable_schema() = table_->schema();
    head.set_files(true);
    for (size_t i = 0; i < list_.names.size(); ++i) {
      ExtentIndexObject& object = *head.add_objects();
      object.set_name(list_.names[i]);
      SetIdentity(identities[i], &object);
    }
    head.mutable_objects(0)->set_samples(table_->rows());
    return absl::OkStatus();
  }

  // The table, or a file that an option names.
  absl::StatusOr<ObjectIdentity> StatObject(const std::string& name) {
    absl::StatusOr<ObjectIdentity> identity = objects_.Stat(name);
    if (absl::IsInvalidArgument(identity.status())) {
      return UsageError(identity.status());
    }
    if (absl::IsNotFound(identity.status())) {
      return absl::NotFoundError(
          absl::StrCat("there is no file ", CleanText(name, kMaxQuotedBytes),
                       "; check the path of the table and of classes=FILE"));
    }
    return identity;
  }

  void AddBad(int64_t row, absl::string_view why) {
    MutexLock lock(mu_);
    ++bad_count_;
    bad_.emplace(row, absl::StrCat(table_->place(row), ": ", why));
    if (bad_.size() > kMaxListed) bad_.erase(std::prev(bad_.end()));
  }

  // The table with its options, as --input of `pack` takes it: no scheme.
  std::string InputWord() const {
    std::string lines = uri_.record_options;
    if (!lines.empty()) lines.pop_back();
    return ShellWord(absl::StrCat(uri_.path, lines.empty() ? "" : "?",
                                  absl::StrReplaceAll(lines, {{"\n", "&"}})));
  }

  absl::Status CheckBad() {
    MutexLock lock(mu_);
    if (bad_count_ == 0) return absl::OkStatus();
    std::vector<std::string> first;
    for (const auto& [row, why] : bad_) first.push_back(why);
    return absl::DataLossError(absl::StrCat(
        table_name(), ": ",
        bad_count_ == 1
            ? ""
            : absl::StrCat(CountText(bad_count_, "row"), " cannot be used: "),
        FirstOf(first, "; ", bad_count_), "; repair or remove ",
        bad_count_ == 1 ? "it" : "them",
        ", or pack the table without such rows (`millrace-data pack --format=",
        format_.scheme(), " --skip_bad --input=", InputWord(),
        " --output=lmdb:FILE`)"));
  }

  // A file that two rows name would be two samples, perhaps of two classes.
  void FindTwice() {
    absl::flat_hash_map<std::pair<uint64_t, uint64_t>, int64_t> rows;
    rows.reserve(static_cast<size_t>(table_->rows()));
    for (int64_t row = 0; row < table_->rows(); ++row) {
      const std::string path =
          std::filesystem::path(table_->path(row)).lexically_normal().string();
      const Hash128 hash = HashBytes(
          {reinterpret_cast<const uint8_t*>(path.data()), path.size()});
      const auto [first, added] =
          rows.emplace(std::pair(hash.low, hash.high), row);
      if (added) continue;
      AddBad(row, absl::StrCat(CleanText(table_->path(row), kMaxQuotedBytes),
                               " is already named by ",
                               table_->place(first->second)));
    }
  }

  absl::Status LookAtFiles() {
    const int64_t rows = table_->rows();
    ExtentColumns& columns = built_.columns;
    const auto count = static_cast<size_t>(rows);
    columns.bytes.resize(count);
    columns.modified_nanos.resize(count);
    columns.changed_nanos.resize(count);
    columns.inodes.resize(count);
    TaskRun run;
    return run.Run((rows + kTaskFiles - 1) / kTaskFiles, options_.threads,
                   [this, rows] {
                     return [this, rows](int64_t task) -> absl::Status {
                       const int64_t first = task * kTaskFiles;
                       const int64_t end = std::min(first + kTaskFiles, rows);
                       for (int64_t row = first; row < end; ++row) {
                         MR_RETURN_IF_ERROR(LookAtFile(row));
                       }
                       done_ += end - first;
                       return absl::OkStatus();
                     };
                   },
                   [this, rows] {
                     return !options_.progress ||
                            options_.progress(done_, rows, 0);
                   });
  }

  absl::Status LookAtFile(int64_t row) {
    const std::string path = table_->path(row);
    const absl::StatusOr<ObjectIdentity> identity = objects_.Stat(path);
    if (absl::IsUnavailable(identity.status()))
      return AtRow(row, identity.status());
    if (!identity.ok()) {
      AddBad(row, identity.status().message());
      return absl::OkStatus();
    }
    if (identity->bytes == 0 || identity->bytes > UINT32_MAX) {
      AddBad(row, absl::StrCat(CleanText(path, kMaxQuotedBytes),
                               identity->bytes == 0
                                   ? " is empty"
                                   : absl::StrCat(" has ", identity->bytes,
                                                  " bytes; the maximum is ",
                                                  UINT32_MAX)));
      return absl::OkStatus();
    }
    ExtentColumns& columns = built_.columns;
    columns.bytes[row] = static_cast<uint32_t>(identity->bytes);
    columns.modified_nanos[row] = identity->modified_nanos;
    columns.changed_nanos[row] = identity->changed_nanos;
    columns.inodes[row] = identity->inode;
    return absl::OkStatus();
  }

  absl::Status AtRow(int64_t row, const absl::Status& status) const {
    return absl::Status(status.code(),
                        absl::StrCat(table_name(), ": ", table_->place(row),
                                     ": ", status.message()));
  }

  void AddNamesAndValues() {
    ExtentColumns& columns = built_.columns;
    const int64_t rows = table_->rows();
    columns.name_ends.reserve(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      absl::StrAppend(&columns.names, table_->name(row));
      columns.name_ends.push_back(columns.names.size());
    }
    const Schema& schema = table_->schema();
    for (int field = 1; field < schema.fields_size(); ++field) {
      const bool fixed = schema.fields(field).kind() == FIELD_KIND_TENSOR;
      ExtentIndexValues& entry = *built_.head.add_values();
      entry.set_field(field);
      entry.set_bytes(
          fixed ? static_cast<uint32_t>(table_->value(field, 0).size()) : 0);
      std::string& values = columns.values.emplace_back();
      std::vector<uint64_t>& ends = columns.value_ends.emplace_back();
      for (int64_t row = 0; row < rows; ++row) {
        const absl::Span<const uint8_t> value = table_->value(field, row);
        values.append(reinterpret_cast<const char*>(value.data()),
                      value.size());
        if (!fixed) ends.push_back(values.size());
      }
    }
  }

  absl::Status ReadFiles() {
    MR_ASSIGN_OR_RETURN(const SampleCheck check,
                        SampleCheck::Create(table_->schema()));
    // The first row of each task.
    const int64_t rows = table_->rows();
    std::vector<int64_t> firsts;
    uint64_t bytes = 0;
    for (int64_t row = 0; row < rows; ++row) {
      bytes += built_.columns.bytes[row];
      if (firsts.empty() || row - firsts.back() == kTaskFiles ||
          bytes > kTaskBytes) {
        firsts.push_back(row);
        bytes = built_.columns.bytes[row];
      }
    }
    const auto tasks = static_cast<int64_t>(firsts.size());
    firsts.push_back(rows);
    done_ = 0;
    TaskRun run;
    MR_RETURN_IF_ERROR(run.Run(
        tasks, options_.threads,
        [&] {
          const auto buffer = std::make_shared<std::vector<uint8_t>>();
          return [this, &firsts, &check, buffer](int64_t task) {
            return ReadRows(firsts[task], firsts[task + 1], check,
                            buffer.get());
          };
        },
        [&] {
          return !options_.progress || options_.progress(done_, rows, bytes_);
        }));
    MutexLock lock(mu_);
    const std::string sum = HashToHex(sum_.value());
    built_.head.set_content_sum(sum);
    built_.head.mutable_objects(0)->set_content_sum(sum);
    return absl::OkStatus();
  }

  absl::Status ReadRows(int64_t first, int64_t end, const SampleCheck& check,
                        std::vector<uint8_t>* buffer) {
    const ExtentColumns& columns = built_.columns;
    std::vector<absl::Span<const uint8_t>> fields(check.fields());
    ContentSum sum;
    for (int64_t row = first; row < end; ++row) {
      const uint32_t bytes = columns.bytes[row];
      if (buffer->size() < bytes) buffer->resize(bytes);
      const ObjectIdentity identity = {
          .bytes = bytes,
          .modified_nanos = columns.modified_nanos[row],
          .changed_nanos = columns.changed_nanos[row],
          .inode = columns.inodes[row],
          .tag = ""};
      absl::Status status =
          objects_.Read(table_->path(row), identity, 0,
                        absl::MakeSpan(buffer->data(), bytes));
      fields[0] = {buffer->data(), bytes};
      for (int field = 1; field < check.fields(); ++field) {
        fields[field] = table_->value(field, row);
      }
      if (status.ok()) status = check.Check(fields);
      if (!status.ok()) return AtRow(row, status);
      sum.Add(row, fields);
      bytes_ += bytes;
    }
    done_ += end - first;
    MutexLock lock(mu_);
    sum_.Add(sum.value());
    return absl::OkStatus();
  }

  const ExtentFormat& format_;
  const ExtentUri& uri_;
  const ObjectList& list_;
  ObjectReader& objects_;
  const BuildOptions& options_;
  std::unique_ptr<const FileTable> table_;
  // The columns of identities: each task writes those of its rows.
  BuiltIndex built_;
  std::atomic<int64_t> done_{0};  // files
  std::atomic<int64_t> bytes_{0};
  Mutex mu_;
  int64_t bad_count_ MR_GUARDED_BY(mu_) = 0;
  std::map<int64_t, std::string> bad_ MR_GUARDED_BY(mu_);  // the first rows
  ContentSum sum_ MR_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<BuiltIndex> BuildFileIndex(const ExtentFormat& format,
                                          const ExtentUri& uri,
                                          const ObjectList& list,
                                          ObjectReader& objects,
                                          const BuildOptions& options) {
  return FileBuilder(format, uri, list, objects, options).Build();
}

}  // namespace millrace::storage
