#include "server/storage/litdata/litdata_batches.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/little_endian.h"
#include "server/storage/unpack/codec_unpacker.h"
#include "server/storage/unpack/decompressor.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic("LDFZ01\0\0", 8);
constexpr uint16_t kVersion = 1;
constexpr uint64_t kHeadBytes = 24;
constexpr uint64_t kBatchBytes = 24;
constexpr uint64_t kNumber = sizeof(uint32_t);

template <typename... What>
absl::Status Damaged(uint64_t at, const What&... what) {
  return absl::DataLossError(absl::StrCat("byte ", at, ": ", what...));
}

absl::StatusOr<std::string> ReadText(PackedFile& file, uint64_t offset,
                                     uint64_t bytes) {
  if (offset > file.size() || bytes > file.size() - offset) {
    return Damaged(offset, "a table of ", bytes,
                   " bytes does not fit into the file of ", file.size(),
                   " bytes: the file was cut off or is no such chunk");
  }
  std::string text(bytes, '\0');
  MR_RETURN_IF_ERROR(file.Read(
      offset, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), bytes)));
  return text;
}

// Writes the table of a raw chunk. `offsets`: N + 1 of them, from 0 on.
absl::Status WriteTable(const std::vector<uint64_t>& offsets, RawSink& sink) {
  const uint64_t begin = kNumber * (offsets.size() + 1);
  if (begin + offsets.back() > UINT32_MAX) {
    return Damaged(0, "the raw chunk has more than 4 GiB");
  }
  std::string table;
  AppendU32(static_cast<uint32_t>(offsets.size() - 1), &table);
  for (const uint64_t offset : offsets) {
    AppendU32(static_cast<uint32_t>(begin + offset), &table);
  }
  return sink.Write(
      {reinterpret_cast<const uint8_t*>(table.data()), table.size()});
}

// Passes exactly `bytes` bytes on.
class ExactSink final : public RawSink {
 public:
  ExactSink(RawSink* sink, uint64_t bytes) : sink_(sink), left_(bytes) {}
  absl::Status Write(absl::Span<const uint8_t> bytes) override {
    if (bytes.size() > left_) return absl::DataLossError("too many bytes");
    left_ -= bytes.size();
    made_ += bytes.size();
    return sink_ == nullptr ? absl::OkStatus() : sink_->Write(bytes);
  }
  uint64_t left() const { return left_; }
  uint64_t made() const { return made_; }

 private:
  RawSink* const sink_;  // null: counts only
  uint64_t left_;
  uint64_t made_ = 0;
};

// One frame of `raw_bytes`.
absl::Status UnpackFrame(PackedFile& file, uint64_t begin, uint64_t end,
                         uint64_t raw_bytes, RawSink& sink) {
  ExactSink exact(&sink, raw_bytes);
  const absl::Status status =
      DecompressRange(Codec::kZstd, file, begin, end, exact);
  if (!status.ok() && !absl::StartsWith(status.message(), "too many")) {
    return status;
  }
  if (status.ok() && exact.left() == 0) return status;
  return Damaged(begin, "the compressed samples have ",
                 status.ok() ? "fewer" : "more", " than the ", raw_bytes,
                 " raw bytes of the table");
}

class Batches final : public Unpacker {
 public:
  absl::string_view name() const override { return "zstd in batches"; }

  absl::StatusOr<uint64_t> ClaimedBytes(PackedFile& file) const override {
    MR_ASSIGN_OR_RETURN(const Table table, ReadTable(file));
    return kNumber * (table.offsets.size() + 1) + table.offsets.back();
  }

  absl::Status Unpack(PackedFile& file, RawSink& sink) const override {
    MR_ASSIGN_OR_RETURN(const Table table, ReadTable(file));
    MR_RETURN_IF_ERROR(WriteTable(table.offsets, sink));
    for (const Batch& batch : table.batches) {
      MR_RETURN_IF_ERROR(
          UnpackFrame(file, batch.begin, batch.end, batch.raw_bytes, sink));
    }
    return absl::OkStatus();
  }

 private:
  struct Batch {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t raw_bytes = 0;
  };
  struct Table {
    std::vector<uint64_t> offsets;
    std::vector<Batch> batches;
  };

