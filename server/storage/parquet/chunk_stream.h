// ChunkStream is a column chunk as the stream of its pages, read with pread
// when they are asked for: a page that is passed over is not read.
//
// Belongs to one thread. Memory is the pool's.
//
//   auto pages = parquet::PageReader::Open(
//       std::make_shared<ChunkStream>(file, offset, length, pool), ...);

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_STREAM_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_STREAM_H_

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace millrace::storage {

class ChunkStream final : public arrow::io::InputStream {
 public:
  // Bytes [offset, offset + length) of `file`, as far as it has them.
  ChunkStream(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t offset,
              int64_t length, arrow::MemoryPool* pool)
      : file_(std::move(file)),
        pool_(pool),
        at_(offset),
        end_(offset + length) {}

  arrow::Result<std::string_view> Peek(int64_t nbytes) override;
  arrow::Result<int64_t> Read(int64_t nbytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t nbytes) override;

  // The next Read() of a buffer passes over its bytes and gives an empty one:
  // Arrow advances a stream by reading what it throws away.
  void SkipNextRead() { skip_ = true; }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return at_; }

 private:
  // The part of the window at at_.
  int64_t in_window() const {
    return at_ < window_at_ || at_ >= window_end_ ? 0 : window_end_ - at_;
  }

  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
  arrow::MemoryPool* const pool_;
  int64_t at_;  // in the file
  bool skip_ = false;
  const int64_t end_;
  // Bytes [window_at_, window_end_) of the file: headers of pages.
  std::unique_ptr<arrow::ResizableBuffer> window_;
  int64_t window_at_ = 0;
  int64_t window_end_ = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_CHUNK_STREAM_H_
