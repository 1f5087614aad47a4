#include "server/data_tool/image_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "server/data_tool/read_file.h"
#include "server/storage/file_error.h"

namespace millrace {
namespace {

// Deeper folders are a loop of links.
constexpr int kMaxDepth = 32;

// What millrace_operator.h promises to a decoder's sniff().
constexpr size_t kStartBytes = 256;

struct File {
  std::string path;  // within the folder: "cat/1.jpg"
  int64_t label = 0;
};

bool HasImageName(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (absl::string_view suffix : {".jpg", ".jpeg", ".png", ".webp"}) {
    if (absl::EndsWith(lower, suffix)) return true;
  }
  return false;
}

// Empty: an image. Else what is wrong with a file that begins so.
absl::string_view WhyNoImage(absl::string_view start) {
  if (start.empty()) return "is empty";
  if (absl::StartsWith(start, "\xFF\xD8\xFF") ||
      absl::StartsWith(start, "\x89PNG\r\n\x1A\n") ||
      (absl::StartsWith(start, "RIFF") && start.size() >= 12 &&
       start.substr(8, 4) == "WEBP")) {
    return "";
  }
  return "is no JPEG, PNG or WebP image, whatever its name says";
}

absl::StatusOr<std::string> ReadStart(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "open", path);
  char start[kStartBytes];
  const ssize_t got = pread(fd, start, sizeof(start), 0);
  const int error = errno;
  close(fd);
  if (got < 0) return FileError(error, "read", path);
  return std::string(start, got);
}

class ImageFolder final : public SampleReader {
 public:
  explicit ImageFolder(const ImageFolderOptions& options) : options_(options) {}

