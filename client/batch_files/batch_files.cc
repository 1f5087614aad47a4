#include "client/batch_files/batch_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/folder.h"
#include "common/json_text.h"
#include "common/new_file.h"
#include "common/program/report.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::batch_files {
namespace {

constexpr char kBatchJson[] = "batch.json";

// A file name for a tensor. The server chooses tensor names, so they may
// contain anything.
std::string FileName(const std::string& name, std::set<std::string>& taken) {
  std::string file;
  for (const char c : name.substr(0, 100)) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       c == '_' || c == '-' || (c == '.' && !file.empty());
    file += plain ? c : '_';
  }
  if (file.empty()) file = "tensor";
  const std::string first = file;
  for (int i = 2; !taken.insert(file).second; ++i) {
    file = absl::StrCat(first, "_", i);
  }
  return file + ".npy";
}

std::string ToJson(const BatchArray& array) {
  program::Report one;
  one.Add("name", "", absl::string_view(array.name));
  one.Add("file", "", absl::string_view(array.file));
  one.Add("dtype", "", DTypeName(array.dtype));
  one.AddJson("shape",
              absl::StrCat("[", absl::StrJoin(array.shape, ", "), "]"));
  one.AddJson("min", JsonNumber(array.look.min));
  one.AddJson("max", JsonNumber(array.look.max));
  one.Add("nan", "", array.look.nans);
  one.Add("inf", "", array.look.infinities);
  return one.Json();
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0;
}

absl::Status CheckNamesAreFree(absl::Span<const BatchArray> arrays,
                               const std::string& folder,
                               absl::string_view flag) {
  if (Exists(absl::StrCat(folder, "/", kBatchJson))) {
    return absl::AlreadyExistsError(
        absl::StrCat(folder, " already contains a batch; give another ", flag));
  }
  for (const BatchArray& array : arrays) {
    const std::string path = absl::StrCat(folder, "/", array.file);
    if (!Exists(path)) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists and is not replaced; give another ", flag));
  }
  return absl::OkStatus();
}

// The files and the folder that a call has created. Removes them at its end,
// unless they are kept.
class NewFiles {
 public:
  explicit NewFiles(std::string folder) : folder_(std::move(folder)) {}
  ~NewFiles() {
    for (const std::string& path : paths_) unlink(path.c_str());
    if (made_folder_) rmdir(folder_.c_str());
  }
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;

  absl::Status MakeFolder(Folder state, absl::string_view flag) {
    absl::StatusOr<bool> made = millrace::MakeFolder(folder_);
    made_folder_ = made.ok() && *made;
    if (made.ok() && !*made && state == Folder::kIsNew) {
      made = absl::AlreadyExistsError(absl::StrCat(folder_, " exists"));
    }
    if (!absl::IsAlreadyExists(made.status())) return made.status();
    return absl::AlreadyExistsError(
        absl::StrCat(made.status().message(), "; give another ", flag));
  }
  absl::Status Add(const std::string& path, absl::Status written) {
    if (written.ok()) paths_.push_back(path);
    return written;
  }
  void Keep() {
    paths_.clear();
    made_folder_ = false;
  }

 private:
  const std::string folder_;
  bool made_folder_ = false;
  std::vector<std::string> paths_;
};

}  // namespace

std::vector<BatchArray> ArraysOf(const HostBatch& batch) {
  std::vector<BatchArray> arrays;
  std::set<std::string> taken;
  for (const TensorHeader& tensor : batch.header.tensors()) {
    const auto rows = static_cast<int64_t>(batch.rows);
    BatchArray array;
    array.name = tensor.name();
    array.dtype = tensor.dtype();
    if (!tensor.sample_shape().empty() && tensor.sample_shape(0) < 0) {
      BatchArray offsets;
      offsets.name = tensor.name() + ".offsets";
      offsets.dtype = DTYPE_INT64;
      offsets.shape = {rows + 1};
      offsets.data = batch.payload.subspan(tensor.offset(), tensor.bytes());
      arrays.push_back(std::move(offsets));
      array.data =
          batch.payload.subspan(tensor.values_offset(), tensor.values_bytes());
      array.shape = {static_cast<int64_t>(tensor.values_bytes() /
                                          ElementBytes(tensor.dtype()))};
    } else {
      array.data = batch.payload.subspan(tensor.offset(), tensor.bytes());
      array.shape = {rows};
      for (const int64_t dim : tensor.sample_shape()) {
        array.shape.push_back(dim);
      }
    }
    arrays.push_back(std::move(array));
  }
  for (BatchArray& array : arrays) {
    array.file = FileName(array.name, taken);
    array.look = LookAt(array.dtype, array.data);
  }
  return arrays;
}

absl::Status WriteBatchFiles(absl::Span<const BatchArray> arrays,
                             const std::string& json, const std::string& folder,
                             Folder state, absl::string_view flag) {
  NewFiles files(folder);
  MR_RETURN_IF_ERROR(files.MakeFolder(state, flag));
  MR_RETURN_IF_ERROR(CheckNamesAreFree(arrays, folder, flag));
  for (const BatchArray& array : arrays) {
    const std::string path = absl::StrCat(folder, "/", array.file);
    MR_RETURN_IF_ERROR(
        files.Add(path, WriteNpy(path, array.dtype, array.shape, array.data)));
  }
  const std::string path = absl::StrCat(folder, "/", kBatchJson);
  MR_RETURN_IF_ERROR(files.Add(path, WriteNewFile(path, {json})));
  files.Keep();
  return absl::OkStatus();
}

bool HasBatchFiles(absl::Span<const BatchArray> arrays, const std::string& json,
                   const std::string& folder) {
  // One byte more than the text: a longer file differs.
  const absl::StatusOr<std::string> there = ReadRegularFileStart(
      absl::StrCat(folder, "/", kBatchJson), json.size() + 1);
  if (!there.ok() || *there != json) return false;
  return std::all_of(arrays.begin(), arrays.end(), [&](const BatchArray& one) {
    struct stat info = {};
    return lstat(absl::StrCat(folder, "/", one.file).c_str(), &info) == 0 &&
           S_ISREG(info.st_mode) &&
           static_cast<uint64_t>(info.st_size) ==
               NpyHeader(one.dtype, one.shape).size() + one.data.size();
  });
}

std::optional<uint64_t> FirstBadRow(const BatchArray& array) {
  const TensorLook& look = array.look;
  if (look.first_bad < 0 || array.shape.empty() || array.shape[0] <= 0) {
    return std::nullopt;
  }
  const uint64_t elements_per_row = std::max<uint64_t>(
      1, look.elements / static_cast<uint64_t>(array.shape[0]));
  return static_cast<uint64_t>(look.first_bad) / elements_per_row;
}

std::string ToJson(absl::Span<const BatchArray> arrays) {
  std::string out = "[";
  for (const BatchArray& array : arrays) {
    absl::StrAppend(&out, out.size() > 1 ? ",\n  " : "\n  ", ToJson(array));
  }
  return out + "]";
}

}  // namespace millrace::batch_files
