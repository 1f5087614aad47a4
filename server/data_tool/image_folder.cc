#include "server/data_tool/image_folder.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/folder.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/utf8.h"
#include "server/data_tool/class_folders.h"
#include "server/data_tool/first_of.h"
#include "server/data_tool/image_check.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/same_samples.h"

namespace millrace::data_tool {
namespace {

// A deeper folder is caused by a loop of links.
constexpr int kMaxDepth = 32;

// Number of PNGs in each folder whose channels are checked before all files are
// read.
constexpr int kLookedAt = 4;

// Bytes that millrace_operator.h promises to a decoder's sniff().
constexpr size_t kStartBytes = 256;

bool EndsWithAny(absl::string_view name,
                 std::initializer_list<absl::string_view> suffixes) {
  const std::string lower = absl::AsciiStrToLower(name);
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&lower](absl::string_view suffix) {
                       return absl::EndsWith(lower, suffix);
                     });
}

bool HasImageName(absl::string_view name) {
  return EndsWithAny(name, {".jpg", ".jpeg", ".png", ".webp"});
}

// Images with formats or names that are not supported.
bool HasForeignImageName(absl::string_view name) {
  return EndsWithAny(
      name, {".bmp", ".gif", ".tif", ".tiff", ".jfif", ".jpe", ".jp2", ".jxl",
             ".heic", ".heif", ".avif", ".ppm", ".pgm"});
}

// Files that may contain the labels of images.
bool HasTableName(absl::string_view name) {
  if (EndsWithAny(name, {".csv", ".csv.gz", ".tsv", ".tsv.gz", ".json",
                         ".jsonl", ".parquet", ".feather", ".xls", ".xlsx",
                         ".xml", ".yaml", ".yml"})) {
    return true;
  }
  const std::string lower = absl::AsciiStrToLower(name);
  const absl::string_view file =
      absl::string_view(lower).substr(lower.rfind('/') + 1);
  return absl::EndsWith(file, ".txt") && !absl::StartsWith(file, "readme") &&
         !absl::StartsWith(file, "licen") &&
         !absl::StartsWith(file, "citation");
}

// Empty: the file is an image. Otherwise the reason why a file with this start
// is none.
absl::string_view WhyNoImage(absl::string_view start) {
  if (start.empty()) return "is empty";
  if (absl::StartsWith(start, "\xFF\xD8\xFF") ||
      absl::StartsWith(start, "\x89PNG\r\n\x1A\n") ||
      (absl::StartsWith(start, "RIFF") && start.size() >= 12 &&
       start.substr(8, 4) == "WEBP")) {
    return "";
  }
  return "is not a JPEG, PNG or WebP image, although its name says so";
}

// "cat/1" of "cat/1.jpg".
absl::string_view StemOf(absl::string_view path) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool suffix = dot != path.npos && (slash == path.npos || dot > slash);
  return suffix ? path.substr(0, dot) : path;
}

class ImageFolder final : public SampleReader {
 public:
  explicit ImageFolder(const ImageFolderOptions& options) : options_(options) {}

