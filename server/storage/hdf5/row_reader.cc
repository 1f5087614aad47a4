#include "server/storage/hdf5/row_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/hdf5/number_type.h"

namespace millrace::storage {
namespace {

// Rows of chunks of up to this size are read together.
constexpr uint64_t kBandBytes = uint64_t{64} << 20;
// Of larger ones, libhdf5 keeps the decompressed chunks up to this size.
constexpr uint64_t kMaxCacheBytes = uint64_t{1} << 30;
constexpr size_t kCacheSlots = 12421;
// Rows of variable length that are read together.
constexpr uint64_t kMaxVariableRows = 4096;

void Append(uint64_t number, std::string* out) {
  out->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// The bytes of all chunks that the rows of one chunk lie in; 0: no chunks.
uint64_t BandBytes(hid_t properties, const Hdf5Dataset& set,
                   uint64_t element_bytes, uint64_t* chunk_rows) {
  *chunk_rows = 1;
  if (H5Pget_layout(properties) != H5D_CHUNKED) return 0;
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(properties, H5S_MAX_RANK, chunk);
  if (rank != set.dims_size()) return 0;
  *chunk_rows = std::max<uint64_t>(chunk[0], 1);
  // A product that is too large counts as the largest.
  double bytes =
      static_cast<double>(element_bytes) * static_cast<double>(*chunk_rows);
  for (int i = 1; i < rank; ++i) {
    const uint64_t side = std::max<uint64_t>(chunk[i], 1);
    bytes *= static_cast<double>((set.dims(i) - 1) / side + 1) *
             static_cast<double>(side);
  }
  return bytes > 1e18 ? uint64_t{1} << 60 : static_cast<uint64_t>(bytes);
}

}  // namespace

absl::StatusOr<RowReader::Open*> RowReader::OpenSet(uint64_t i) {
  const auto found = open_.find(i);
  if (found != open_.end()) return &found->second;
  const Hdf5Dataset& set = layout_.datasets(static_cast<int>(i));
  const auto damaged = [&set] {
    return absl::DataLossError(absl::StrCat("dataset '", set.name(),
                                            "' is damaged: ", LastHdf5Error()));
  };
  Open open;
  open.set =
      Hdf5Handle(H5Dopen2(file_, set.name().c_str(), H5P_DEFAULT), H5Dclose);
  if (!open.set.ok()) return damaged();
  open.row_bytes = set.element_bytes();
  for (int d = 1; d < set.dims_size(); ++d) open.row_bytes *= set.dims(d);
  const Hdf5Handle properties(H5Dget_create_plist(open.set.get()), H5Pclose);
  if (!properties.ok()) return damaged();
  const uint64_t band =
      BandBytes(properties.get(), set,
                set.variable() ? 16 : set.element_bytes(), &open.chunk_rows);
  if (band > kBandBytes) {
    const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
    H5Pset_chunk_cache(access.get(), kCacheSlots,
                       std::min(band, kMaxCacheBytes), 1.0);
    open.set =
        Hdf5Handle(H5Dopen2(file_, set.name().c_str(), access.get()), H5Dclose);
    if (!open.set.ok()) return damaged();
  }
  open.space = Hdf5Handle(H5Dget_space(open.set.get()), H5Sclose);
  const Hdf5Handle type(H5Dget_type(open.set.get()), H5Tclose);
  if (!open.space.ok() || !type.ok()) return damaged();
  if (!set.variable()) {
    const uint64_t rows =
        std::max<uint64_t>(kHdf5BlockBytes / open.row_bytes, 1);
    open.step =
        band == 0 || band > kBandBytes
            ? rows
            : std::max<uint64_t>(rows / open.chunk_rows, 1) * open.chunk_rows;
  }
  if (set.stored() == 0) {
    open.memory_type = Hdf5Handle(H5Tcopy(type.get()), H5Tclose);
  } else if (set.variable()) {
    const Hdf5Handle base(H5Tget_super(type.get()), H5Tclose);
    std::optional<NumberType> number = NumberTypeOf(base.get());
    if (!number.has_value()) return damaged();
    open.memory_type =
        Hdf5Handle(H5Tvlen_create(number->memory.get()), H5Tclose);
  } else {
    std::optional<NumberType> number = NumberTypeOf(type.get());
    if (!number.has_value()) return damaged();
    open.memory_type = std::move(number->memory);
  }
  if (!open.memory_type.ok()) return damaged();
  return &open_.emplace(i, std::move(open)).first->second;
}

absl::Status RowReader::ReadRows(const Open& open, const Hdf5Dataset& set,
                                 uint64_t first, uint64_t rows, void* out) {
  hsize_t start[H5S_MAX_RANK] = {first};
  hsize_t count[H5S_MAX_RANK] = {rows};
  for (int i = 1; i < set.dims_size(); ++i) count[i] = set.dims(i);
  const Hdf5Handle memory(H5Screate_simple(set.dims_size(), count, nullptr),
                          H5Sclose);
  if (!memory.ok() ||
      H5Sselect_hyperslab(open.space.get(), H5S_SELECT_SET, start, nullptr,
                          count, nullptr) < 0 ||
      H5Dread(open.set.get(), open.memory_type.get(), memory.get(),
              open.space.get(), H5P_DEFAULT, out) < 0) {
    return absl::DataLossError(
        absl::StrCat("rows ", first, " to ", first + rows - 1, " of dataset '",
                     set.name(), "' cannot be read: ", LastHdf5Error()));
  }
  return absl::OkStatus();
}

absl::Status RowReader::ReadFixed(const Open& open, const Hdf5Dataset& set,
                                  const Hdf5Request& request,
                                  std::string* reply) {
  const uint64_t first = request.first;
  // To the end of a step, so that replies do not depend on where one begins.
  absl::Status read;
  // A damaged chunk is an error of its own rows alone.
  const uint64_t least = std::min(open.step, open.chunk_rows);
  for (const uint64_t step : {open.step, least}) {
    const uint64_t rows =
        std::min(request.max_rows,
                 std::min(set.dims(0), (first / step + 1) * step) - first);
    reply->clear();
    Append(rows, reply);
    const size_t at = reply->size();
    reply->resize(at + rows * open.row_bytes);
    read = ReadRows(open, set, first, rows, reply->data() + at);
    if (read.ok() || step == least) break;
  }
  return read;
}

absl::Status RowReader::ReadVariable(const Open& open, const Hdf5Dataset& set,
                                     const Hdf5Request& request,
                                     std::string* reply) {
  const uint64_t first = request.first;
  const uint64_t most =
      std::min({request.max_rows, kMaxVariableRows, set.dims(0) - first});
  const bool text = set.stored() == 0;
  std::string lengths;
  std::string bytes;
  uint64_t done = 0;
  uint64_t next = 1;  // rows to read: few until their size is known
  std::vector<hvl_t> values;
  std::vector<char*> texts;
  while (done < most && bytes.size() < kHdf5BlockBytes) {
    const uint64_t rows = std::min(next, most - done);
    values.assign(text ? 0 : rows, {});
    texts.assign(text ? rows : 0, nullptr);
    void* const out = text ? static_cast<void*>(texts.data())
                           : static_cast<void*>(values.data());
    const absl::Status read = ReadRows(open, set, first + done, rows, out);
    uint64_t total = bytes.size();
    for (uint64_t i = 0; i < rows && read.ok(); ++i) {
      const char* const data =
          text ? texts[i] : static_cast<const char*>(values[i].p);
      const uint64_t length = data == nullptr ? 0
                              : text          ? std::strlen(data)
                                     : values[i].len * set.element_bytes();
      total += length;
      if (total > kHdf5MaxReplyBytes) break;
      Append(length, &lengths);
      bytes.append(data == nullptr ? "" : data, length);
    }
    hsize_t count[1] = {rows};
    const Hdf5Handle memory(H5Screate_simple(1, count, nullptr), H5Sclose);
    H5Dvlen_reclaim(open.memory_type.get(), memory.get(), H5P_DEFAULT, out);
    if (!read.ok() && done > 0) break;  // the damaged row may be asked for next
    MR_RETURN_IF_ERROR(read);
    if (total > kHdf5MaxReplyBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("rows ", first + done, " to ", first + done + rows - 1,
                       " of dataset '", set.name(), "' have more than 4 GiB"));
    }
    done += rows;
    // Rows of the size so far that fill the rest of the reply.
    const uint64_t each = std::max<uint64_t>(bytes.size() / done, 1);
    next = bytes.size() >= kHdf5BlockBytes
               ? 1
               : std::clamp<uint64_t>((kHdf5BlockBytes - bytes.size()) / each,
                                      1, 2 * done);
  }
  Append(done, reply);
  *reply += lengths;
  *reply += bytes;
  return absl::OkStatus();
}

absl::Status RowReader::Read(const Hdf5Request& request, std::string* reply) {
  reply->clear();
  if (request.dataset >= static_cast<uint64_t>(layout_.datasets_size()) ||
      !layout_.datasets(static_cast<int>(request.dataset)).left_out().empty() ||
      request.max_rows == 0 ||
      request.first >=
          layout_.datasets(static_cast<int>(request.dataset)).dims(0)) {
    return absl::InternalError("there is no such row");
  }
  const Hdf5Dataset& set = layout_.datasets(static_cast<int>(request.dataset));
  MR_ASSIGN_OR_RETURN(const Open* const open, OpenSet(request.dataset));
  return set.variable() ? ReadVariable(*open, set, request, reply)
                        : ReadFixed(*open, set, request, reply);
}

}  // namespace millrace::storage