  static absl::StatusOr<Table> ReadTable(PackedFile& file) {
    MR_ASSIGN_OR_RETURN(const std::string head, ReadText(file, 0, kHeadBytes));
    if (!absl::StartsWith(head, kMagic)) {
      return Damaged(0,
                     "the chunk does not begin with LDFZ01, and index.json "
                     "says that its samples are compressed in batches");
    }
    uint16_t version;
    std::memcpy(&version, head.data() + kMagic.size(), sizeof(version));
    if (version != kVersion) {
      return absl::UnimplementedError(
          absl::StrCat("byte ", kMagic.size(), ": the batches have version ",
                       version, "; version ", kVersion, " is supported"));
    }
    const uint64_t samples = LoadU32(head.data() + 12);
    const uint64_t batches = LoadU32(head.data() + 20);
    MR_ASSIGN_OR_RETURN(
        const std::string stored,
        ReadText(file, kHeadBytes,
                 kNumber * (samples + 1) + kBatchBytes * batches));
    Table table;
    LittleEndianReader reader(stored);
    for (uint64_t i = 0; i <= samples; ++i) {
      const uint64_t offset = reader.U32();
      if (i == 0 ? offset != 0 : offset < table.offsets.back()) {
        return Damaged(kHeadBytes + kNumber * i, "sample ", i,
                       " begins at byte ", offset,
                       " of the raw bytes, before the end of the last one");
      }
      table.offsets.push_back(offset);
    }
    uint64_t next = 0;  // sample
    for (uint64_t i = 0; i < batches; ++i) {
      const uint64_t at =
          kHeadBytes + kNumber * (samples + 1) + kBatchBytes * i;
      const uint64_t first = reader.U32();
      const uint64_t count = reader.U32();
      const uint64_t begin = reader.U64();
      const uint64_t bytes = reader.U32();
      const uint64_t raw = reader.U32();
      if (first != next || count > samples - first ||
          raw != table.offsets[first + count] - table.offsets[first]) {
        return Damaged(at, "batch ", i, " with ", count,
                       " samples from sample ", first,
                       " on does not fit the table of ", samples, " samples");
      }
      if (begin > file.size() || bytes > file.size() - begin) {
        return Damaged(at, "batch ", i, " has ", bytes, " bytes from byte ",
                       begin, " on, and the file has ", file.size(), " bytes");
      }
      next = first + count;
      table.batches.push_back({begin, begin + bytes, raw});
    }
    if (next != samples) {
      return Damaged(kHeadBytes, "the batches have ", next, " of ", samples,
                     " samples");
    }
    return table;
  }
};

class Samples final : public Unpacker {
 public:
  absl::string_view name() const override { return "zstd by sample"; }

  absl::Status Unpack(PackedFile& file, RawSink& sink) const override {
    MR_ASSIGN_OR_RETURN(const std::string count, ReadText(file, 0, kNumber));
    const uint64_t samples = LoadU32(count.data());
    MR_ASSIGN_OR_RETURN(const std::string table,
                        ReadText(file, kNumber, kNumber * (samples + 1)));
    const auto place = [&](uint64_t i) -> uint64_t {
      return LoadU32(table.data() + kNumber * i);
    };
    for (uint64_t i = 0; i <= samples; ++i) {
      const uint64_t least = i == 0 ? kNumber * (samples + 2) : place(i - 1);
      if (place(i) < least || place(i) > file.size()) {
        return Damaged(kNumber * (i + 1), "sample ", i, " begins at byte ",
                       place(i), ", and the file has ", file.size(), " bytes");
      }
    }
    // The table of the raw chunk comes first, so the sizes are needed before.
    std::vector<uint64_t> offsets = {0};
    for (uint64_t i = 0; i < samples; ++i) {
      ExactSink counted(nullptr, UINT32_MAX);
      MR_RETURN_IF_ERROR(
          DecompressRange(Codec::kZstd, file, place(i), place(i + 1), counted));
      offsets.push_back(offsets.back() + counted.made());
    }
    MR_RETURN_IF_ERROR(WriteTable(offsets, sink));
    for (uint64_t i = 0; i < samples; ++i) {
      MR_RETURN_IF_ERROR(UnpackFrame(file, place(i), place(i + 1),
                                     offsets[i + 1] - offsets[i], sink));
    }
    return absl::OkStatus();
  }
};

}  // namespace

const Unpacker& LitdataBatches() {
  static const Batches unpacker;
  return unpacker;
}

const Unpacker& LitdataSamples() {
  static const Samples unpacker;
  return unpacker;
}

}  // namespace millrace::storage
