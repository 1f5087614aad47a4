#include "server/data_tool/csv_dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/first_of.h"
#include "common/folder.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "common/utf8.h"
#include "server/data_tool/image_check.h"
#include "server/data_tool/progress.h"
#include "server/storage/csv/csv_table.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/imagefolder/operators_image.h"

namespace millrace::data_tool {
namespace {

constexpr size_t kMaxQuotedBytes = 200;

bool Exists(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0;
}

// Path and options of `input`. The path stays as the user wrote it: a relative
// path in the table is relative to the folder of this name, not to that of the
// file which a link names.
absl::StatusOr<storage::ExtentUri> ParseInput(const std::string& input) {
  size_t end = input.size();
  if (!Exists(input)) {
    end = input.find('?');
    for (size_t at = end; at != input.npos; at = input.find('?', at + 1)) {
      if (!Exists(input.substr(0, at))) continue;
      end = at;
      break;
    }
    end = std::min(end, input.size());
  }
  const std::string options = input.substr(end);
  // The name before the options has no meaning.
  MR_ASSIGN_OR_RETURN(
      storage::ExtentUri uri,
      storage::ExtentUri::Parse("csv", absl::StrCat("/table", options)));
  if (uri.path != "/table") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--input=", CleanText(input, kMaxQuotedBytes), ": ",
        CleanText(options, kMaxQuotedBytes),
        " is no list of options; write for example ?path=file&label=class"));
  }
  uri.path = input.substr(0, end);
  if (!Exists(uri.path)) {
    return absl::NotFoundError(
        absl::StrCat("there is no file ", uri.path,
                     "; set --input to the table of paths and labels"));
  }
  return uri;
}

class CsvDataset final : public SampleReader {
 public:
  explicit CsvDataset(const CsvDatasetOptions& options) : options_(options) {}

