#include "server/storage/parquet/chunk_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace::storage {
namespace {

// The same size that Parquet uses to peek at a page header.
constexpr int64_t kWindowBytes = 16 << 10;

}  // namespace

arrow::Result<std::string_view> ChunkStream::Peek(int64_t nbytes) {
  nbytes = std::min(nbytes, end_ - at_);
  if (nbytes <= 0) return std::string_view();
  if (in_window() < nbytes) {
    const int64_t size = std::min(std::max(nbytes, kWindowBytes), end_ - at_);
    if (window_ == nullptr) {
      ARROW_ASSIGN_OR_RAISE(window_,
                            arrow::AllocateResizableBuffer(size, pool_));
    } else if (window_->size() < size) {
      ARROW_RETURN_NOT_OK(window_->Resize(size, /*shrink_to_fit=*/false));
    }
    window_at_ = window_end_ = at_;
    ARROW_ASSIGN_OR_RAISE(const int64_t got,
                          file_->ReadAt(at_, size, window_->mutable_data()));
    window_end_ = at_ + got;
  }
  const char* const window = reinterpret_cast<const char*>(window_->data());
  return std::string_view(window + (at_ - window_at_),
                          std::min(nbytes, in_window()));
}

arrow::Result<int64_t> ChunkStream::Read(int64_t nbytes, void* out) {
  nbytes = std::min(nbytes, end_ - at_);
  if (nbytes <= 0) return 0;
  auto* const to = static_cast<uint8_t*>(out);
  const int64_t known = std::min(nbytes, in_window());
  if (known > 0) {
    std::memcpy(to, window_->data() + (at_ - window_at_), known);
  }
  int64_t got = known;
  if (known < nbytes) {
    ARROW_ASSIGN_OR_RAISE(
        const int64_t more,
        file_->ReadAt(at_ + known, nbytes - known, to + known));
    got += more;
  }
  at_ += got;
  return got;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ChunkStream::Read(
    int64_t nbytes) {
  nbytes = std::max<int64_t>(0, std::min(nbytes, end_ - at_));
  if (std::exchange(skip_, false)) {
    at_ += nbytes;
    return std::make_shared<arrow::Buffer>(nullptr, 0);
  }
  ARROW_ASSIGN_OR_RAISE(auto buffer,
                        arrow::AllocateResizableBuffer(nbytes, pool_));
  ARROW_ASSIGN_OR_RAISE(const int64_t got,
                        Read(nbytes, buffer->mutable_data()));
  if (got < nbytes) ARROW_RETURN_NOT_OK(buffer->Resize(got));
  return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

}  // namespace millrace::storage
