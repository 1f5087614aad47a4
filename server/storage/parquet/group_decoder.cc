#include "server/storage/parquet/group_decoder.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/record_batch.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/page_index.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "server/storage/parquet/chunk_place.h"
#include "server/storage/parquet/chunk_stream.h"
#include "server/storage/parquet/codec_memory.h"
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

// Charges the pool for what Arrow allocates in addition to it: to parse long
// page headers, and to decompress pages. Arrow looks at twice as many bytes of
// a header after each failure to parse, so it is shown no part of a header: of
// a damaged one, it would allocate what the header claims.
class MeteredPages final : public arrow::io::InputStream {
 public:
  // `always_compressed`: as for parquet::PageReader::Open().
  MeteredPages(std::shared_ptr<arrow::io::InputStream> stream,
               arrow::Compression::type codec, bool always_compressed,
               BoundedPool* pool)
      : stream_(std::move(stream)),
        codec_(codec),
        always_compressed_(always_compressed),
        headers_(pool),
        decompression_(pool) {}

  arrow::Result<std::string_view> Peek(int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(const std::string_view bytes, stream_->Peek(nbytes));
    header_ = ParsePageHeader({bytes.data(), bytes.size()});
    passed_header_ = false;
    if (nbytes <= kUsualPageHeaderBytes) return bytes;
    if (!header_.has_value()) return bytes.substr(0, kUsualPageHeaderBytes);
    ARROW_RETURN_NOT_OK(headers_.RaiseTo(PageHeaderMemory(header_->bytes)));
    return bytes;
  }
  arrow::Result<int64_t> Read(int64_t nbytes, void* out) override {
    return stream_->Read(nbytes, out);
  }
  // The first call after Peek() passes over the header, the second one reads
  // the page.
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, stream_->Read(nbytes));
    if (header_.has_value() && header_->bytes == nbytes &&
        !std::exchange(passed_header_, true)) {
      return buffer;
    }
    ARROW_RETURN_NOT_OK(decompression_.RaiseTo(DecompressionBytes(*buffer)));
    return buffer;
  }
  arrow::Status Close() override { return stream_->Close(); }
  bool closed() const override { return stream_->closed(); }
  arrow::Result<int64_t> Tell() const override { return stream_->Tell(); }

 private:
  int64_t DecompressionBytes(const arrow::Buffer& page) const {
    // Arrow may accept a header that makes no sense here.
    if (!header_.has_value()) return MaxCodecBytes(codec_);
    const bool compressed = header_->compressed || always_compressed_;
    if (!compressed || header_->levels >= page.size()) return 0;
    return CodecBytes(codec_, page.data()[header_->levels]);
  }

  const std::shared_ptr<arrow::io::InputStream> stream_;
  const arrow::Compression::type codec_;
  const bool always_compressed_;
  // Of the page that is read next.
  std::optional<PageHeader> header_;
  bool passed_header_ = false;
  BoundedPool::Charge headers_;
  BoundedPool::Charge decompression_;
};

// The bounds as the page index has them. Null: the file has no page index, or a
// wrong one.
PageRows::Bounds PageBounds(const parquet::ColumnChunkMetaData& chunk,
                            int64_t rows, arrow::io::RandomAccessFile& file,
                            const parquet::ReaderProperties& properties) {
  const auto place = chunk.GetOffsetIndexLocation();
  if (!place.has_value() || place->length <= 0) return nullptr;
  PARQUET_ASSIGN_OR_THROW(const std::shared_ptr<arrow::Buffer> stored,
                          file.ReadAt(place->offset, place->length));
  const auto index =
      parquet::OffsetIndex::Make(stored->data(), stored->size(), properties);
  auto bounds = std::make_shared<std::vector<int64_t>>();
  for (const parquet::PageLocation& page : index->page_locations()) {
    bounds->push_back(page.first_row_index);
  }
  bounds->push_back(rows);
  if (bounds->front() != 0 || !std::is_sorted(bounds->begin(), bounds->end())) {
    return nullptr;
  }
  return bounds;
}

}  // namespace