  absl::Status Scan() {
    MR_ASSIGN_OR_RETURN(const Listing top, List(""));
    other_files_ += top.files.size();
    if (top.folders.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.folder,
          " has no folders in it; an image folder has one for each class, with "
          "the class's images in it"));
    }
    std::vector<std::string> classes = top.folders;
    for (size_t i = 0; i < classes.size(); ++i) {
      const size_t before = files_.size();
      MR_RETURN_IF_ERROR(ScanClass(classes[i], static_cast<int64_t>(i), 1));
      if (files_.size() == before && !options_.skip_bad) {
        return absl::InvalidArgumentError(absl::StrCat(
            "class folder ", options_.folder, "/", classes[i],
            " holds no .jpg, .jpeg, .png or .webp image; remove "
            "it, or keep the class without samples by --skip_bad"));
      }
    }
    if (files_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no image below ", options_.folder));
    }
    std::sort(files_.begin(), files_.end(),
              [](const File& a, const File& b) { return a.path < b.path; });
    Describe(classes);
    return absl::OkStatus();
  }

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    const File& file = files_[next_++];
    const std::string path = absl::StrCat(options_.folder, "/", file.path);
    MR_RETURN_IF_ERROR(ReadWholeFile(path, &bytes_));
    const absl::string_view start =
        absl::string_view(bytes_).substr(0, kStartBytes);
    if (const absl::string_view why = WhyNoImage(start);
        !why.empty() && !IsOperators(start)) {
      return absl::DataLossError(
          absl::StrCat(path, " ", why, ": it has changed while packing"));
    }
    label_ = file.label;
    sample->fields = {
        {reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()},
        {reinterpret_cast<const uint8_t*>(&label_), sizeof(label_)}};
    sample->origin = file.path;
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings;
    if (other_files_ > 0) {
      warnings.push_back(absl::StrCat(
          other_files_,
          " files left out: they are not .jpg, .jpeg, .png or .webp in a "
          "class folder"));
    }
    for (const std::string& text : bad_) warnings.push_back(text);
    if (bad_count_ > static_cast<int64_t>(bad_.size())) {
      warnings.push_back(
          absl::StrCat("... and ", bad_count_ - bad_.size(), " more"));
    }
    if (bad_count_ > 0) {
      warnings.push_back(absl::StrCat(bad_count_, " bad files left out"));
    }
    return warnings;
  }

 private:
  struct Listing {
    std::vector<std::string> files;
    std::vector<std::string> folders;
  };

  absl::StatusOr<Listing> List(const std::string& below) const {
    const std::string path = below.empty()
                                 ? options_.folder
                                 : absl::StrCat(options_.folder, "/", below);
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()),
                                                     closedir);
    if (folder == nullptr) return FileError(errno, "read folder", path);
    Listing listing;
    while (const dirent* entry = readdir(folder.get())) {
      const std::string name = entry->d_name;
      if (absl::StartsWith(name, ".")) continue;  // hidden, as `ls` sees it
      struct stat info;
      const std::string full = absl::StrCat(path, "/", name);
      if (stat(full.c_str(), &info) != 0) {
        listing.files.push_back(name);  // a link to nothing: told when read
      } else if (S_ISDIR(info.st_mode)) {
        listing.folders.push_back(name);
      } else {
        listing.files.push_back(name);
      }
    }
    std::sort(listing.files.begin(), listing.files.end());
    std::sort(listing.folders.begin(), listing.folders.end());
    return listing;
  }

  absl::Status ScanClass(const std::string& below, int64_t label, int depth) {
    if (depth > kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("folders are nested too deeply below ", options_.folder,
                       "/", below, ": a link may lead in a circle"));
    }
    MR_ASSIGN_OR_RETURN(const Listing listing, List(below));
    if (!IsUtf8(below)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the name of folder ", options_.folder, "/", below,
                       " is not UTF-8; rename it"));
    }
    for (const std::string& name : listing.files) {
      const std::string path = absl::StrCat(below, "/", name);
      if (!HasImageName(name) && !IsOperatorsFile(path)) {
        ++other_files_;
        continue;
      }
      MR_RETURN_IF_ERROR(AddFile(path, label));
    }
    for (const std::string& name : listing.folders) {
      MR_RETURN_IF_ERROR(
          ScanClass(absl::StrCat(below, "/", name), label, depth + 1));
    }
    return absl::OkStatus();
  }

  // Whether a decoder of the operators takes a file that begins so.
  bool IsOperators(absl::string_view start) const {
    if (options_.operators == nullptr) return false;
    return options_.operators->SniffedBy(
               {reinterpret_cast<const uint8_t*>(start.data()),
                start.size()}) != nullptr;
  }
  bool IsOperatorsFile(const std::string& path) const {
    if (options_.operators == nullptr) return false;
    const absl::StatusOr<std::string> start =
        ReadStart(absl::StrCat(options_.folder, "/", path));
    return start.ok() && IsOperators(*start);
  }

  absl::Status AddFile(std::string path, int64_t label) {
    const std::string full = absl::StrCat(options_.folder, "/", path);
    absl::Status status;
    if (absl::StatusOr<std::string> start = ReadStart(full); !start.ok()) {
      status = start.status();
    } else if (const absl::string_view why = WhyNoImage(*start);
               !why.empty() && !IsOperators(*start)) {
      status = absl::DataLossError(absl::StrCat(full, " ", why));
    } else if (!IsUtf8(path)) {
      status = absl::InvalidArgumentError(
          absl::StrCat("the name of file ", full, " is not UTF-8"));
    }
    if (status.ok()) {
      files_.push_back({.path = std::move(path), .label = label});
      return absl::OkStatus();
    }
    if (!options_.skip_bad) {
      return absl::Status(
          status.code(),
          absl::StrCat(status.message(),
                       "; repair or remove it, or leave such files out by "
                       "--skip_bad"));
    }
    ++bad_count_;
    constexpr size_t kMostListed = 10;
    if (bad_.size() < kMostListed) bad_.emplace_back(status.message());
    return absl::OkStatus();
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
  std::vector<File> files_;
  size_t next_ = 0;
  std::string bytes_;  // of the last sample
  int64_t label_ = 0;
  int64_t other_files_ = 0;
  int64_t bad_count_ = 0;
  std::vector<std::string> bad_;  // the first of them
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> OpenImageFolder(
    const ImageFolderOptions& options) {
  auto folder = std::make_unique<ImageFolder>(options);
  MR_RETURN_IF_ERROR(folder->Scan());
  return folder;
}

}  // namespace millrace
