// IpcFile is one file of Arrow's IPC formats, mapped for reading: the file
// format (Feather version 2, with a footer) or the stream format (as Hugging
// Face datasets write it). It knows the schema and where each record batch
// lies; it decodes nothing.
//
// Immutable, thread-safe. The file may change under it: CheckUnchanged() says
// whether what was read may be used. Nothing of the file is trusted: a header
// is copied before it is parsed, and its body must lie inside the file.
//
//   MR_ASSIGN_OR_RETURN(auto file, IpcFile::Open(path, admit));
//   IpcFile::Header header;
//   if (file->ReadHeader(3, &header)) Use(file->Body(3, header));

#ifndef MILLRACE_SERVER_STORAGE_ARROW_IPC_FILE_H_
#define MILLRACE_SERVER_STORAGE_ARROW_IPC_FILE_H_

#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/arrow/ipc_message.h"
#include "server/storage/content_hash.h"
#include "server/storage/mapped_file.h"
#include "server/storage/mapped_pages.h"

namespace millrace::storage {

class IpcFile {
 public:
  // Told how many more bytes of memory the file takes while it is open, before
  // they are taken; ends the opening with what it returns unless that is OK.
  using Admit = absl::FunctionRef<absl::Status(uint64_t bytes)>;

  // DataLoss: truncated, foreign or damaged. Unimplemented: of a version or
  // kind that is not read. Unavailable: it changed meanwhile. Names the file.
  static absl::StatusOr<std::unique_ptr<const IpcFile>> Open(
      const std::string& path, Admit admit);

  const std::string& path() const { return file_->path(); }
  uint64_t bytes() const { return file_->data().size(); }
  const arrow::Schema& schema() const { return *schema_; }
  // The `huggingface` metadata; empty: there is none.
  const std::string& features_json() const { return features_json_; }

  int64_t rows() const { return rows_; }
  // Record batches with rows.
  int batches() const { return static_cast<int>(batches_.size()); }
  int64_t first_row(int batch) const { return batches_[batch].first_row; }
  int64_t end_row(int batch) const {
    return batch + 1 < batches() ? batches_[batch + 1].first_row : rows_;
  }
  int BatchOf(int64_t row) const;  // of a row that exists
  // Whether buffers of a record batch are compressed.
  bool compressed() const { return compressed_; }
  // Memory that Admit was told of.
  uint64_t memory_bytes() const { return memory_bytes_; }
  // The schema and the headers of all record batches.
  Hash128 header_hash() const { return header_hash_; }

  // A record batch's header in memory of its own.
  struct Header {
    std::vector<uint8_t> bytes;
    IpcMessage message;  // of `bytes`
  };
  // False: the file does not hold it any more.
  bool ReadHeader(int batch, Header* header) const;
  // The body of a record batch, as its header describes it.
  absl::Span<const uint8_t> Body(int batch, const Header& header) const;
  // Where it begins in the file.
  uint64_t body_begin(int batch) const { return batches_[batch].body; }

  // As MappedFile::Read() and CheckUnchanged().
  absl::StatusOr<uint64_t> Read(uint64_t offset,
                                absl::Span<uint8_t> buffer) const {
    return file_->Read(offset, buffer);
  }
  absl::Status CheckUnchanged() const { return file_->CheckUnchanged(); }
  const MappedPages& pages() const { return pages_; }

  // "PATH WHY; copy the file again, or write it again".
  absl::Status Damaged(absl::string_view why) const;

 private:
  struct Batch {
    uint64_t header = 0;  // in the file
    uint64_t body = 0;
    uint32_t header_bytes = 0;
    int64_t first_row = 0;
  };
  // A message, as far as its frame says: its header and where its body begins.
  struct Frame {
    uint64_t header = 0;
    uint64_t header_bytes = 0;  // 0: the end of the stream
    uint64_t body = 0;
  };

  explicit IpcFile(std::unique_ptr<const MappedFile> file)
      : file_(std::move(file)), pages_(file_->data()) {}

  absl::Status Load(Admit admit);
  absl::Status LoadStream(uint64_t at, Admit admit);
  absl::Status LoadFooter(Admit admit);
  absl::StatusOr<Frame> ReadFrame(uint64_t at) const;
  absl::Status ReadSchema(const Frame& frame, Admit admit);
  absl::Status ReadFooterSchema(absl::Span<const uint8_t> footer);
  // `bytes`: that it was read from.
  absl::Status SetSchema(arrow::Result<std::shared_ptr<arrow::Schema>> schema,
                         absl::Span<const uint8_t> bytes);
  // Adds the record batch; its body is inside the file.
  absl::Status AddBatch(const Frame& frame, const Header& header, Admit admit);
  absl::Status Parse(const Frame& frame, Header* header) const;
  absl::Status Take(uint64_t bytes, Admit admit);

  const std::unique_ptr<const MappedFile> file_;
  const MappedPages pages_;
  std::shared_ptr<arrow::Schema> schema_;
  std::string features_json_;
  bool has_union_ = false;
  std::vector<Batch> batches_;
  int64_t rows_ = 0;
  bool compressed_ = false;
  uint64_t memory_bytes_ = 0;
  ContentSum headers_;  // while it is opened
  Hash128 header_hash_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_IPC_FILE_H_
