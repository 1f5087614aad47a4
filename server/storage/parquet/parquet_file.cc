#include "server/storage/parquet/parquet_file.h"

#include <arrow/util/key_value_metadata.h>
#include <google/protobuf/util/json_util.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/clean_text.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/storage/columns/arrow_error.h"
#include "server/storage/parquet/footer_counts.h"
#include "server/storage/parquet/group_decoder.h"
#include "server/storage/parquet/page_header.h"
#include "server/storage/parquet/page_sizes.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic = "PAR1";
constexpr int64_t kTailBytes = 8;  // footer length, magic

// Max bytes of a footer that are examined before it is parsed. A schema of
// 10,000 columns is shorter than the first number, a schema of 100,000 columns
// is shorter than the second.
constexpr int64_t kFooterStartBytes = 1 << 20;
constexpr int64_t kMaxFooterStartBytes = 8 << 20;

// Max names in the path of a column that Arrow parses: 100 with the schema's
// own.
constexpr uint64_t kMaxPathNames = 99;
// Of a column's name in an error.
constexpr size_t kMaxNameBytes = 200;

// Parquet's lower layer throws exceptions; this function converts them.
absl::Status Catch(const std::string& path, absl::string_view action,
                   absl::FunctionRef<arrow::Status()> body) {
  arrow::Status status;
  try {
    status = body();
  } catch (const parquet::ParquetStatusException& error) {
    status = error.status();  // with the errno, if there is one
  } catch (const std::bad_alloc&) {
    status = arrow::Status::OutOfMemory("out of memory");
  } catch (const std::exception& error) {
    status = arrow::Status::IOError(error.what());
  }
  if (status.ok()) return absl::OkStatus();
  return ArrowReadError(status, action, path);
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      path, " ", what, "; copy the file again, or write it again"));
}

