#include "server/data_tool/image_folder.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/first_of.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "server/data_tool/image_check.h"
#include "server/data_tool/parallel_reader.h"
#include "server/data_tool/progress.h"
#include "server/storage/imagefolder/folder_files.h"
#include "server/storage/imagefolder/folder_index.h"
#include "server/storage/imagefolder/folder_notes.h"
#include "server/storage/imagefolder/folder_scan.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/imagefolder/listing_doubts.h"
#include "server/storage/imagefolder/operators_image.h"

namespace millrace::data_tool {
namespace {

// Files that are read at the same time. Twice as many wait in memory.
constexpr uint32_t kReads = 4;

class ImageFolder final : public SampleReader {
 public:
  explicit ImageFolder(const ImageFolderOptions& options) : options_(options) {}

  absl::Status Scan() {
    const std::string& folder = options_.folder;
    MR_ASSIGN_OR_RETURN(
        storage::FolderListing listing,
        storage::ScanImageFolder(
            folder, {.use = options_.by_split ? storage::FolderUse::kPackSplit
                                              : storage::FolderUse::kPack,
                     .labels_from_folders = options_.labels_from_folders,
                     .operators = options_.operators}));
    files_ = std::move(listing.files);
    notes_ = std::move(listing.notes);
    doubts_ = std::move(listing.doubts);
    const std::vector<std::string>& classes = listing.classes;
    LookAtStarts();
    MR_RETURN_IF_ERROR(CheckBad());
    MR_RETURN_IF_ERROR(FindEmptyClasses(classes));
    if (options_.decode_threads > 0) {
      MR_RETURN_IF_ERROR(DecodeAll());
      MR_RETURN_IF_ERROR(CheckBad());
      MR_RETURN_IF_ERROR(FindEmptyClasses(classes));
    }
    if (files_.size() == 0) return NoImage();
    shared_stems_ = storage::SharedStems(folder, files_, "packed");
    storage::DescribeImageFolder(files_.size(), classes, &description_);
    return absl::OkStatus();
  }

  const DatasetInfo& description() const override { return description_; }

  // Without the image, which ReadImage() reads.
  absl::Status Next(Sample* sample) override {
    const int64_t i = next_++;
    label_ = files_.LabelOf(i);
    sample->fields = {
        {}, {reinterpret_cast<const uint8_t*>(&label_), sizeof(label_)}};
    sample->origin = files_.PathOf(i);
    return absl::OkStatus();
  }

  // The image of the file `path` within the folder. Thread-safe.
  absl::Status ReadImage(const std::string& path, std::string* image) const {
    const std::string full = absl::StrCat(options_.folder, "/", path);
    MR_RETURN_IF_ERROR(ReadRegularFile(full, image));
    const absl::string_view start =
        absl::string_view(*image).substr(0, storage::kImageStartBytes);
    if (const absl::string_view why = WhyNoSample(start); !why.empty()) {
      return absl::DataLossError(
          absl::StrCat(full, " ", why, ": the file changed during packing"));
    }
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings = doubts_;
    for (std::string& warning : notes_.Warnings()) {
      warnings.push_back(std::move(warning));
    }
    if (!shared_stems_.empty()) warnings.push_back(shared_stems_);
    if (!empty_classes_.empty()) {
      warnings.push_back(absl::StrCat(
          empty_classes_.size(),
          empty_classes_.size() == 1 ? " class has" : " classes have",
          " no sample: ",
          FirstOf(empty_classes_, ", ",
                  static_cast<int64_t>(empty_classes_.size()))));
    }
    return warnings;
  }

 private:
  std::string FullPath(int64_t i) const {
    return absl::StrCat(options_.folder, "/", files_.PathOf(i));
  }

  // Why a file with this start is no image, even for the operators.
  absl::string_view WhyNoSample(absl::string_view start) const {
    const absl::string_view why = storage::WhyNoImage(start);
    return !why.empty() && storage::IsOperatorsImage(options_.operators, start)
               ? ""
               : why;
  }