  absl::Status Scan() {
    MR_ASSIGN_OR_RETURN(const Listing top, List(""));
    for (const std::string& name : top.files) CountOther(name);
    if (top.folders.empty()) return NoFolders(top.files);
    const std::vector<std::string>& classes = top.folders;
    ImageFolders folders;
    for (size_t i = 0; i < classes.size(); ++i) {
      MR_RETURN_IF_ERROR(ScanClass(classes[i], static_cast<int64_t>(i), 1,
                                   &folders.folders[classes[i]]));
    }
    // Checked before the files are opened, which takes long.
    if (!options_.labels_from_folders) {
      MR_ASSIGN_OR_RETURN(doubts_,
                          CheckClassFolders(options_.folder, folders, tables_,
                                            options_.by_split));
    }
    std::sort(
        files_.begin(), files_.end(),
        [](const ClassFile& a, const ClassFile& b) { return a.path < b.path; });
    LookAtStarts();
    MR_RETURN_IF_ERROR(CheckBad());
    MR_RETURN_IF_ERROR(FindEmptyClasses(classes));
    if (options_.decode_threads > 0) {
      MR_RETURN_IF_ERROR(DecodeAll());
      MR_RETURN_IF_ERROR(CheckBad());
      MR_RETURN_IF_ERROR(FindEmptyClasses(classes));
    }
    if (files_.empty()) return NoImage();
    FindSharedStems();
    Describe(classes);
    return absl::OkStatus();
  }

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    const ClassFile& file = files_[next_++];
    const std::string path = absl::StrCat(options_.folder, "/", file.path);
    MR_RETURN_IF_ERROR(ReadRegularFile(path, &bytes_));
    const absl::string_view start =
        absl::string_view(bytes_).substr(0, kStartBytes);
    if (const absl::string_view why = WhyNoImage(start);
        !why.empty() && !IsOperators(start)) {
      return absl::DataLossError(
          absl::StrCat(path, " ", why, ": the file changed during packing"));
    }
    label_ = file.label;
    sample->fields = {
        {reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()},
        {reinterpret_cast<const uint8_t*>(&label_), sizeof(label_)}};
    sample->origin = file.path;
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings = doubts_;
    if (other_count_ > 0) {
      warnings.push_back(absl::StrCat(
          CountText(other_count_, "file"),
          " left out (no .jpg, .jpeg, .png or .webp file in a class folder): ",
          FirstOf(other_files_, ", ", other_count_)));
    }
    if (hidden_count_ > 0) {
      warnings.push_back(absl::StrCat(
          hidden_count_, " hidden ",
          hidden_count_ == 1 ? "file or folder" : "files or folders",
          " left out (the name begins with a dot): ",
          FirstOf(hidden_, ", ", hidden_count_)));
    }
    if (bad_count_ > 0) {
      warnings.push_back(
          absl::StrCat(bad_count_, bad_count_ == 1 ? " bad file" : " bad files",
                       " left out: ", FirstOf(bad_, "; ", bad_count_)));
    }
    if (shared_count_ > 0) {
      warnings.push_back(
          absl::StrCat(FirstOf(shared_stems_, "; ", shared_count_),
                       ": each file is packed as a separate sample"));
    }
    if (!empty_classes_.empty()) {
      warnings.push_back(absl::StrCat(
          empty_classes_.size(),
          empty_classes_.size() == 1 ? " class has" : " classes have",
          " no sample: ", EmptyClasses()));
    }
    return warnings;
  }

 private:
  // An image of a class.
  struct ClassFile {
    std::string path;   // within the folder: "cat/1.jpg"
    int64_t label = 0;  // index into the classes
  };

  struct Listing {
    std::vector<std::string> files;
    std::vector<std::string> folders;
  };

  // Lists the entries that are not hidden, and counts the hidden ones.
  absl::StatusOr<Listing> List(const std::string& below) {
    const std::string path = below.empty()
                                 ? options_.folder
                                 : absl::StrCat(options_.folder, "/", below);
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    Listing listing;
    std::vector<std::string> hidden;
    for (const std::string& name : names) {
      if (absl::StartsWith(name, ".")) {  // hidden, as for `ls`
        hidden.push_back(below.empty() ? name : absl::StrCat(below, "/", name));
        continue;
      }
      // A broken link is a file: reading it reports the error.
      const bool is_folder = IsFolder(absl::StrCat(path, "/", name));
      (is_folder ? listing.folders : listing.files).push_back(name);
    }
    std::sort(listing.files.begin(), listing.files.end());
    std::sort(listing.folders.begin(), listing.folders.end());
    std::sort(hidden.begin(), hidden.end());
    hidden_count_ += static_cast<int64_t>(hidden.size());
    for (std::string& path : hidden) {
      if (hidden_.size() == kMaxListed) break;
      hidden_.push_back(std::move(path));
    }
    return listing;
  }

  // Scans folder `below` recursively; records in `folder` where the images are.
  absl::Status ScanClass(const std::string& below, int64_t label, int depth,
                         ImageFolders* folder) {
    if (depth > kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("folders are nested too deeply below ", options_.folder,
                       "/", below, ": a link may form a loop"));
    }
    MR_ASSIGN_OR_RETURN(const Listing listing, List(below));
    if (!IsUtf8(below)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the name of folder ", options_.folder, "/", below,
                       " is not UTF-8; rename it"));
    }
    for (const std::string& name : listing.files) {
      const std::string path = absl::StrCat(below, "/", name);
      if (HasImageName(name) || IsOperatorsFile(path)) {
        files_.push_back({.path = path, .label = label});
        folder->images.Add(name);
      } else if (HasForeignImageName(name)) {
        AddBad(absl::StrCat(options_.folder, "/", path,
                            " has the name of an image format that pack does "
                            "not read: convert it to .jpg, .png or .webp"));
      } else {
        CountOther(path);
      }
    }
    folder->images.one_channel =
        folder->images.AreAllPng() && BeginWithOneChannel(below, listing.files);
    for (const std::string& name : listing.folders) {
      MR_RETURN_IF_ERROR(ScanClass(absl::StrCat(below, "/", name), label,
                                   depth + 1, &folder->folders[name]));
    }
    return absl::OkStatus();
  }

  // Whether the first PNGs among `files` of folder `below` have one channel.
  bool BeginWithOneChannel(const std::string& below,
                           const std::vector<std::string>& files) const {
    int looked = 0;
    for (const std::string& name : files) {
      if (!HasImageName(name)) continue;
      const absl::StatusOr<std::string> start = ReadRegularFileStart(
          absl::StrCat(options_.folder, "/", below, "/", name), kStartBytes);
      if (!start.ok() || !IsOneChannelPng(*start)) return false;
      if (++looked == kLookedAt) break;
    }
    return looked > 0;
  }

  // Whether a decoder of the operators accepts a file with this start.
  bool IsOperators(absl::string_view start) const {
    if (options_.operators == nullptr) return false;
    return options_.operators->SniffedBy(
               {reinterpret_cast<const uint8_t*>(start.data()),
                start.size()}) != nullptr;
  }
  bool IsOperatorsFile(const std::string& path) const {
    if (options_.operators == nullptr) return false;
    const absl::StatusOr<std::string> start = ReadRegularFileStart(
        absl::StrCat(options_.folder, "/", path), kStartBytes);
    return start.ok() && IsOperators(*start);
  }

  // Counts a file that is left out because its name is not that of an image.
  void CountOther(const std::string& path) {
    ++other_count_;
    if (other_files_.size() < kMaxListed) other_files_.push_back(path);
    if (tables_.size() < kMaxListed && HasTableName(path)) {
      tables_.push_back(path);
    }
  }

  void AddBad(std::string sentence) {
    ++bad_count_;
    if (bad_.size() < kMaxListed) bad_.push_back(std::move(sentence));
  }

  // Removes files whose start is not that of an image from files_.
  void LookAtStarts() {
    for (ClassFile& file : files_) {
      const std::string full = absl::StrCat(options_.folder, "/", file.path);
      const absl::StatusOr<std::string> start =
          ReadRegularFileStart(full, kStartBytes);
      const absl::string_view why = start.ok() ? WhyNoImage(*start) : "";
      if (!start.ok()) {
        AddBad(std::string(start.status().message()));
      } else if (!why.empty() && !IsOperators(*start)) {
        AddBad(absl::StrCat(full, " ", why));
      } else if (!IsUtf8(file.path)) {
        AddBad(absl::StrCat("the name of file ", full, " is not UTF-8"));
      } else {
        continue;
      }
      file.path.clear();
    }
    DropCleared();
  }

  // Removes files without a path from files_.
  void DropCleared() {
    files_.erase(
        std::remove_if(files_.begin(), files_.end(),
                       [](const ClassFile& f) { return f.path.empty(); }),
        files_.end());
  }

  // Error for an input without folders, which contains `files`.
  absl::Status NoFolders(const std::vector<std::string>& files) const {
    const auto images = static_cast<uint64_t>(std::count_if(
        files.begin(), files.end(),
        [](const std::string& name) { return HasImageName(name); }));
    const std::string what =
        absl::StrCat(options_.folder, " contains no folders");
    if (images == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what,
                       "; an image folder contains one folder of images for "
                       "each class"));
    }
    const std::string tables =
        FirstOf(tables_, ", ", static_cast<int64_t>(tables_.size()));
    return absl::InvalidArgumentError(absl::StrCat(
        what, ", but ", CountText(images, "image"),
        tables.empty()
            ? ""
            : absl::StrCat(", and ", tables,
                           " may contain labels, which pack does not read"),
        "; move the images into one folder for each class (", options_.folder,
        "/CLASS) and repeat the command, or write images and "
        "labels as Parquet, which millrace-server reads without pack "
        "(docs/formats.md)"));
  }

  // Error for an input without any image left.
  absl::Status NoImage() const {
    if (bad_count_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no image below ", options_.folder));
    }
    return absl::DataLossError(absl::StrCat(
        "no image below ", options_.folder, " can be packed: ",
        bad_count_ == 1 ? "the only one is bad: "
                        : absl::StrCat("all ", bad_count_, " are bad: "),
        FirstOf(bad_, "; ", bad_count_)));
  }

  absl::Status CheckBad() const {
    if (bad_count_ == 0 || options_.skip_bad) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        bad_count_ == 1 ? ""
                        : absl::StrCat(bad_count_, " files cannot be packed: "),
        FirstOf(bad_, "; ", bad_count_), "; repair or remove ",
        bad_count_ == 1 ? "it" : "them",
        ", or skip such files with --skip_bad"));
  }

  std::string EmptyClasses() const {
    return FirstOf(empty_classes_, ", ",
                   static_cast<int64_t>(empty_classes_.size()));
  }

  absl::Status FindEmptyClasses(const std::vector<std::string>& classes) {
    std::vector<bool> seen(classes.size());
    for (const ClassFile& file : files_) seen[file.label] = true;
    empty_classes_.clear();
    for (size_t i = 0; i < classes.size(); ++i) {
      if (!seen[i]) {
        empty_classes_.push_back(
            absl::StrCat(options_.folder, "/", classes[i]));
      }
    }
    if (empty_classes_.empty() || options_.skip_bad) return absl::OkStatus();
    const bool one = empty_classes_.size() == 1;
    return absl::InvalidArgumentError(absl::StrCat(
        one ? "class folder "
            : absl::StrCat(empty_classes_.size(),
                           " class folders contain no image: "),
        EmptyClasses(), one ? " contains no image" : "",
        " (.jpg, .jpeg, .png or .webp); remove ", one ? "it" : "them",
        ", or keep classes without samples with --skip_bad"));
  }

  // Removes files that cannot be decoded from files_.
  absl::Status DecodeAll() {
    ImageCheck check(options_.decode_threads, options_.operators);
    ToolProgress progress("checking", static_cast<int64_t>(files_.size()));
    for (size_t i = 0; i < files_.size(); ++i) {
      if (StopSignals::signal() != 0) {
        return absl::CancelledError(
            "interrupted during the check of the images; nothing is written");
      }
      check.Add(static_cast<int64_t>(i),
                [path = absl::StrCat(options_.folder, "/", files_[i].path)]()
                    -> absl::StatusOr<std::string> {
                  std::string bytes;
                  MR_RETURN_IF_ERROR(ReadRegularFile(path, &bytes));
                  return bytes;
                });
      progress.Update(static_cast<int64_t>(i) + 1, 0);
    }
    const std::vector<ImageCheck::Bad> bad = check.Finish();
    for (const ImageCheck::Bad& image : bad) {
      ClassFile& file = files_[static_cast<size_t>(image.number)];
      AddBad(absl::StrCat(options_.folder, "/", file.path,
                          " does not decode: ", image.status.message()));
      file.path.clear();
    }
    DropCleared();
    return absl::OkStatus();
  }

  // Files of one folder whose names differ only in the suffix: a conversion may
  // have left the old ones.
  void FindSharedStems() {
    absl::flat_hash_map<absl::string_view, int64_t> files;
    for (const ClassFile& file : files_) ++files[StemOf(file.path)];
    for (const ClassFile& file : files_) {
      const absl::string_view stem = StemOf(file.path);
      const int64_t count = std::exchange(files[stem], 0);
      if (count < 2) continue;
      ++shared_count_;
      if (shared_stems_.size() == kMaxListed) continue;
      const size_t slash = stem.rfind('/');
      shared_stems_.push_back(
          absl::StrCat(count, " files share the stem ", stem.substr(slash + 1),
                       " in ", options_.folder, "/", stem.substr(0, slash)));
    }
  }

  void Describe(const std::vector<std::string>& classes) {
    description_.set_samples(static_cast<int64_t>(files_.size()));
    Field* image = description_.mutable_schema()->add_fields();
    image->set_name("image");
    image->set_kind(FIELD_KIND_ENCODED_IMAGE);
    Field* label = description_.mutable_schema()->add_fields();
    label->set_name("label");
    label->set_kind(FIELD_KIND_TENSOR);
    label->set_dtype(DTYPE_INT64);
    label->set_num_classes(static_cast<int64_t>(classes.size()));
    for (const std::string& name : classes) label->add_class_names(name);
    description_.set_train_preset("imagenet_train");
    description_.set_eval_preset("imagenet_eval");
  }

  const ImageFolderOptions options_;
  DatasetInfo description_;
  std::vector<ClassFile> files_;
  size_t next_ = 0;
  std::string bytes_;  // of the last sample
  int64_t label_ = 0;
  // The first entries of each list, and the total number.
  std::vector<std::string> other_files_;
  int64_t other_count_ = 0;
  std::vector<std::string> hidden_;
  int64_t hidden_count_ = 0;
  std::vector<std::string> bad_;
  int64_t bad_count_ = 0;
  std::vector<std::string> shared_stems_;
  int64_t shared_count_ = 0;
  std::vector<std::string> tables_;
  std::vector<std::string> doubts_;         // warnings about the classes
  std::vector<std::string> empty_classes_;  // all of them
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> OpenImageFolder(
    const ImageFolderOptions& options) {
  auto folder = std::make_unique<ImageFolder>(options);
  MR_RETURN_IF_ERROR(folder->Scan());
  return folder;
}

}  // namespace millrace::data_tool