uint64_t NameBytes(const parquet::schema::Node& node) {
  uint64_t bytes = node.name().size();
  if (!node.is_group()) return bytes;
  const auto& group = static_cast<const parquet::schema::GroupNode&>(node);
  for (int i = 0; i < group.field_count(); ++i) {
    bytes += NameBytes(*group.field(i));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ParquetFile>> ParquetFile::Open(
    const std::string& path, AdmitFooter admit) {
  std::shared_ptr<ParquetFile> file(new ParquetFile(path));
  MR_RETURN_IF_ERROR(file->OpenFile());
  absl::Status status = file->ParseFooter(admit);
  if (status.ok()) status = file->ReadSchema();
  if (status.ok()) status = file->ReadOrigin();
  // In a changed file, damage is reported as the change.
  MR_RETURN_IF_ERROR(file->CheckUnchanged());
  MR_RETURN_IF_ERROR(status);
  return file;
}

absl::Status ParquetFile::OpenFile() {
  auto opened = arrow::io::ReadableFile::Open(path_);
  if (!opened.ok()) return ArrowWriteError(opened.status(), "open", path_);
  file_ = *std::move(opened);
  MR_ASSIGN_OR_RETURN(watch_,
                      FileWatch::Begin(path_, file_->file_descriptor()));
  return absl::OkStatus();
}

absl::Status ParquetFile::ReadAt(int64_t at, int64_t count,
                                 std::string* out) const {
  return Catch(path_, "read", [&]() -> arrow::Status {
    out->resize(count);
    ARROW_ASSIGN_OR_RAISE(const int64_t got,
                          file_->ReadAt(at, count, out->data()));
    out->resize(got);
    return arrow::Status::OK();
  });
}

absl::Status ParquetFile::ParseFooter(AdmitFooter admit) {
  const int64_t bytes = this->bytes();
  if (bytes == 0) return Damaged(path_, "is empty");
  std::string head;
  MR_RETURN_IF_ERROR(ReadAt(0, kMagic.size(), &head));
  if (head == "PARE") {
    return absl::UnimplementedError(
        absl::StrCat(path_, " is encrypted, which is not supported"));
  }
  if (head != kMagic) return Damaged(path_, "is not a Parquet file");
  std::string tail;
  if (bytes >= static_cast<int64_t>(kMagic.size()) + kTailBytes) {
    MR_RETURN_IF_ERROR(ReadAt(bytes - kTailBytes, kTailBytes, &tail));
  }
  if (tail.size() != kTailBytes ||
      absl::string_view(tail).substr(4) != kMagic) {
    return Damaged(path_, "is truncated: a Parquet file ends with its footer");
  }
  uint32_t length;
  std::memcpy(&length, tail.data(), sizeof(length));
  if (length == 0 ||
      length > bytes - kTailBytes - static_cast<int64_t>(kMagic.size())) {
    return Damaged(path_, "has a damaged footer");
  }
  footer_bytes_ = length;
  std::string footer;
  std::optional<FooterCounts> counted;
  for (int64_t start = kFooterStartBytes;; start *= 2) {
    MR_RETURN_IF_ERROR(ReadAt(bytes - kTailBytes - length,
                              std::min<int64_t>(length, start), &footer));
    counted = CountFooter(footer, length);
    if (counted.has_value() || start >= length ||
        start >= kMaxFooterStartBytes) {
      break;
    }
  }
  if (counted.has_value() && counted->max_path_names > kMaxPathNames) {
    return absl::UnimplementedError(absl::StrCat(
        path_, " has a column '",
        CleanText(counted->deepest_column, kMaxNameBytes), "' that is nested ",
        counted->max_path_names, " levels deep, and the maximum is ",
        kMaxPathNames, "; flatten the column, or write the file without it"));
  }
  std::optional<uint64_t> parsed;
  const auto check_lists = [&] {
    parsed = ParsedBytesOf(footer);
    return parsed.has_value() ? absl::OkStatus()
                              : Damaged(path_, "has a damaged footer");
  };
  if (footer.size() == length) MR_RETURN_IF_ERROR(check_lists());
  // A footer that could not be counted is almost all schema, or damaged.
  const FooterCounts counts = counted.value_or(MaxFooterCounts(length));
  const uint64_t admitted = counts.ParsedBytes(length);
  MR_RETURN_IF_ERROR(admit(admitted, counts.chunks()));
  if (footer.size() < length) {
    MR_ASSIGN_OR_RETURN(footer, ReadFooter());
    MR_RETURN_IF_ERROR(check_lists());
  }
  if (*parsed > admitted) {
    return Damaged(path_,
                   "has a damaged footer: its row groups hold more columns "
                   "than its schema");
  }
  return Catch(path_, "read the footer of", [&] {
    metadata_ = parquet::FileMetaData::Make(footer.data(), int64_t{length});
    return arrow::Status::OK();
  });
}

absl::StatusOr<std::string> ParquetFile::ReadFooter() const {
  std::string footer;
  MR_RETURN_IF_ERROR(
      ReadAt(bytes() - kTailBytes - footer_bytes_, footer_bytes_, &footer));
  if (footer.size() != footer_bytes_) {
    return Damaged(path_, "no longer has a footer");
  }
  return footer;
}

uint64_t ParquetFile::metadata_bytes() const {
  FooterCounts counts;
  counts.row_groups = static_cast<uint64_t>(row_groups());
  counts.columns = static_cast<uint64_t>(metadata_->num_columns());
  counts.elements = static_cast<uint64_t>(metadata_->num_schema_elements());
  counts.name_bytes = NameBytes(*metadata_->schema()->schema_root());
  for (int i = 0; i < metadata_->num_columns(); ++i) {
    counts.path_names +=
        metadata_->schema()->Column(i)->path()->ToDotVector().size();
  }
  return counts.ParsedBytes(footer_bytes_);
}

absl::Status ParquetFile::ReadSchema() {
  MR_RETURN_IF_ERROR(Catch(path_, "read the schema of", [&] {
    return parquet::arrow::FromParquetSchema(
        metadata_->schema(), DecoderProperties(),
        metadata_->key_value_metadata(), &schema_);
  }));
  MR_RETURN_IF_ERROR(Catch(path_, "read the schema of", [&] {
    const parquet::SchemaDescriptor& schema = *metadata_->schema();
    const parquet::schema::GroupNode& columns = *schema.group_node();
    int leaf = 0;
    for (int i = 0; i < columns.field_count(); ++i) {
      first_leaf_.push_back(leaf);
      while (leaf < schema.num_columns() &&
             schema.GetColumnRoot(leaf) == columns.field(i).get()) {
        ++leaf;
      }
    }
    first_leaf_.push_back(leaf);
    return columns.field_count() == schema_->num_fields()
               ? arrow::Status::OK()
               : arrow::Status::Invalid("its schemas do not fit together");
  }));
  return Catch(path_, "read the footer of", [&] {
    rows_ = metadata_->num_rows();
    group_starts_.push_back(0);
    for (int i = 0; i < metadata_->num_row_groups(); ++i) {
      const int64_t rows = metadata_->RowGroup(i)->num_rows();
      if (rows < 0 || rows > rows_ - group_starts_.back()) {
        return arrow::Status::Invalid("its row groups do not fit together");
      }
      group_starts_.push_back(group_starts_.back() + rows);
    }
    if (group_starts_.back() != rows_) {
      return arrow::Status::Invalid("its row groups do not fit together");
    }
    return arrow::Status::OK();
  });
}

absl::Status ParquetFile::ReadOrigin() {
  const auto find = [](const auto& metadata, const char* key) {
    std::string value;
    if (metadata != nullptr) {
      if (const int at = metadata->FindKey(key); at >= 0) {
        value = metadata->value(at);
      }
    }
    return value;
  };
  const auto& in_file = metadata_->key_value_metadata();
  features_json_ = find(in_file, kFeaturesKey);
  if (features_json_.empty()) {
    features_json_ = find(schema_->metadata(), kFeaturesKey);
  }
  const std::string json = find(in_file, kShardMetadataKey);
  if (json.empty()) return absl::OkStatus();
  if (!absl::StartsWith(metadata_->created_by(), kParquetCreator)) {
    // Arrow copies the metadata into files that it derives from other files.
    MR_LOG(INFO) << path_ << " was rewritten by " << metadata_->created_by()
                 << ": the server reads it as a foreign file";
    return absl::OkStatus();
  }
  ShardMetadata packed;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // fields of later versions
  if (!google::protobuf::util::JsonStringToMessage(json, &packed, options)
           .ok()) {
    return Damaged(path_, "has damaged metadata");
  }
  if (packed.shard_samples() != rows_) {
    return Damaged(path_, absl::StrCat("has ", rows_, " rows instead of ",
                                       packed.shard_samples()));
  }
  packed_ = std::move(packed);
  return absl::OkStatus();
}

absl::StatusOr<int> ParquetFile::Leaf(const std::string& column,
                                      ColumnForm form) const {
  std::vector<int> leaves;
  for (const int i : schema_->GetAllFieldIndices(column)) {
    for (int leaf = first_leaf_[i]; leaf < first_leaf_[i + 1]; ++leaf) {
      if (form == ColumnForm::kImageStruct) {
        const std::vector<std::string> path =
            metadata_->schema()->Column(leaf)->path()->ToDotVector();
        if (path.size() < 2 || path[1] != "bytes") continue;
      }
      leaves.push_back(leaf);
    }
  }
  if (leaves.empty()) {
    std::string names;
    for (const auto& field : schema_->fields()) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", field->name());
    }
    return absl::InvalidArgumentError(absl::StrCat(
        path_, " has no column '", column, "'; ",
        names.empty() ? "it has no columns" : "its columns are: ", names));
  }
  // Every supported form contains numbers or strings of one type.
  if (leaves.size() != 1) {
    return Damaged(
        path_,
        absl::StrCat("has, for column '", column,
                     "', another type in its metadata than in its schema"));
  }
  return leaves.front();
}

absl::StatusOr<std::vector<ChunkCost>> ParquetFile::CostsOf(
    const ColumnPlan& plan) const {
  const std::shared_ptr<arrow::Field> column =
      schema_->GetFieldByName(plan.name);
  const uint64_t widened =
      column == nullptr ? 0 : WidenedBytes(plan, *column->type());
  const bool text = column != nullptr && MayBeDictionary(plan, *column->type());
  std::vector<ChunkCost> costs;
  costs.reserve(row_groups());
  MR_RETURN_IF_ERROR(Catch(path_, "read the footer of", [&] {
    const parquet::ColumnDescriptor& leaf =
        *metadata_->schema()->Column(plan.leaf);
    for (int i = 0; i < row_groups(); ++i) {
      const auto group = metadata_->RowGroup(i);
      costs.push_back(CostOf(*group->ColumnChunk(plan.leaf), leaf,
                             group->num_rows(), widened, text));
    }
    return arrow::Status::OK();
  }));
  return costs;
}

int64_t ParquetFile::FirstPageRows(int group, const ColumnPlan& plan) const {
  // A value of PageType.
  constexpr int64_t kDictionaryPage = 2;
  ChunkPlace place;
  double values_per_row = 0;
  // Damage is reported when the chunk is decoded.
  static_cast<void>(Catch(path_, "read the footer of", [&] {
    const auto chunk = metadata_->RowGroup(group)->ColumnChunk(plan.leaf);
    place = PlaceOf(*chunk, *metadata_);
    values_per_row =
        static_cast<double>(chunk->num_values()) /
        static_cast<double>(group_starts_[group + 1] - group_starts_[group]);
    return arrow::Status::OK();
  }));
  if (!(values_per_row > 0)) return 0;
  for (int64_t at = place.begin; at < place.begin + place.bytes;) {
    std::string bytes;
    if (!ReadAt(at, kUsualPageHeaderBytes, &bytes).ok()) return 0;
    const std::optional<PageHeader> header = ParsePageHeader(bytes);
    if (!header.has_value()) return 0;
    if (header->type != kDictionaryPage) {
      return static_cast<int64_t>(static_cast<double>(header->values) /
                                  values_per_row);
    }
    at += header->bytes + header->stored;
  }
  return 0;
}

absl::StatusOr<std::vector<ChunkPlace>> ParquetFile::PlacesOf(
    const ColumnPlan& plan) const {
  std::vector<ChunkPlace> places;
  MR_RETURN_IF_ERROR(Catch(path_, "read the footer of", [&] {
    for (int i = 0; i < row_groups(); ++i) {
      ChunkPlace place =
          PlaceOf(*metadata_->RowGroup(i)->ColumnChunk(plan.leaf), *metadata_);
      place.begin = std::min(place.begin, bytes());
      place.bytes = std::min(place.bytes, bytes() - place.begin);
      places.push_back(place);
    }
    return arrow::Status::OK();
  }));
  return places;
}

absl::StatusOr<std::vector<DecodeBound>> ParquetFile::BoundsOf(
    int group, absl::Span<const Column> columns) const {
  std::vector<DecodeBound> bounds;
  MR_RETURN_IF_ERROR(Catch(path_, "read the pages of", [&]() -> arrow::Status {
    for (const Column& column : columns) {
      const int leaf = column.plan->leaf;
      const auto chunk = metadata_->RowGroup(group)->ColumnChunk(leaf);
      ARROW_ASSIGN_OR_RAISE(const PageSizes pages,
                            ReadPageSizes(*file_, PlaceOf(*chunk, *metadata_),
                                          chunk->compression()));
      bounds.push_back(BoundOf(*chunk, *metadata_->schema()->Column(leaf),
                               column.cost, pages));
    }
    return arrow::Status::OK();
  }));
  return bounds;
}

absl::StatusOr<std::shared_ptr<RowGroup>> ParquetFile::Decode(
    const Slice& slice, std::vector<Column> columns,
    PageRows::OfShard page_rows, std::shared_ptr<BoundedPool> pool,
    Waste* waste) const {
  while (true) {
    int failed = -1;
    auto decoded = TryDecode(slice, columns, page_rows, pool, waste, &failed);
    if (decoded.ok()) return decoded;
    if (pool->refused_bytes() > 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": decoding rows ", slice.begin, " to ", slice.end,
          " of row group ", slice.group,
          failed < 0
              ? ""
              : absl::StrCat(", column '", columns[failed].plan->name, "',"),
          " takes more than ", FormatExactByteSize(pool->limit()),
          " of memory"));
    }
    // The dictionary contains equal values, which few writers produce.
    if (!absl::IsUnimplemented(decoded.status()) || failed < 0 ||
        !columns[failed].cost.dictionary) {
      return decoded;
    }
    columns[failed].cost.dictionary = false;
  }
}

