#include "server/storage/parquet/group_decoder.h"

#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/page_index.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "server/storage/parquet/chunk_place.h"
#include "server/storage/parquet/chunk_stream.h"
#include "server/storage/parquet/page_header.h"

namespace millrace::storage {
namespace {

// Reads the shared file into memory of the decoder's pool.
class PooledFile final : public arrow::io::RandomAccessFile {
 public:
  PooledFile(std::shared_ptr<arrow::io::RandomAccessFile> file,
             arrow::MemoryPool* pool)
      : file_(std::move(file)), pool_(pool) {}

  using RandomAccessFile::ReadAt;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t nbytes,
                                void* out) override {
    return file_->ReadAt(position, nbytes, out);
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(
      int64_t position, int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer,
                          arrow::AllocateResizableBuffer(nbytes, pool_));
    ARROW_ASSIGN_OR_RAISE(
        const int64_t got,
        file_->ReadAt(position, nbytes, buffer->mutable_data()));
    if (got < nbytes) ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }
  arrow::Result<int64_t> GetSize() override { return file_->GetSize(); }

  // The shared file stays open. This object keeps no position in it.
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return NoPosition(); }
  arrow::Status Seek(int64_t) override { return NoPosition(); }
  arrow::Result<int64_t> Read(int64_t, void*) override { return NoPosition(); }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t) override {
    return NoPosition();
  }

 private:
  static arrow::Status NoPosition() {
    return arrow::Status::NotImplemented("the file is read by position alone");
  }

  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
  arrow::MemoryPool* const pool_;
};

// Charges the pool for what Arrow allocates to parse long page headers. Arrow
// looks at twice as many bytes after each failure to parse, so it is shown no
// part of a header: of a damaged one, it would allocate what the header claims.
class MeteredHeaders final : public arrow::io::InputStream {
 public:
  MeteredHeaders(std::shared_ptr<arrow::io::InputStream> stream,
                 arrow::MemoryPool* pool)
      : stream_(std::move(stream)), pool_(pool) {}

  arrow::Result<std::string_view> Peek(int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(const std::string_view bytes, stream_->Peek(nbytes));
    if (nbytes <= kUsualPageHeaderBytes) return bytes;
    const std::optional<PageHeader> header =
        ParsePageHeader({bytes.data(), bytes.size()});
    if (!header.has_value()) return bytes.substr(0, kUsualPageHeaderBytes);
    if (const int64_t needed = PageHeaderMemory(header->bytes);
        needed > charged_bytes_) {
      charged_.reset();
      charged_bytes_ = 0;
      ARROW_ASSIGN_OR_RAISE(charged_, arrow::AllocateBuffer(needed, pool_));
      charged_bytes_ = needed;
    }
    return bytes;
  }
  arrow::Result<int64_t> Read(int64_t nbytes, void* out) override {
    return stream_->Read(nbytes, out);
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t nbytes) override {
    return stream_->Read(nbytes);
  }
  arrow::Status Close() override { return stream_->Close(); }
  bool closed() const override { return stream_->closed(); }
  arrow::Result<int64_t> Tell() const override { return stream_->Tell(); }

 private:
  const std::shared_ptr<arrow::io::InputStream> stream_;
  arrow::MemoryPool* const pool_;
  // Never touched: the system gives it no memory.
  std::unique_ptr<arrow::Buffer> charged_;
  int64_t charged_bytes_ = 0;
};

// The first row of each data page of a chunk, followed by the end. Empty: the
// file has no page index, or a wrong one.
std::vector<int64_t> PageBounds(const parquet::ColumnChunkMetaData& chunk,
                                int64_t rows, arrow::io::RandomAccessFile& file,
                                const parquet::ReaderProperties& properties) {
  const auto place = chunk.GetOffsetIndexLocation();
  if (!place.has_value() || place->length <= 0) return {};
  PARQUET_ASSIGN_OR_THROW(const std::shared_ptr<arrow::Buffer> stored,
                          file.ReadAt(place->offset, place->length));
  const auto index =
      parquet::OffsetIndex::Make(stored->data(), stored->size(), properties);
  std::vector<int64_t> bounds;
  for (const parquet::PageLocation& page : index->page_locations()) {
    bounds.push_back(page.first_row_index);
  }
  bounds.push_back(rows);
  if (bounds.front() != 0 || !std::is_sorted(bounds.begin(), bounds.end())) {
    return {};
  }
  return bounds;
}

}  // namespace

// The state of the column that is being read.
struct GroupDecoder::Progress {
  int64_t begin = 0;        // the first row that is wanted
  int64_t first = 0;        // the first row of the pages that are handed out
  bool passing = false;     // pages are skipped
  bool stream = false;      // the chunk is read page by page
  int32_t dictionary = -1;  // values of the dictionary; -1: there is none
  // As PageBounds(), for a column of lists, and the number of skipped data
  // pages.
  std::vector<int64_t> bounds;
  size_t pages = 0;
  bool hidden = false;  // the rows of a page are unknown

