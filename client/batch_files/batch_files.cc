#include "client/batch_files/batch_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/file_error.h"
#include "common/json_text.h"
#include "common/program/report.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::batch_files {
namespace {

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

}  // namespace

absl::Status MakeBatchFolder(const std::string& path, absl::string_view flag) {
  if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat there;
  if (error != EEXIST || stat(path.c_str(), &there) != 0) {
    return FileError(error, "create the folder", path);
  }
  if (!S_ISDIR(there.st_mode)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists and is not a folder; give another ", flag));
  }
  if (access((path + "/batch.json").c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " already contains a batch; give another ", flag));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BatchArray>> WriteBatchArrays(
    const HostBatch& batch, const std::string& folder) {
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
    MR_RETURN_IF_ERROR(WriteNpy(absl::StrCat(folder, "/", array.file),
                                array.dtype, array.shape, array.data));
  }
  return arrays;
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
