#include "server/storage/extents/index_builder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "server/storage/content_hash.h"
#include "server/storage/extents/file_index_builder.h"
#include "server/storage/extents/reader_window.h"
#include "server/storage/extents/record_splitter.h"
#include "server/storage/extents/task_run.h"

namespace millrace::storage {
namespace {

// Records of one object that one thread reads at a time: at most this many
// bytes together, unless one record has more.
constexpr uint64_t kPieceBytes = 4 << 20;

// `status` with the object, unless the message names it.
absl::Status InObject(const absl::Status& status, const std::string& name) {
  if (status.ok() || absl::StrContains(status.message(), name)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

// What the scan of one object has found.
struct Scanned {
  ObjectIdentity identity;
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> bytes;
  // One for each record, or none at all.
  std::vector<int64_t> classes;
};

// Records of one object that are read by one task.
struct Piece {
  size_t object = 0;
  int64_t first = 0;  // sample of the dataset
  int64_t end = 0;
};

class Builder {
 public:
  Builder(const ExtentFormat& format, const ExtentUri& uri,
          const ObjectList& list, ObjectReader& objects,
          const BuildOptions& options)
      : format_(format),
        uri_(uri),
        list_(list),
        objects_(objects),
        options_(options) {}

  absl::StatusOr<BuiltIndex> Build() {
    MR_RETURN_IF_ERROR(MakeRule());
    MR_RETURN_IF_ERROR(ScanAll());
    MR_RETURN_IF_ERROR(CheckTwice());
    Join();
    if (options_.content) {
      MR_RETURN_IF_ERROR(ReadAll());
    } else {
      UseScannedClasses();
    }
    built_.head.set_listing_sum(HashToHex(ExtentListingSum(
        built_.head, built_.columns.offsets, built_.columns.bytes)));
    return std::move(built_);
  }

 private:
  absl::Status MakeRule() {
    const std::string& name = list_.names.front();
    MR_ASSIGN_OR_RETURN(const ObjectIdentity identity, objects_.Stat(name));
    if (identity.bytes == 0) return Empty(name);
    ReaderWindow window(&objects_, name, identity);
    absl::StatusOr<std::unique_ptr<FieldRule>> rule =
        format_.NewRule(list_, uri_.options, window);
    // Before an error of bytes that may be another version's.
    MR_RETURN_IF_ERROR(window.CheckIdentity());
    if (!rule.ok()) return InObject(rule.status(), name);
    rule_ = *std::move(rule);
    // The names and numbers of the options do not belong into the index, but
    // wrong options are refused before the scan.
    schema_ = rule_->schema();
    Schema with_classes = schema_;
    MR_RETURN_IF_ERROR(uri_.ApplyTo(rule_->class_field(), &with_classes));
    MR_ASSIGN_OR_RETURN(
        RecordSplitter splitter,
        RecordSplitter::Create(*rule_, uri_.label_offset, with_classes));
    splitter_.emplace(std::move(splitter));
    return absl::OkStatus();
  }

  static absl::Status Empty(const std::string& name) {
    return absl::DataLossError(
        absl::StrCat(name, " has no records: write it again, or remove it"));
  }

  absl::Status ScanAll() {
    const auto count = static_cast<int64_t>(list_.names.size());
    scanned_.resize(list_.names.size());
    TaskRun run;
    return run.Run(
        count, options_.threads,
        [this] {
          return [this](int64_t i) {
            const absl::Status status = Scan(static_cast<size_t>(i));
            ++done_;
            return InObject(status, list_.names[static_cast<size_t>(i)]);
          };
        },
        [&] {
          return !options_.progress || options_.progress(done_, count, 0);
        });
  }

  absl::Status Scan(size_t object) {
    const std::string& name = list_.names[object];
    Scanned& scanned = scanned_[object];
    MR_ASSIGN_OR_RETURN(scanned.identity, objects_.Stat(name));
    if (scanned.identity.bytes == 0) return Empty(name);
    ReaderWindow window(&objects_, name, scanned.identity);
    const absl::Status status = ScanRecords(window, &scanned);
    // Before an error of bytes that may be another version's.
    MR_RETURN_IF_ERROR(window.CheckIdentity());
    MR_RETURN_IF_ERROR(status);
    return scanned.offsets.empty() ? Empty(name) : absl::OkStatus();
  }

  absl::Status ScanRecords(ReaderWindow& window, Scanned* to) const {
    Scanned& scanned = *to;
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordScanner> scanner,
                        format_.Scan(window, *rule_));
    bool classes = rule_->class_field() >= 0;
    for (;;) {
      MR_ASSIGN_OR_RETURN(const std::optional<IndexedRecord> record,
                          scanner->Next());
      if (!record.has_value()) break;
      if (record->bytes > UINT32_MAX) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "byte ", record->offset, ": the record ", record->name, " has ",
            record->bytes, " bytes; the maximum is ", UINT32_MAX));
      }
      if (record->offset > scanned.identity.bytes ||
          record->bytes > scanned.identity.bytes - record->offset) {
        return absl::DataLossError(absl::StrCat(
            "byte ", record->offset, ": the record ", record->name,
            " is cut off: it has ", record->bytes,
            " bytes, and the object ends at byte ", scanned.identity.bytes));
      }
      scanned.offsets.push_back(record->offset);
      scanned.bytes.push_back(static_cast<uint32_t>(record->bytes));
      classes &= record->class_index.has_value();
      if (!classes) continue;
      const absl::StatusOr<int64_t> index =
          splitter_->ClassIndex(*record->class_index);
      if (!index.ok()) {
        return absl::Status(
            index.status().code(),
            absl::StrCat("byte ", record->offset, ": record ", record->name,
                         ": ", index.status().message()));
      }
      scanned.classes.push_back(*index);
    }
    if (!classes) scanned.classes.clear();
    return absl::OkStatus();
  }