  // Removes files whose start is not that of an image from files_.
  void LookAtStarts() {
    std::vector<bool> bad(static_cast<size_t>(files_.size()));
    for (int64_t i = 0; i < files_.size(); ++i) {
      const std::string full = FullPath(i);
      const absl::StatusOr<std::string> start =
          ReadRegularFileStart(full, storage::kImageStartBytes);
      const absl::string_view why = start.ok() ? WhyNoSample(*start) : "";
      if (start.ok() && why.empty()) continue;
      notes_.AddBad(start.ok() ? absl::StrCat(full, " ", why)
                               : std::string(start.status().message()));
      bad[i] = true;
    }
    files_ = files_.Without(bad);
  }

  // Error for an input without any image left.
  absl::Status NoImage() const {
    const int64_t bad = notes_.bad_count();
    if (bad == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no image below ", options_.folder));
    }
    return absl::DataLossError(
        absl::StrCat("no image below ", options_.folder, " can be packed: ",
                     bad == 1 ? "the only one is bad: "
                              : absl::StrCat("all ", bad, " are bad: "),
                     notes_.BadFiles()));
  }

  absl::Status CheckBad() const {
    const int64_t bad = notes_.bad_count();
    if (bad == 0 || options_.skip_bad) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        bad == 1 ? "" : absl::StrCat(bad, " files cannot be packed: "),
        notes_.BadFiles(), "; repair or remove ", bad == 1 ? "it" : "them",
        ", or skip such files with --skip_bad"));
  }

  absl::Status FindEmptyClasses(const std::vector<std::string>& classes) {
    empty_classes_ = storage::EmptyClasses(options_.folder, classes, files_);
    if (empty_classes_.empty() || options_.skip_bad) return absl::OkStatus();
    return storage::EmptyClassesError(
        empty_classes_, ", or keep classes without samples with --skip_bad");
  }

  // Removes files that cannot be decoded from files_.
  absl::Status DecodeAll() {
    ImageCheck check(options_.decode_threads, options_.operators);
    ToolProgress progress("checking", files_.size());
    for (int64_t i = 0; i < files_.size(); ++i) {
      if (StopSignals::signal() != 0) {
        return absl::CancelledError(
            "interrupted during the check of the images; nothing is written");
      }
      check.Add(i, [path = FullPath(i)]() -> absl::StatusOr<std::string> {
        std::string bytes;
        MR_RETURN_IF_ERROR(ReadRegularFile(path, &bytes));
        return bytes;
      });
      progress.Update(i + 1, 0);
    }
    std::vector<bool> bad(static_cast<size_t>(files_.size()));
    for (const ImageCheck::Bad& image : check.Finish()) {
      notes_.AddBad(absl::StrCat(FullPath(image.number),
                                 " does not decode: ", image.status.message()));
      bad[image.number] = true;
    }
    files_ = files_.Without(bad);
    return absl::OkStatus();
  }

  const ImageFolderOptions options_;
  DatasetInfo description_;
  storage::FolderFiles files_;
  storage::FolderNotes notes_;
  std::string shared_stems_;                // a warning; empty: there is none
  std::vector<std::string> doubts_;         // warnings about the classes
  std::vector<std::string> empty_classes_;  // all of them
  int64_t next_ = 0;
  int64_t label_ = 0;  // of the last sample
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> OpenImageFolder(
    const ImageFolderOptions& options) {
  auto folder = std::make_unique<ImageFolder>(options);
  MR_RETURN_IF_ERROR(folder->Scan());
  // Several files are read at the same time, because reads wait for storage.
  const ImageFolder* files = folder.get();
  return std::make_unique<ParallelReader>(
      std::move(folder),
      ParallelReader::Options{.threads = kReads, .name = "mr-files"},
      [files](ParallelReader::Work& work) {
        work.status = files->ReadImage(work.origin, &work.fields[0]);
      });
}

}  // namespace millrace::data_tool