  // Whether no row of the page is wanted. The row before `begin` counts as
  // wanted: it is read first, to find out its number.
  bool PassOver(const parquet::DataPageStats& page, bool repeated) {
    if (!passing) return false;
    int64_t rows = -1;
    if (page.num_rows.has_value()) {
      rows = *page.num_rows;
    } else if (!repeated) {
      rows = page.num_values;
    } else if (pages + 1 < bounds.size()) {
      rows = bounds[pages + 1] - bounds[pages];
    }
    hidden = rows < 0;
    passing = !hidden && first + rows < begin;
    if (passing) first += rows;
    ++pages;
    return passing;
  }
};

class GroupDecoder::Pages final : public parquet::PageReader {
 public:
  // `stream`: the source of the pages; null: the chunk was read at once.
  Pages(std::unique_ptr<parquet::PageReader> pages,
        std::shared_ptr<Progress> progress, bool repeated,
        std::shared_ptr<ChunkStream> stream)
      : pages_(std::move(pages)), progress_(std::move(progress)) {
    pages_->set_data_page_filter(
        [repeated, stream = std::move(stream),
         progress = progress_](const parquet::DataPageStats& page) {
          const bool pass = progress->PassOver(page, repeated);
          if (pass && stream != nullptr) stream->SkipNextRead();
          return pass;
        });
  }

  std::shared_ptr<parquet::Page> NextPage() override {
    std::shared_ptr<parquet::Page> page = pages_->NextPage();
    if (page != nullptr && page->type() == parquet::PageType::DICTIONARY_PAGE) {
      progress_->dictionary =
          static_cast<const parquet::DictionaryPage&>(*page).num_values();
    }
    return page;
  }
  void set_max_page_header_size(uint32_t size) override {
    pages_->set_max_page_header_size(size);
  }

 private:
  const std::unique_ptr<parquet::PageReader> pages_;
  const std::shared_ptr<Progress> progress_;
};

class GroupDecoder::Group final : public parquet::RowGroupReader::Contents {
 public:
  Group(std::shared_ptr<parquet::RowGroupReader> group, const File& file)
      : group_(std::move(group)), file_(file) {}

  std::unique_ptr<parquet::PageReader> GetColumnPageReader(int i) override;
  const parquet::RowGroupMetaData* metadata() const override {
    return group_->metadata();
  }
  const parquet::ReaderProperties* properties() const override;

 private:
  const std::shared_ptr<parquet::RowGroupReader> group_;
  const File& file_;  // outlives it
};

class GroupDecoder::File final : public parquet::ParquetFileReader::Contents {
 public:
  File(std::shared_ptr<arrow::io::RandomAccessFile> source,
       const parquet::ReaderProperties& properties,
       std::shared_ptr<parquet::FileMetaData> metadata,
       std::shared_ptr<Progress> progress)
      : source_(std::move(source)),
        properties_(properties),
        progress_(std::move(progress)),
        file_(Contents::Open(source_, properties_, std::move(metadata))) {}

  void Close() override { file_->Close(); }
  std::shared_ptr<parquet::RowGroupReader> GetRowGroup(int i) override {
    return std::make_shared<parquet::RowGroupReader>(
        std::make_unique<Group>(file_->GetRowGroup(i), *this));
  }
  std::shared_ptr<parquet::FileMetaData> metadata() const override {
    return file_->metadata();
  }
  std::shared_ptr<parquet::PageIndexReader> GetPageIndexReader() override {
    return file_->GetPageIndexReader();
  }
  parquet::BloomFilterReader& GetBloomFilterReader() override {
    return file_->GetBloomFilterReader();
  }

  const std::shared_ptr<arrow::io::RandomAccessFile>& source() const {
    return source_;
  }
  const parquet::ReaderProperties& properties() const { return properties_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }

 private:
  const std::shared_ptr<arrow::io::RandomAccessFile> source_;
  const parquet::ReaderProperties properties_;
  const std::shared_ptr<Progress> progress_;
  const std::unique_ptr<Contents> file_;
};

const parquet::ReaderProperties* GroupDecoder::Group::properties() const {
  return &file_.properties();
}