  // Refuses one file under two names.
  absl::Status CheckTwice() const {
    std::map<std::tuple<uint64_t, uint64_t, int64_t, int64_t, std::string>,
             size_t>
        seen;
    for (size_t i = 0; i < scanned_.size(); ++i) {
      const ObjectIdentity& id = scanned_[i].identity;
      // Of an object store the name tells.
      const std::string name = id.inode == 0 ? list_.names[i] : "";
      const auto [it, is_new] =
          seen.emplace(std::tuple(id.inode, id.bytes, id.modified_nanos,
                                  id.changed_nanos, name),
                       i);
      if (is_new) continue;
      const std::string& first = list_.names[it->second];
      const std::string& again = list_.names[i];
      return absl::InvalidArgumentError(
          first == again
              ? absl::StrCat(again, " is in the list twice; name it once")
              : absl::StrCat(again, " and ", first,
                             " are one file under two names; name it once"));
    }
    return absl::OkStatus();
  }

  // One list of all records.
  void Join() {
    ExtentIndexHead& head = built_.head;
    head.set_format(std::string(format_.scheme()));
    head.set_path(uri_.path);
    head.set_options(uri_.record_options);
    head.set_rule(rule_->Encode());
    *head.mutable_schema() = schema_;
    size_t count = 0;
    for (const Scanned& scanned : scanned_) count += scanned.offsets.size();
    ExtentColumns& columns = built_.columns;
    columns.offsets.reserve(count);
    columns.bytes.reserve(count);
    have_classes_ = rule_->class_field() >= 0;
    for (size_t i = 0; i < scanned_.size(); ++i) {
      Scanned& scanned = scanned_[i];
      ExtentIndexObject& object = *head.add_objects();
      object.set_name(list_.names[i]);
      SetIdentity(scanned.identity, &object);
      object.set_samples(static_cast<int64_t>(scanned.offsets.size()));
      columns.offsets.insert(columns.offsets.end(), scanned.offsets.begin(),
                             scanned.offsets.end());
      columns.bytes.insert(columns.bytes.end(), scanned.bytes.begin(),
                           scanned.bytes.end());
      have_classes_ &= !scanned.classes.empty();
      scanned.offsets = {};
      scanned.bytes = {};
    }
  }

  void SetClasses(int64_t largest) {
    Field& field =
        *built_.head.mutable_schema()->mutable_fields(rule_->class_field());
    field.set_num_classes(std::max(field.num_classes(), largest + 1));
  }

