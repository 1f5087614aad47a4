#include "server/data_tool/idx_file.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/regular_file.h"
#include "common/status_macros.h"

namespace millrace::data_tool {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int kMaxDimensions = 4;
// Larger arrays are damage: no dataset of this format is that large.
constexpr int64_t kMaxBytes = int64_t{1} << 36;

// zlib's gzread also reads uncompressed files.
class GzipFile {
 public:
  static absl::StatusOr<std::unique_ptr<GzipFile>> Open(
      const std::string& path) {
    MR_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
    gzFile file = gzdopen(fd, "rb");
    if (file == nullptr) {
      close(fd);
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory to read ", path));
    }
    gzbuffer(file, 1 << 18);
    return std::unique_ptr<GzipFile>(new GzipFile(path, file));
  }
  ~GzipFile() { gzclose(file_); }
  GzipFile(const GzipFile&) = delete;

  // Appends up to `bytes`; fewer at the end of the file.
  absl::Status Append(int64_t bytes, std::string* out) {
    // Read in steps, so that a wrong header does not cause a large allocation.
    constexpr int64_t kStep = 4 << 20;
    while (bytes > 0) {
      const unsigned step = static_cast<unsigned>(std::min(bytes, kStep));
      const size_t before = out->size();
      out->resize(before + step);
      const int got = gzread(file_, out->data() + before, step);
      out->resize(before + std::max(got, 0));
      // gzerror() reports a file that ends inside its gzip stream, together
      // with the bytes that were read.
      int error = Z_OK;
      const char* text = gzerror(file_, &error);
      if (error == Z_ERRNO) return FileError(errno, "read", path_);
      if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) {
        return absl::DataLossError(absl::StrCat(
            path_, " is truncated or damaged (",
            error == Z_BUF_ERROR ? "its gzip stream ends early" : text,
            "); download it again"));
      }
      if (got < static_cast<int>(step)) return absl::OkStatus();
      bytes -= got;
    }
    return absl::OkStatus();
  }

 private:
  GzipFile(std::string path, gzFile file)
      : path_(std::move(path)), file_(file) {}
  const std::string path_;
  const gzFile file_;
};

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(path, " ", what, "; download it again"));
}

}  // namespace

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path) {
  MR_ASSIGN_OR_RETURN(auto file, GzipFile::Open(path));
  std::string header;
  MR_RETURN_IF_ERROR(file->Append(4, &header));
  if (header.empty()) return Damaged(path, "is empty");
  if (header.size() < 4 || header[0] != 0 || header[1] != 0) {
    return Damaged(path, "is not an IDX file");
  }
  const uint8_t type = header[2];
  const int dimensions = static_cast<uint8_t>(header[3]);
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    return Damaged(path, "is not an IDX file");
  }
  if (type != kUnsignedByte) {
    return absl::UnimplementedError(
        absl::StrCat(path, " holds elements of IDX type ", type,
                     "; only unsigned bytes (8) are supported"));
  }
  std::string sizes;
  MR_RETURN_IF_ERROR(file->Append(4 * dimensions, &sizes));
  if (sizes.size() < 4u * dimensions) return Damaged(path, "is truncated");
  IdxFile idx;
  int64_t total = 1;
  for (int i = 0; i < dimensions; ++i) {
    const auto* at = reinterpret_cast<const uint8_t*>(sizes.data()) + 4 * i;
    const int64_t size =
        int64_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3];
    if (size == 0 || size > kMaxBytes / total) {
      return Damaged(path, absl::StrCat("claims a dimension of ", size));
    }
    total *= size;
    idx.shape.push_back(size);
  }
  // Reads one byte more than expected, to detect extra bytes.
  MR_RETURN_IF_ERROR(file->Append(total + 1, &idx.bytes));
  const int64_t got = static_cast<int64_t>(idx.bytes.size());
  if (got < total) {
    return Damaged(path, absl::StrCat("is truncated: it has ", got, " of ",
                                      total, " bytes"));
  }
  if (got > total) {
    return Damaged(path, absl::StrCat("is longer than its ", total, " bytes"));
  }
  return idx;
}

}  // namespace millrace::data_tool