std::unique_ptr<parquet::PageReader> GroupDecoder::Group::GetColumnPageReader(
    int i) {
  const parquet::ColumnDescriptor& column = *metadata()->schema()->Column(i);
  const bool repeated = column.max_repetition_level() > 0;
  const auto chunk = metadata()->ColumnChunk(i);
  if (repeated && file_.progress()->passing) {
    file_.progress()->bounds = PageBounds(*chunk, metadata()->num_rows(),
                                          *file_.source(), file_.properties());
  }
  const ChunkPlace place = PlaceOf(*chunk, *file_.metadata());
  arrow::MemoryPool* const pool = file_.properties().memory_pool();
  std::shared_ptr<ChunkStream> stream;  // null: the chunk is read at once
  std::shared_ptr<arrow::io::InputStream> bytes;
  if (file_.progress()->stream) {
    stream = std::make_shared<ChunkStream>(file_.source(), place.begin,
                                           place.bytes, pool);
    bytes = stream;
  } else {
    parquet::ReaderProperties properties = file_.properties();
    bytes = properties.GetStream(file_.source(), place.begin, place.bytes);
  }
  std::unique_ptr<parquet::PageReader> pages = parquet::PageReader::Open(
      std::make_shared<MeteredHeaders>(std::move(bytes), pool),
      chunk->num_values(), chunk->compression(), file_.properties(), column,
      // Files of older writers do not mark their pages as compressed.
      file_.metadata()->writer_version().VersionLt(
          parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION()));
  return std::make_unique<Pages>(std::move(pages), file_.progress(), repeated,
                                 std::move(stream));
}

parquet::ArrowReaderProperties DecoderProperties() {
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_pre_buffer(false);
  return properties;
}

GroupDecoder::GroupDecoder(int row_group, std::vector<Column> columns)
    : row_group_(row_group),
      columns_(std::move(columns)),
      progress_(std::make_shared<Progress>()) {}

GroupDecoder::~GroupDecoder() = default;

arrow::Result<std::unique_ptr<GroupDecoder>> GroupDecoder::Make(
    std::shared_ptr<arrow::io::RandomAccessFile> file,
    std::shared_ptr<parquet::FileMetaData> metadata, int row_group,
    std::vector<Column> columns, arrow::MemoryPool* pool) {
  std::unique_ptr<GroupDecoder> decoder(
      new GroupDecoder(row_group, std::move(columns)));
  parquet::ReaderProperties reading(pool);
  reading.set_page_checksum_verification(true);
  parquet::ArrowReaderProperties decoding = DecoderProperties();
  for (const Column& column : decoder->columns_) {
    if (column.dictionary) decoding.set_read_dictionary(column.leaf, true);
  }
  auto parquet = std::make_unique<parquet::ParquetFileReader>();
  parquet->Open(std::make_unique<File>(
      std::make_shared<PooledFile>(std::move(file), pool), reading,
      std::move(metadata), decoder->progress_));
  ARROW_ASSIGN_OR_RAISE(
      decoder->reader_,
      parquet::arrow::FileReader::Make(pool, std::move(parquet), decoding));
  return decoder;
}

bool GroupDecoder::rows_hidden() const { return progress_->hidden; }

arrow::Result<arrow::ArrayVector> GroupDecoder::Read(int column, int64_t begin,
                                                     int64_t end,
                                                     int64_t step) {
  const Column& asked = columns_[column];
  *progress_ = {.begin = begin, .passing = begin > 0, .stream = asked.stream};
  ARROW_ASSIGN_OR_RAISE(const auto batches, reader_->GetRecordBatchReader(
                                                {row_group_}, {asked.leaf}));
  std::shared_ptr<arrow::RecordBatch> batch;
  // `at` is the number of the next row, once a row has been read.
  int64_t at = 0;
  const auto next = [&](int64_t rows) -> arrow::Status {
    reader_->set_batch_size(rows);
    ARROW_RETURN_NOT_OK(batches->ReadNext(&batch));
    if (batch == nullptr || batch->num_columns() != 1) {
      return arrow::Status::Invalid("it has fewer rows than its row group");
    }
    at += batch->num_rows();
    return arrow::Status::OK();
  };
  if (begin > 0) {
    ARROW_RETURN_NOT_OK(next(1));
    progress_->passing = false;
    at = progress_->first + 1;
  }
  while (at < begin) {
    ARROW_RETURN_NOT_OK(next(std::min(step, begin - at)));
  }
  dropped_rows_ = begin - progress_->first;
  arrow::ArrayVector arrays;
  while (at < end) {
    ARROW_RETURN_NOT_OK(next(end - at));
    arrays.push_back(batch->column(0));
  }
  if (at != std::max(begin, end)) {
    return arrow::Status::Invalid("it has more rows than its row group");
  }
  if (!asked.dictionary) return arrays;
  for (const auto& array : arrays) {
    // Indices refer to the dictionary as stored in the file only if Arrow has
    // found no duplicate value in the dictionary.
    const arrow::Array* strings = array.get();
    if (strings->type_id() == arrow::Type::STRUCT) {
      strings = static_cast<const arrow::StructArray&>(*array).field(0).get();
    }
    if (strings->type_id() != arrow::Type::DICTIONARY) continue;
    const auto& values = static_cast<const arrow::DictionaryArray&>(*strings);
    if (values.dictionary()->length() != progress_->dictionary) {
      return arrow::Status::NotImplemented("a dictionary with equal values");
    }
  }
  return arrays;
}

}  // namespace millrace::storage