  void UseScannedClasses() {
    if (!have_classes_) return;
    ExtentIndexValues& entry = *built_.head.add_values();
    entry.set_field(rule_->class_field());
    entry.set_bytes(sizeof(int64_t));
    std::string& values = built_.columns.values.emplace_back();
    values.reserve(built_.columns.offsets.size() * sizeof(int64_t));
    int64_t largest = 0;
    for (const Scanned& scanned : scanned_) {
      values.append(reinterpret_cast<const char*>(scanned.classes.data()),
                    scanned.classes.size() * sizeof(int64_t));
      for (const int64_t index : scanned.classes) {
        largest = std::max(largest, index);
      }
    }
    SetClasses(largest);
  }

  // Columns for the fields of fixed size as far as there is room, and for the
  // lengths of ragged ones.
  void AddColumns() {
    const auto count = built_.columns.offsets.size();
    uint64_t value_bytes = 0;
    // The class index comes first.
    std::vector<int> order = splitter_->all();
    std::stable_partition(order.begin(), order.end(), [this](int field) {
      return field == rule_->class_field();
    });
    for (const int field : order) {
      const int64_t bytes = splitter_->check().fixed_bytes(field);
      if (bytes > 0 && value_bytes + bytes <= kMaxValueBytes) {
        value_bytes += static_cast<uint64_t>(bytes);
        ExtentIndexValues& entry = *built_.head.add_values();
        entry.set_field(field);
        entry.set_bytes(static_cast<uint32_t>(bytes));
        built_.columns.values.emplace_back(count * bytes, '\0');
      }
      if (schema_.fields(field).kind() == FIELD_KIND_RAGGED) {
        built_.head.add_lengths(field);
        built_.columns.lengths.emplace_back(count);
      }
    }
  }

  void CutPieces() {
    int64_t first = 0;
    for (size_t object = 0; object < scanned_.size(); ++object) {
      const int64_t end =
          first + built_.head.objects(static_cast<int>(object)).samples();
      while (first < end) {
        int64_t last = first + 1;
        while (last < end && SpanOf(first, last + 1) <= kPieceBytes) ++last;
        pieces_.push_back({object, first, last});
        first = last;
      }
    }
  }

  // Bytes from the beginning of the first record to the end of the last, if
  // little lies between them; otherwise UINT64_MAX.
  uint64_t SpanOf(int64_t first, int64_t end) const {
    const ExtentColumns& columns = built_.columns;
    const uint64_t begin = columns.offsets[first];
    const uint64_t last = columns.offsets[end - 1];
    const uint64_t before = columns.offsets[end - 2] + columns.bytes[end - 2];
    constexpr uint64_t kGapBytes = 64 << 10;
    if (last < before || last - before > kGapBytes) return UINT64_MAX;
    return last + columns.bytes[end - 1] - begin;
  }

  absl::Status ReadAll() {
    AddColumns();
    CutPieces();
    {
      MutexLock lock(mu_);
      sums_.resize(scanned_.size());
    }
    const auto count = static_cast<int64_t>(built_.columns.offsets.size());
    done_ = 0;
    TaskRun run;
    MR_RETURN_IF_ERROR(run.Run(
        static_cast<int64_t>(pieces_.size()), options_.threads,
        [this] {
          struct State {
            explicit State(size_t fields) : fields(fields) {}
            std::vector<uint8_t> buffer;
            RecordFields fields;
          };
          const auto state = std::make_shared<State>(splitter_->all().size());
          return [this, state](int64_t i) {
            return ReadPiece(pieces_[static_cast<size_t>(i)], &state->buffer,
                             &state->fields);
          };
        },
        [&] {
          return !options_.progress || options_.progress(done_, count, bytes_);
        }));
    ContentSum sum;
    MutexLock lock(mu_);
    for (size_t i = 0; i < sums_.size(); ++i) {
      built_.head.mutable_objects(static_cast<int>(i))
          ->set_content_sum(HashToHex(sums_[i].value()));
      sum.Add(sums_[i].value());
    }
    built_.head.set_content_sum(HashToHex(sum.value()));
    if (rule_->class_field() >= 0) SetClasses(largest_class_);
    return absl::OkStatus();
  }