  absl::Status Open() {
    MR_ASSIGN_OR_RETURN(const storage::ExtentUri uri,
                        UsageError(ParseInput(options_.input)));
    file_ = uri.path;
    MR_RETURN_IF_ERROR(Parse(uri));
    FindDuplicates();
    MR_RETURN_IF_ERROR(LookAtStarts());
    MR_RETURN_IF_ERROR(CheckBad());
    if (options_.decode_threads > 0) {
      MR_RETURN_IF_ERROR(DecodeAll());
      MR_RETURN_IF_ERROR(CheckBad());
    }
    for (int64_t row = 0; row < table_->rows(); ++row) {
      if (!bad_.contains(row)) rows_.push_back(row);
    }
    if (rows_.empty()) {
      return absl::DataLossError(
          absl::StrCat("no row of ", file_, " can be packed: ", BadRows()));
    }
    description_.set_samples(static_cast<int64_t>(rows_.size()));
    if (table_->class_field() >= 0) {
      description_.set_train_preset("imagenet_train");
      description_.set_eval_preset("imagenet_eval");
    }
    return absl::OkStatus();
  }

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    const int64_t row = rows_[next_++];
    const std::string path = table_->path(row);
    MR_RETURN_IF_ERROR(ReadRegularFile(path, &bytes_));
    const absl::string_view start =
        absl::string_view(bytes_).substr(0, storage::kImageStartBytes);
    if (const std::string why = WhyNoSample(path, start); !why.empty()) {
      return absl::DataLossError(
          absl::StrCat(path, " ", why, ": the file changed during packing"));
    }
    sample->fields = {
        {reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()}};
    for (int field = 1; field < description_.schema().fields_size(); ++field) {
      sample->fields.push_back(table_->value(field, row));
    }
    sample->origin = OriginOf(path);
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings;
    if (!bad_.empty()) {
      warnings.push_back(absl::StrCat(CountText(bad_.size(), "bad row"), " of ",
                                      file_, " left out: ", BadRows()));
    }
    if (const std::vector<std::string> empty = EmptyClasses(); !empty.empty()) {
      warnings.push_back(absl::StrCat(
          empty.size(), empty.size() == 1 ? " class has" : " classes have",
          " no sample: ",
          FirstOf(empty, ", ", static_cast<int64_t>(empty.size()))));
    }
    return warnings;
  }

 private:
  absl::Status Parse(const storage::ExtentUri& uri) {
    std::string text;
    MR_RETURN_IF_ERROR(ReadRegularFile(file_, &text));
    MR_ASSIGN_OR_RETURN(table_, storage::CsvTable::Parse(text, uri));
    *description_.mutable_schema() = table_->schema();
    return absl::OkStatus();
  }

  // The path as the table has it, if Parquet can hold it.
  std::string OriginOf(absl::string_view path) const {
    absl::ConsumePrefix(&path, JoinPath(FolderOf(file_), ""));
    return IsUtf8(path) ? std::string(path) : "";
  }

  // Why a file with this start is no image, even for the operators.
  std::string WhyNoSample(const std::string& path,
                          absl::string_view start) const {
    const absl::string_view why = storage::WhyNoImage(start);
    if (why.empty() || storage::IsOperatorsImage(options_.operators, start)) {
      return "";
    }
    return start.empty() || storage::HasImageName(path)
               ? std::string(why)
               : "is not a JPEG, PNG or WebP image";
  }

  void AddBad(int64_t row, absl::string_view why) {
    if (!bad_.insert(row).second) return;
    first_bad_.emplace(row, absl::StrCat(table_->place(row), ": ", why));
    if (first_bad_.size() > kMaxListed) first_bad_.erase(--first_bad_.end());
  }

  std::string BadRows() const {
    std::vector<std::string> first;
    for (const auto& [row, why] : first_bad_) first.push_back(why);
    return FirstOf(first, "; ", static_cast<int64_t>(bad_.size()));
  }

  absl::Status CheckBad() const {
    const size_t bad = bad_.size();
    if (bad == 0 || options_.skip_bad) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        file_, ": ",
        bad == 1 ? ""
                 : absl::StrCat(CountText(bad, "row"), " cannot be packed: "),
        BadRows(), "; repair or remove ", bad == 1 ? "it" : "them",
        ", or skip such rows with --skip_bad"));
  }

  // A file that two rows name would be two samples, perhaps of two classes.
  void FindDuplicates() {
    absl::flat_hash_map<std::string, int64_t> rows;
    for (int64_t row = 0; row < table_->rows(); ++row) {
      const std::string path = table_->path(row);
      const auto [first, added] = rows.emplace(
          std::filesystem::path(path).lexically_normal().string(), row);
      if (added) continue;
      AddBad(row, absl::StrCat(CleanText(path, kMaxQuotedBytes),
                               " is already named by ",
                               table_->place(first->second)));
    }
  }

  absl::Status LookAtStarts() {
    for (int64_t row = 0; row < table_->rows(); ++row) {
      MR_RETURN_IF_ERROR(CheckStop());
      const std::string path = table_->path(row);
      const absl::StatusOr<std::string> start =
          ReadRegularFileStart(path, storage::kImageStartBytes);
      if (!start.ok()) {
        AddBad(row, start.status().message());
      } else if (const std::string why = WhyNoSample(path, *start);
                 !why.empty()) {
        AddBad(row, absl::StrCat(CleanText(path, kMaxQuotedBytes), " ", why));
      }
    }
    return absl::OkStatus();
  }

  absl::Status DecodeAll() {
    ImageCheck check(options_.decode_threads, options_.operators);
    ToolProgress progress("checking", table_->rows());
    for (int64_t row = 0; row < table_->rows(); ++row) {
      MR_RETURN_IF_ERROR(CheckStop());
      if (!bad_.contains(row)) {
        check.Add(row,
                  [path = table_->path(row)]() -> absl::StatusOr<std::string> {
                    std::string bytes;
                    MR_RETURN_IF_ERROR(ReadRegularFile(path, &bytes));
                    return bytes;
                  });
      }
      progress.Update(row + 1, 0);
    }
    for (const ImageCheck::Bad& image : check.Finish()) {
      AddBad(
          image.number,
          absl::StrCat(CleanText(table_->path(image.number), kMaxQuotedBytes),
                       " does not decode: ", image.status.message()));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckStop() {
    if (StopSignals::signal() == 0) return absl::OkStatus();
    return absl::CancelledError(
        "interrupted during the check of the images; nothing is written");
  }

  // The classes with names that no row has which is packed.
  std::vector<std::string> EmptyClasses() const {
    if (table_->class_field() < 0) return {};
    const Field& label = description_.schema().fields(1);
    std::vector<bool> seen(static_cast<size_t>(label.class_names_size()));
    std::vector<std::string> empty;
    if (seen.empty()) return empty;
    for (const int64_t row : rows_) seen[table_->classes()[row]] = true;
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i]) empty.push_back(label.class_names(static_cast<int>(i)));
    }
    return empty;
  }

  const CsvDatasetOptions options_;
  std::string file_;  // the table
  std::unique_ptr<const storage::CsvTable> table_;
  DatasetInfo description_;
  std::set<int64_t> bad_;                     // rows that cannot be packed
  std::map<int64_t, std::string> first_bad_;  // the first of them
  std::vector<int64_t> rows_;                 // the others
  size_t next_ = 0;                           // in rows_
  std::string bytes_;                         // of the last image
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> OpenCsvDataset(
    const CsvDatasetOptions& options) {
  auto dataset = std::make_unique<CsvDataset>(options);
  MR_RETURN_IF_ERROR(dataset->Open());
  return dataset;
}

}  // namespace millrace::data_tool