// The state of the column that is being read.
struct GroupDecoder::Progress {
  int64_t begin = 0;     // the first row that is wanted
  int64_t first = 0;     // the first row of the pages that are handed out
  bool passing = false;  // pages are skipped
  bool stream = false;   // the chunk is read page by page
  std::shared_ptr<arrow::Buffer> chunk;  // otherwise; null: not read yet
  int32_t dictionary = -1;  // values of the dictionary; -1: there is none
  // Of the pages of a column of lists. Null: not known.
  PageRows::Bounds bounds;
  // Finds out `bounds`, for pages of version 1. Null where that was tried.
  std::function<PageRows::Bounds()> count;
  size_t pages = 0;     // data pages that were skipped
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
    } else {
      if (bounds == nullptr && count != nullptr) {
        bounds = std::exchange(count, nullptr)();
      }
      if (bounds != nullptr && pages + 1 < bounds->size()) {
        rows = (*bounds)[pages + 1] - (*bounds)[pages];
      }
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
       std::shared_ptr<parquet::FileMetaData> metadata, int row_group,
       std::shared_ptr<Progress> progress, PageRows::OfShard page_rows,
       BoundedPool* pool)
      : source_(std::move(source)),
        properties_(properties),
        row_group_(row_group),
        progress_(std::move(progress)),
        page_rows_(page_rows),
        pool_(pool),
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

  const parquet::ReaderProperties& properties() const { return properties_; }

  // The pages of a column, for the Read() that is in progress.
  std::unique_ptr<parquet::PageReader> OpenPages(int leaf) const;

 private:
  bool Repeated(int leaf) const {
    return metadata()->schema()->Column(leaf)->max_repetition_level() > 0;
  }
  // All pages. *stream is their source; null: the chunk was read at once.
  std::unique_ptr<parquet::PageReader> OpenAllPages(
      int leaf, std::shared_ptr<ChunkStream>* stream) const;
  // The bounds of a column's pages, known or counted. Null: they cannot be
  // counted.
  PageRows::Bounds CountPages(int leaf) const;

  const std::shared_ptr<arrow::io::RandomAccessFile> source_;
  const parquet::ReaderProperties properties_;
  const int row_group_;
  const std::shared_ptr<Progress> progress_;
  const PageRows::OfShard page_rows_;
  BoundedPool* const pool_;
  const std::unique_ptr<Contents> file_;
};

const parquet::ReaderProperties* GroupDecoder::Group::properties() const {
  return &file_.properties();
}

std::unique_ptr<parquet::PageReader> GroupDecoder::Group::GetColumnPageReader(
    int i) {
  return file_.OpenPages(i);
}

std::unique_ptr<parquet::PageReader> GroupDecoder::File::OpenPages(
    int leaf) const {
  const bool repeated = Repeated(leaf);
  if (repeated && progress_->passing) {
    const auto group = metadata()->RowGroup(row_group_);
    progress_->bounds = PageBounds(*group->ColumnChunk(leaf), group->num_rows(),
                                   *source_, properties_);
    progress_->count = [this, leaf] { return CountPages(leaf); };
  }
  std::shared_ptr<ChunkStream> stream;
  std::unique_ptr<parquet::PageReader> pages = OpenAllPages(leaf, &stream);
  return std::make_unique<Pages>(std::move(pages), progress_, repeated,
                                 std::move(stream));
}

std::unique_ptr<parquet::PageReader> GroupDecoder::File::OpenAllPages(
    int leaf, std::shared_ptr<ChunkStream>* stream) const {
  const auto chunk = metadata()->RowGroup(row_group_)->ColumnChunk(leaf);
  const ChunkPlace place = PlaceOf(*chunk, *metadata());
  std::shared_ptr<arrow::io::InputStream> bytes;
  if (progress_->stream) {
    *stream =
        std::make_shared<ChunkStream>(source_, place.begin, place.bytes, pool_);
    bytes = *stream;
  } else {
    if (progress_->chunk == nullptr) {
      parquet::ReaderProperties properties = properties_;
      bytes = properties.GetStream(source_, place.begin, place.bytes);
      PARQUET_ASSIGN_OR_THROW(progress_->chunk, bytes->Read(place.bytes));
    }
    bytes = std::make_shared<arrow::io::BufferReader>(progress_->chunk);
  }
  // Files of older writers do not mark their pages as compressed.
  const bool always_compressed = metadata()->writer_version().VersionLt(
      parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION());
  return parquet::PageReader::Open(
      std::make_shared<MeteredPages>(std::move(bytes), chunk->compression(),
                                     always_compressed, pool_),
      chunk->num_values(), chunk->compression(), properties_,
      *metadata()->schema()->Column(leaf), always_compressed);
}

PageRows::Bounds GroupDecoder::File::CountPages(int leaf) const {
  const PageRows::Key key = {
      .shard = page_rows_.shard, .group = row_group_, .leaf = leaf};
  if (PageRows::Bounds known = page_rows_.rows->Find(key)) return known;
  try {
    std::shared_ptr<ChunkStream> stream;
    const std::unique_ptr<parquet::PageReader> pages =
        OpenAllPages(leaf, &stream);
    PageRows::Bounds bounds = CountPageRows(
        *pages, metadata()->schema()->Column(leaf)->max_repetition_level(),
        metadata()->RowGroup(row_group_)->num_rows());
    if (bounds != nullptr) page_rows_.rows->Keep(key, bounds);
    return bounds;
  } catch (const std::exception&) {
    // The page that is damaged may hold none of the rows that are wanted.
    // Decoding reports what it finds in those that do.
    return nullptr;
  }
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
    std::vector<Column> columns, PageRows::OfShard page_rows,
    BoundedPool* pool) {
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
      std::move(metadata), row_group, decoder->progress_, page_rows, pool));
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
  progress_->chunk = nullptr;
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