absl::StatusOr<std::shared_ptr<RowGroup>> ParquetFile::TryDecode(
    const Slice& slice, const std::vector<Column>& columns,
    PageRows::OfShard page_rows, const std::shared_ptr<BoundedPool>& pool,
    Waste* waste, int* failed) const {
  std::vector<GroupDecoder::Column> leaves;
  for (const Column& column : columns) {
    leaves.push_back({.leaf = column.plan->leaf,
                      .dictionary = column.cost.dictionary,
                      .stream = column.cost.stream});
  }
  std::unique_ptr<GroupDecoder> decoder;
  MR_RETURN_IF_ERROR(Catch(path_, "decode", [&] {
    return GroupDecoder::Make(file_, metadata_, slice.group, std::move(leaves),
                              page_rows, pool.get())
        .Value(&decoder);
  }));
  const int64_t rows = slice.end - slice.begin;
  auto decoded = std::make_shared<RowGroup>(rows, pool);
  for (size_t i = 0; i < columns.size(); ++i) {
    *failed = static_cast<int>(i);
    arrow::ArrayVector chunks;
    const std::string action =
        absl::StrCat("decode column '", columns[i].plan->name, "' of");
    MR_RETURN_IF_ERROR(Catch(path_, action, [&] {
      return decoder
          ->Read(static_cast<int>(i), slice.begin, slice.end,
                 std::max<int64_t>(1, rows))
          .Value(&chunks);
    }));
    const int64_t dropped = decoder->dropped_rows();
    const auto bytes = static_cast<uint64_t>(columns[i].cost.per_row *
                                             static_cast<double>(dropped));
    if (bytes > waste->bytes) {
      *waste = {.field = columns[i].field,
                .rows = dropped,
                .bytes = bytes,
                .hidden = decoder->rows_hidden()};
    }
    const absl::Status added =
        decoded->Add(columns[i].field, std::move(chunks), *columns[i].plan);
    if (!added.ok()) {
      return absl::Status(added.code(),
                          absl::StrCat(path_, ": ", added.message()));
    }
  }
  return decoded;
}

}  // namespace millrace::storage
