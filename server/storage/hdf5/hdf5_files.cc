#include "server/storage/hdf5/hdf5_files.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/chunks/stored_type.h"
#include "server/storage/content_hash.h"
#include "server/storage/hdf5/hdf5_paths.h"
#include "server/storage/hdf5/reader_process.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

// A label that no option names is a class index up to this number, as that of a
// table of paths.
constexpr int64_t kMaxImpliedClass = 262'143;
// Parts of a file that the fingerprint covers; a smaller file as a whole.
constexpr uint64_t kPieceBytes = 4096;
constexpr uint64_t kPieces = 1024;
constexpr uint64_t kWholeBytes = uint64_t{64} << 20;

// Of one element of a variable value: of a text one byte.
uint64_t ElementBytes(const Hdf5Dataset& set) {
  return set.stored() == 0 ? 1 : set.element_bytes();
}

// Smallest and largest value of the labels, and their hash.
struct LabelRange {
  int64_t min = std::numeric_limits<int64_t>::max();
  int64_t max = std::numeric_limits<int64_t>::min();
  std::string hashes;
};

class Description {
 public:
  Description(const ExtentUri& uri, ObjectReader& objects, RowBlocks& blocks)
      : uri_(uri), objects_(objects), blocks_(blocks) {}

  absl::StatusOr<Hdf5Files> Describe() {
    MR_RETURN_IF_ERROR(UsageError(CheckHdf5Options(uri_.options)));
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                        FindHdf5Files(uri_.path));
    // File by file, while the process of the file runs.
    for (const std::string& path : paths) {
      MR_RETURN_IF_ERROR(AddFile(path));
      if (files_.files.size() == 1) MR_RETURN_IF_ERROR(ChooseFields());
      MR_RETURN_IF_ERROR(FindLargest(&files_.files.back()));
      MR_RETURN_IF_ERROR(CheckOffsets(&files_.files.back()));
      MR_RETURN_IF_ERROR(ReadLabels(files_.files.back()));
    }
    MR_RETURN_IF_ERROR(CountClasses());
    MR_RETURN_IF_ERROR(DescribeSet());
    return std::move(files_);
  }

 private:
  absl::Status AddFile(const std::string& path) {
    Hdf5File file;
    file.path = path;
    MR_ASSIGN_OR_RETURN(file.identity, objects_.Stat(path));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<ReaderProcess> process,
                        ReaderProcess::Start(path));
    const Hdf5Layout& layout = process->layout();
    if (files_.files.empty()) {
      MR_ASSIGN_OR_RETURN(files_.table,
                          ChooseDatasets(layout, path, uri_.options));
      for (const Hdf5Column& column : files_.table.columns) {
        file.numbers.push_back(column.set);
      }
      file.samples = files_.table.rows;
      // Only what the columns need stays in memory.
      for (int i = 0; i < layout.datasets_size(); ++i) {
        Hdf5Dataset& set = *first_layout_.add_datasets();
        set = layout.datasets(i);
        set.clear_chunk_offsets();
      }
    } else {
      MR_ASSIGN_OR_RETURN(
          file.numbers,
          MatchDatasets(files_.table, first_layout_, files_.files[0].path,
                        layout, path, &file.samples));
    }
    for (const int number : file.numbers) {
      file.sets.push_back(layout.datasets(number));
    }
    file.first_sample = samples_;
    if (file.samples > std::numeric_limits<int64_t>::max() - samples_) {
      return absl::DataLossError(absl::StrCat(path, " has too many rows"));
    }
    samples_ += file.samples;
    files_.files.push_back(std::move(file));
    blocks_.Add(std::move(process));
    return absl::OkStatus();
  }

  // Calls `use` with the row of column `column`.
  template <typename Use>
  absl::Status Read(const Hdf5File& file, size_t column, uint64_t row,
                    RowBlocks::Ahead ahead, const Use& use) {
    return blocks_.Read(file.path, file.numbers[column], row, ahead, use);
  }

  absl::Status ChooseFields() {
    const Hdf5File& first = files_.files[0];
    first_row_.resize(files_.table.columns.size());
    std::vector<absl::Span<const uint8_t>> values;
    for (size_t i = 0; i < first_row_.size(); ++i) {
      MR_RETURN_IF_ERROR(Read(first, i, 0, RowBlocks::Ahead::kNone,
                              [&](absl::Span<const uint8_t> value) {
                                value = WithoutPadding(first.sets[i], value);
                                first_row_[i].assign(value.begin(),
                                                     value.end());
                              }));
      values.emplace_back(first_row_[i]);
    }
    MR_ASSIGN_OR_RETURN(
        files_.rule,
        ChooseHdf5Fields(files_.table, first_layout_, uri_.options, values));
    return absl::OkStatus();
  }

  // The column of the class index; -1: none.
  int LabelColumn() const {
    if (files_.rule->class_field() < 0) return -1;
    const auto& columns = files_.rule->columns();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].field == files_.rule->class_field()) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  absl::Status ReadLabels(const Hdf5File& file) {
    if (LabelColumn() < 0) return absl::OkStatus();
    const auto column = static_cast<size_t>(LabelColumn());
    const auto stored = static_cast<StoredType>(file.sets[column].stored());
    std::string values;  // hashed in blocks, whatever the chunks are
    for (int64_t row = 0; row < file.samples; ++row) {
      int64_t value = 0;
      absl::Status converted;
      MR_RETURN_IF_ERROR(
          Read(file, column, static_cast<uint64_t>(row),
               RowBlocks::Ahead::kBlock, [&](absl::Span<const uint8_t> bytes) {
                 if (stored == StoredType::kInt64) {
                   std::memcpy(&value, bytes.data(), sizeof(value));
                 } else {
                   converted = Convert(stored, bytes, DTYPE_INT64,
                                       reinterpret_cast<uint8_t*>(&value));
                 }
               }));
      if (!converted.ok()) {
        return absl::DataLossError(absl::StrCat(
            file.path, ": row ", row, " of the label: ", converted.message()));
      }
      labels_.min = std::min(labels_.min, value);
      labels_.max = std::max(labels_.max, value);
      values.append(reinterpret_cast<const char*>(&value), sizeof(value));
      if (values.size() == kPieceBytes) Hash(&values, &labels_);
    }
    Hash(&values, &labels_);
    return absl::OkStatus();
  }

  static void Hash(std::string* bytes, LabelRange* range) {
    range->hashes += HashToHex(HashBytes(
        {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}));
    bytes->clear();
    // The hash of the hashes so far keeps the text short.
    if (range->hashes.size() > kPieceBytes) {
      range->hashes = HashToHex(
          HashBytes({reinterpret_cast<const uint8_t*>(range->hashes.data()),
                     range->hashes.size()}));
    }
  }

  absl::Status CountClasses() {
    schema_ = files_.rule->schema();
    const int column = LabelColumn();
    if (column < 0) return ApplyOptions();
    const LabelRange& range = labels_;
    const bool named = uri_.options.contains("label") ||
                       !uri_.classes_file.empty() || uri_.num_classes > 0 ||
                       uri_.label_offset != 0;
    int64_t min;
    int64_t max;
    const bool overflows =
        __builtin_add_overflow(range.min, uri_.label_offset, &min) ||
        __builtin_add_overflow(range.max, uri_.label_offset, &max) ||
        max == std::numeric_limits<int64_t>::max();
    if (!overflows && min >= 0 && (named || max <= kMaxImpliedClass)) {
      Field& field = *schema_.mutable_fields(files_.rule->class_field());
      field.set_num_classes(max + 1);
      NameClasses(files_.files[0].sets[column], &field);
      return ApplyOptions();
    }
    if (named) {
      return UsageError(absl::InvalidArgumentError(absl::StrCat(
          uri_.ToString(), ": the labels of dataset '",
          CleanText(files_.table.columns[column].path, 200), "' are from ",
          range.min, " to ", range.max,
          uri_.label_offset == 0 ? ""
                                 : absl::StrCat(", with label_offset=",
                                                uri_.label_offset, " added"),
          ", and a class index begins at 0; set ?label_offset=K so that the "
          "smallest is 0, or write ?label= if they are no class indices")));
    }
    // Numbers that are no class indices: the same fields without a label.
    ExtentUri plain = uri_;
    plain.options["label"] = "";
    std::vector<absl::Span<const uint8_t>> values(first_row_.begin(),
                                                  first_row_.end());
    MR_ASSIGN_OR_RETURN(
        files_.rule,
        ChooseHdf5Fields(files_.table, first_layout_, plain.options, values));
    schema_ = files_.rule->schema();
    return ApplyOptions();
  }

  // An enumeration names its values.
  static void NameClasses(const Hdf5Dataset& set, Field* field) {
    const int names = set.value_names_size();
    if (names == 0 || names < field->num_classes()) return;
    for (const std::string& name : set.value_names()) {
      field->add_class_names(CleanText(name, 1000));
    }
    field->set_num_classes(names);
  }

  absl::Status ApplyOptions() {
    return UsageError(uri_.ApplyTo(files_.rule->class_field(), &schema_));
  }

  // Of values of variable length, reads all references.
  absl::Status FindLargest(Hdf5File* file) {
    for (Hdf5Dataset& set : file->sets) {
      uint64_t largest = 0;
      if (!set.packed().empty()) {
        largest = 0;
      } else if (!set.variable()) {
        largest = RowBytes(set);
      } else {
        MR_ASSIGN_OR_RETURN(const uint32_t elements, MostElements(*file, set));
        largest = elements * ElementBytes(set);
        if (largest > file->identity.bytes ||
            largest > std::numeric_limits<uint32_t>::max()) {
          return absl::DataLossError(absl::StrCat(
              file->path, ": dataset '", CleanText(set.name(), 200),
              "' has a value of ", largest, " bytes, which is ",
              largest > file->identity.bytes ? "more than the file has"
                                             : "4 GiB or more",
              "; copy the file again, or write it again"));
        }
      }
      file->largest.push_back(largest);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> MostElements(const Hdf5File& file,
                                        const Hdf5Dataset& set) {
    constexpr uint64_t kRows = 4096;  // of one read
    uint32_t most = 0;
    std::vector<uint8_t> bytes;
    for (int c = 0; c < set.chunk_offsets_size(); ++c) {
      const uint64_t begin = static_cast<uint64_t>(c) * set.chunk_rows();
      const uint64_t rows = std::min(set.chunk_rows(), set.dims(0) - begin);
      for (uint64_t row = 0; row < rows; row += kRows) {
        bytes.resize(std::min(kRows, rows - row) * kHeapReferenceBytes);
        MR_RETURN_IF_ERROR(
            objects_.Read(file.path, file.identity,
                          set.chunk_offsets(c) + row * kHeapReferenceBytes,
                          absl::MakeSpan(bytes)));
        for (size_t at = 0; at < bytes.size(); at += kHeapReferenceBytes) {
          most = std::max(most,
                          ParseHeapReference(absl::MakeConstSpan(bytes).subspan(
                                                 at, kHeapReferenceBytes))
                              .elements);
        }
      }
    }
    return most;
  }

  // What libhdf5 says of offsets is compared with what it reads: a dataset
  // whose first and last row are other bytes is not read by offset.
  absl::Status CheckOffsets(Hdf5File* file) {
    for (size_t i = 0; i < file->sets.size(); ++i) {
      Hdf5Dataset& set = file->sets[i];
      if (!set.packed().empty()) continue;
      for (const uint64_t row : {uint64_t{0}, set.dims(0) - 1}) {
        MR_ASSIGN_OR_RETURN(const bool same, IsAtItsOffset(*file, i, row));
        if (same) continue;
        set.set_packed("is stored in a way that Millrace does not know");
        set.clear_chunk_offsets();
        break;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> IsAtItsOffset(const Hdf5File& file, size_t column,
                                     uint64_t row) {
    const Hdf5Dataset& set = file.sets[column];
    const auto load = [&](uint64_t offset, absl::Span<uint8_t> to) {
      return objects_.Read(file.path, file.identity, offset, to);
    };
    const auto place = FindValue(set, row, file.identity.bytes, load);
    if (absl::IsDataLoss(place.status())) return false;
    MR_RETURN_IF_ERROR(place.status());
    std::vector<uint8_t> bytes(place->bytes);
    MR_RETURN_IF_ERROR(load(place->offset, absl::MakeSpan(bytes)));
    const absl::Span<const uint8_t> found = WithoutPadding(set, bytes);
    bool same = false;
    MR_RETURN_IF_ERROR(Read(file, column, row, RowBlocks::Ahead::kNone,
                            [&](absl::Span<const uint8_t> value) {
                              same = WithoutPadding(set, value) == found;
                            }));
    return same;
  }

  absl::Status DescribeSet() {
    DatasetInfo& info = files_.info;
    info.set_format("hdf5");
    info.set_samples(samples_);
    *info.mutable_schema() = schema_;
    for (const LeftOutColumn& column : files_.table.left_out) {
      *info.add_left_out() = column;
    }
    for (const Hdf5File& file : files_.files) {
      ShardInfo& shard = *info.add_shards();
      shard.set_name(ShardInfoName(file.path));
      shard.set_first_sample(file.first_sample);
      shard.set_samples(file.samples);
      shard.set_bytes(static_cast<int64_t>(file.identity.bytes));
    }
    const int label = files_.rule->class_field();
    if (label >= 0 && schema_.fields(label).name() == "label" &&
        std::any_of(schema_.fields().begin(), schema_.fields().end(),
                    [](const Field& field) {
                      return field.name() == "image" &&
                             field.kind() == FIELD_KIND_ENCODED_IMAGE;
                    })) {
      info.set_train_preset("imagenet_train");
      info.set_eval_preset("imagenet_eval");
    }
    return SetFingerprint();
  }

  absl::Status SetFingerprint() {
    ContentSum sum;
    for (size_t i = 0; i < files_.files.size(); ++i) {
      const Hdf5File& file = files_.files[i];
      const uint64_t size = file.identity.bytes;
      const bool whole = size <= kWholeBytes;
      const uint64_t pieces =
          whole ? (size + kPieceBytes - 1) / kPieceBytes : kPieces;
      std::string hashes = absl::StrCat(size, " ");
      std::string piece;
      for (uint64_t p = 0; p < pieces; ++p) {
        const uint64_t begin =
            whole ? p * kPieceBytes
                  : static_cast<uint64_t>(
                        static_cast<unsigned __int128>(size - kPieceBytes) * p /
                        (pieces - 1));
        piece.resize(std::min(kPieceBytes, size - begin));
        MR_RETURN_IF_ERROR(objects_.Read(
            file.path, file.identity, begin,
            absl::MakeSpan(reinterpret_cast<uint8_t*>(piece.data()),
                           piece.size())));
        hashes += HashToHex(HashBytes(
            {reinterpret_cast<const uint8_t*>(piece.data()), piece.size()}));
      }
      const absl::Span<const uint8_t> fields[] = {
          {reinterpret_cast<const uint8_t*>(hashes.data()), hashes.size()}};
      sum.Add(static_cast<int64_t>(i), fields);
    }
    const std::string text =
        absl::StrCat("millrace hdf5 1", uri_.record_options, labels_.hashes,
                     " ", DatasetFingerprint(samples_, schema_, sum.value()));
    files_.info.set_fingerprint(HashToHex(HashBytes(
        {reinterpret_cast<const uint8_t*>(text.data()), text.size()})));
    return absl::OkStatus();
  }

  const ExtentUri& uri_;
  ObjectReader& objects_;
  RowBlocks& blocks_;
  Hdf5Files files_;
  Hdf5Layout first_layout_;  // without offsets
  std::vector<std::vector<uint8_t>> first_row_;
  Schema schema_;
  LabelRange labels_;
  int64_t samples_ = 0;
};

}  // namespace

std::string WhyPacked(const Hdf5Files& files, size_t column) {
  for (const Hdf5File& file : files.files) {
    const Hdf5Dataset& set = file.sets[column];
    if (set.packed().empty()) continue;
    return absl::StrCat("dataset '", CleanText(set.name(), 200), "' of ",
                        file.path, " ", CleanText(set.packed(), 1000));
  }
  return "";
}

absl::StatusOr<ValuePlace> FindValue(const Hdf5Dataset& set, uint64_t row,
                                     uint64_t file_bytes, LoadBytes load) {
  const uint64_t row_bytes =
      set.variable() ? kHeapReferenceBytes : RowBytes(set);
  ValuePlace place = {
      .offset = set.chunk_offsets(static_cast<int>(row / set.chunk_rows())) +
                row % set.chunk_rows() * row_bytes,
      .bytes = row_bytes};
  if (!set.variable()) return place;
  uint8_t bytes[kHeapReferenceBytes];
  MR_RETURN_IF_ERROR(load(place.offset, absl::MakeSpan(bytes)));
  const HeapReference reference = ParseHeapReference(bytes);
  place.bytes = reference.elements * ElementBytes(set);
  if (place.bytes == 0) return place;
  MR_ASSIGN_OR_RETURN(place.offset,
                      FindHeapValue(reference, place.bytes, set.user_block(),
                                    file_bytes, load));
  return place;
}

absl::StatusOr<Hdf5Files> DescribeHdf5(const ExtentUri& uri,
                                       ObjectReader& objects,
                                       RowBlocks& blocks) {
  return Description(uri, objects, blocks).Describe();
}

}  // namespace millrace::storage