  absl::Status ReadPiece(const Piece& piece, std::vector<uint8_t>* buffer,
                         RecordFields* fields) {
    const ExtentColumns& columns = built_.columns;
    const std::string& name = list_.names[piece.object];
    const uint64_t begin = columns.offsets[piece.first];
    const uint64_t bytes =
        columns.offsets[piece.end - 1] + columns.bytes[piece.end - 1] - begin;
    if (buffer->size() < bytes) buffer->resize(bytes);
    MR_RETURN_IF_ERROR(objects_.Read(name, scanned_[piece.object].identity,
                                     begin,
                                     absl::MakeSpan(buffer->data(), bytes)));
    ContentSum sum;
    int64_t largest = 0;
    for (int64_t i = piece.first; i < piece.end; ++i) {
      const absl::Span<const uint8_t> record(
          buffer->data() + (columns.offsets[i] - begin), columns.bytes[i]);
      if (const absl::Status status =
              splitter_->Split(record, {}, splitter_->all(), fields);
          !status.ok()) {
        const std::string record_name = rule_->NameOf(record);
        return absl::Status(
            status.code(),
            absl::StrCat(name, ": record ", FirstRow(piece, i),
                         record_name.empty() ? "" : " (", record_name,
                         record_name.empty() ? "" : ")", " at byte ",
                         columns.offsets[i], ": ", status.message()));
      }
      sum.Add(i, fields->all());
      largest = std::max(largest, Keep(i, fields->all()));
    }
    done_ += piece.end - piece.first;
    bytes_ += static_cast<int64_t>(bytes);
    MutexLock lock(mu_);
    sums_[piece.object].Add(sum.value());
    largest_class_ = std::max(largest_class_, largest);
    return absl::OkStatus();
  }

  // The row of sample `i` in its object.
  int64_t FirstRow(const Piece& piece, int64_t i) const {
    for (size_t object = 0; object < piece.object; ++object) {
      i -= built_.head.objects(static_cast<int>(object)).samples();
    }
    return i;
  }

  // Writes the sample's places of the columns, which belong to this thread.
  // Returns its class index; 0: it has none.
  int64_t Keep(int64_t i, absl::Span<const absl::Span<const uint8_t>> fields) {
    for (int c = 0; c < built_.head.values_size(); ++c) {
      const ExtentIndexValues& entry = built_.head.values(c);
      std::memcpy(built_.columns.values[c].data() + i * entry.bytes(),
                  fields[entry.field()].data(), entry.bytes());
    }
    for (int c = 0; c < built_.head.lengths_size(); ++c) {
      built_.columns.lengths[c][i] =
          static_cast<uint32_t>(fields[built_.head.lengths(c)].size());
    }
    int64_t index = 0;
    if (rule_->class_field() >= 0) {
      std::memcpy(&index, fields[rule_->class_field()].data(), sizeof(index));
    }
    return index;
  }

  const ExtentFormat& format_;
  const ExtentUri& uri_;
  const ObjectList& list_;
  ObjectReader& objects_;
  const BuildOptions& options_;
  std::unique_ptr<FieldRule> rule_;
  Schema schema_;  // of the rule
  std::optional<RecordSplitter> splitter_;
  // Each is written by one task, and read after all of them.
  std::vector<Scanned> scanned_;
  bool have_classes_ = false;
  BuiltIndex built_;
  std::vector<Piece> pieces_;
  std::atomic<int64_t> done_{0};  // objects, then records
  std::atomic<int64_t> bytes_{0};
  Mutex mu_;
  std::vector<ContentSum> sums_ MR_GUARDED_BY(mu_);  // of each object
  int64_t largest_class_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace

absl::StatusOr<BuiltIndex> BuildExtentIndex(const ExtentFormat& format,
                                            const ExtentUri& uri,
                                            const ObjectList& list,
                                            ObjectReader& objects,
                                            const BuildOptions& options) {
  if (list.names.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no file at ", uri.path, "; check the path"));
  }
  if (format.names_files()) {
    return BuildFileIndex(format, uri, list, objects, options);
  }
  return Builder(format, uri, list, objects, options).Build();
}

}  // namespace millrace::storage
