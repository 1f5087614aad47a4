#include "server/storage/hdf5/file_scan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/storage/hdf5/chunk_offsets.h"
#include "server/storage/hdf5/hdf5_handle.h"
#include "server/storage/hdf5/heap_value.h"
#include "server/storage/hdf5/number_type.h"
#include "server/storage/hdf5/reader_messages.h"

namespace millrace::storage {
namespace {

constexpr int kMaxDepth = 64;  // of groups
constexpr size_t kMaxGroups = 65536;

absl::Status Damaged(const std::string& name, const std::string& reason) {
  if (absl::StrContains(reason, "version number")) {
    return absl::UnimplementedError(absl::StrCat(
        "object '", name, "' has a newer form than libhdf5 ", H5_VERS_MAJOR,
        ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE, " reads (", reason,
        "); write the file again with libver=('earliest', 'v110')"));
  }
  return absl::DataLossError(
      absl::StrCat("object '", name, "' is damaged: ", reason,
                   "; copy the file again, or write it again"));
}

std::string FilterName(hid_t properties, unsigned i, H5Z_filter_t* id) {
  unsigned flags;
  size_t values = 0;
  char name[64] = "";
  *id = H5Pget_filter2(properties, i, &flags, &values, nullptr, sizeof(name),
                       name, nullptr);
  switch (*id) {
    case H5Z_FILTER_DEFLATE:
      return "gzip";
    case H5Z_FILTER_SHUFFLE:
      return "shuffle";
    case H5Z_FILTER_FLETCHER32:
      return "fletcher32";
    case H5Z_FILTER_SZIP:
      return "szip";
    case H5Z_FILTER_NBIT:
      return "nbit";
    case H5Z_FILTER_SCALEOFFSET:
      return "scaleoffset";
    default:
      return name[0] == '\0' ? absl::StrCat("filter ", *id)
                             : absl::StrCat("filter ", *id, ", ", name);
  }
}

struct FileFacts {
  uint64_t user_block = 0;
  bool wide = false;  // addresses and lengths have 8 bytes
};

// Describes one dataset step by step; stops with `left_out`.
class DatasetScan {
 public:
  DatasetScan(hid_t set, const FileFacts& file, Hdf5Dataset* out)
      : set_(set), file_(file), out_(out) {}

  absl::Status Scan() {
    if (!ScanSpace() || !ScanType() || !ScanFilters() || !CheckSize()) {
      std::string reason = std::move(*out_->mutable_left_out());
      std::string name = std::move(*out_->mutable_name());
      out_->Clear();
      out_->set_name(std::move(name));
      out_->set_left_out(std::move(reason));
      return absl::OkStatus();
    }
    return FindRows();
  }

 private:
  template <typename... Parts>
  bool LeaveOut(const Parts&... parts) {
    out_->set_left_out(absl::StrCat(parts...));
    return false;
  }

  bool ScanSpace() {
    const Hdf5Handle space(H5Dget_space(set_), H5Sclose);
    switch (space.ok() ? H5Sget_simple_extent_type(space.get())
                       : H5S_NO_CLASS) {
      case H5S_SCALAR:
        return LeaveOut("is a single value and has no rows");
      case H5S_NULL:
        return LeaveOut("is empty");
      case H5S_SIMPLE:
        break;
      default:
        return LeaveOut("has no shape: ", LastHdf5Error());
    }
    hsize_t dims[H5S_MAX_RANK];
    const int rank = H5Sget_simple_extent_dims(space.get(), dims, nullptr);
    if (rank < 1) return LeaveOut("has no shape: ", LastHdf5Error());
    for (int i = 0; i < rank; ++i) {
      if (i > 0 && dims[i] == 0) return LeaveOut("has rows without a value");
      if (dims[i] > uint64_t{INT64_MAX}) return LeaveOut("has no real shape");
      out_->add_dims(dims[i]);
    }
    return true;
  }

  bool ScanNumbers(hid_t type) {
    std::optional<NumberType> number = NumberTypeOf(type);
    if (!number.has_value()) return false;
    out_->set_stored(static_cast<int32_t>(number->stored));
    out_->set_element_bytes(StoredBytes(number->stored));
    for (std::string& name : number->value_names) {
      out_->add_value_names(std::move(name));
    }
    if (number->swapped && StoredBytes(number->stored) > 1) {
      out_->set_packed("has big-endian numbers");
    }
    return true;
  }

  bool ScanType() {
    const Hdf5Handle type(H5Dget_type(set_), H5Tclose);
    if (!type.ok()) return LeaveOut("has no type: ", LastHdf5Error());
    const bool one_value = out_->dims_size() == 1;
    switch (H5Tget_class(type.get())) {
      case H5T_INTEGER:
      case H5T_FLOAT:
      case H5T_ENUM:
        return ScanNumbers(type.get()) ||
               LeaveOut("has numbers of ", 8 * H5Tget_size(type.get()),
                        " bits in a form that no field can have");
      case H5T_STRING:
        if (!one_value) return LeaveOut("has several texts in a row");
        if (H5Tis_variable_str(type.get()) > 0) {
          SetVariable();
          return true;
        }
        out_->set_element_bytes(H5Tget_size(type.get()));
        out_->set_padding(H5Tget_strpad(type.get()) == H5T_STR_SPACEPAD
                              ? Hdf5Dataset::PADDING_SPACE
                              : Hdf5Dataset::PADDING_NUL);
        return true;
      case H5T_OPAQUE:
        if (!one_value) return LeaveOut("has several opaque values in a row");
        out_->set_element_bytes(H5Tget_size(type.get()));
        return true;
      case H5T_VLEN: {
        if (!one_value) {
          return LeaveOut("has several values of variable length in a row");
        }
        const Hdf5Handle base(H5Tget_super(type.get()), H5Tclose);
        if (!base.ok() || !ScanNumbers(base.get())) {
          return LeaveOut(
              "has values of variable length that are not plain numbers");
        }
        SetVariable();
        return true;
      }
      case H5T_COMPOUND:
        return LeaveOut("has a compound type of ", H5Tget_nmembers(type.get()),
                        " members; write each member as a dataset");
      case H5T_ARRAY:
        return LeaveOut(
            "has an array type; write the arrays as further dimensions");
      case H5T_REFERENCE:
        return LeaveOut("has references to other objects");
      default:
        return LeaveOut("has a type that no field can have");
    }
  }

  void SetVariable() {
    out_->set_variable(true);
    out_->set_user_block(file_.user_block);
    if (!file_.wide && out_->packed().empty()) {
      out_->set_packed(
          "has values of variable length in a file with short addresses");
    }
  }

  bool ScanFilters() {
    properties_ = Hdf5Handle(H5Dget_create_plist(set_), H5Pclose);
    if (!properties_.ok()) return LeaveOut("is damaged: ", LastHdf5Error());
    layout_ = H5Pget_layout(properties_.get());
    if (layout_ == H5D_VIRTUAL) {
      return LeaveOut(
          "is a virtual dataset, whose values lie in other datasets; copy them "
          "into a plain dataset");
    }
    if (H5Pget_external_count(properties_.get()) > 0) {
      return LeaveOut(
          "has its values in other files (external storage); copy them into a "
          "plain dataset");
    }
    const int filters = H5Pget_nfilters(properties_.get());
    std::vector<std::string> names;
    for (int i = 0; i < filters; ++i) {
      H5Z_filter_t id;
      names.push_back(
          FilterName(properties_.get(), static_cast<unsigned>(i), &id));
      if (id < 0 || H5Zfilter_avail(id) <= 0) {
        return LeaveOut("is compressed with a filter (", names.back(),
                        ") that libhdf5 does not have; write it again with "
                        "gzip or without compression");
      }
    }
    if (!names.empty()) {
      out_->set_packed(
          absl::StrCat("is compressed (", absl::StrJoin(names, ", "), ")"));
    }
    return true;
  }

  bool CheckSize() {
    uint64_t bytes =
        out_->variable() ? kHeapReferenceBytes : out_->element_bytes();
    if (bytes == 0) return LeaveOut("has values of no bytes");
    for (int i = 1; i < out_->dims_size(); ++i) {
      if (out_->dims(i) > kHdf5MaxRowBytes / bytes) {
        return LeaveOut("has rows of more than 2 GiB");
      }
      bytes *= out_->dims(i);
    }
    if (bytes > kHdf5MaxRowBytes) {
      return LeaveOut("has rows of more than 2 GiB");
    }
    row_bytes_ = bytes;
    return true;
  }

  // Sets the place of the rows, or `packed`.
  absl::Status FindRows() {
    const uint64_t rows = out_->dims(0);
    if (!out_->packed().empty() || rows == 0) return absl::OkStatus();
    if (layout_ == H5D_CONTIGUOUS) {
      const haddr_t offset = H5Dget_offset(set_);
      if (offset == HADDR_UNDEF) {
        out_->set_packed("was never written");
        return absl::OkStatus();
      }
      out_->set_chunk_rows(rows);
      out_->add_chunk_offsets(offset);
      return absl::OkStatus();
    }
    if (layout_ != H5D_CHUNKED) {
      out_->set_packed("is stored in the header of the dataset");
      return absl::OkStatus();
    }
    hsize_t chunk[H5S_MAX_RANK];
    const int rank = H5Pget_chunk(properties_.get(), H5S_MAX_RANK, chunk);
    if (rank != out_->dims_size() || chunk[0] == 0) {
      return Damaged(out_->name(), "its chunks have another shape");
    }
    for (int i = 1; i < rank; ++i) {
      if (chunk[i] == out_->dims(i)) continue;
      out_->set_packed("has chunks that do not consist of whole rows");
      return absl::OkStatus();
    }
    const uint64_t chunks = (rows - 1) / chunk[0] + 1;
    if (chunks > kMaxChunks || chunk[0] > UINT64_MAX / row_bytes_) {
      out_->set_packed("has too many chunks");
      return absl::OkStatus();
    }
    auto offsets = ChunkOffsets(set_, {chunk[0], chunk[0] * row_bytes_}, chunks,
                                file_.user_block);
    if (!offsets.ok()) {
      return Damaged(out_->name(), std::string(offsets.status().message()));
    }
    if (std::find(offsets->begin(), offsets->end(), kNoChunk) !=
        offsets->end()) {
      out_->set_packed("has rows that were never written");
      return absl::OkStatus();
    }
    out_->set_chunk_rows(chunk[0]);
    out_->mutable_chunk_offsets()->Add(offsets->begin(), offsets->end());
    return absl::OkStatus();
  }

  const hid_t set_;
  const FileFacts& file_;
  Hdf5Dataset* const out_;
  Hdf5Handle properties_;
  H5D_layout_t layout_ = H5D_LAYOUT_ERROR;
  uint64_t row_bytes_ = 0;
};

// Visits groups and datasets in the order of their names.
class FileScan {
 public:
  FileScan(const FileFacts& file, Hdf5Layout* layout)
      : file_(file), layout_(layout) {}

  absl::Status ScanGroup(hid_t group, const std::string& prefix, int depth) {
    H5O_info_t info;
    if (H5Oget_info(group, &info) < 0) {
      return Damaged(absl::StrCat("/", prefix), LastHdf5Error());
    }
    // A group may be linked to from inside.
    if (!groups_.insert(info.addr).second) return absl::OkStatus();
    if (depth > kMaxDepth || groups_.size() > kMaxGroups) {
      return absl::InvalidArgumentError(
          "the file has too many groups; Millrace reads files whose datasets "
          "have a row for each sample");
    }
    std::vector<std::string> names;
    const herr_t listed = H5Literate(
        group, H5_INDEX_NAME, H5_ITER_INC, nullptr,
        [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
          auto* const list = static_cast<std::vector<std::string>*>(data);
          list->emplace_back(name);
          return list->size() > kMaxGroups ? 1 : 0;
        },
        &names);
    if (listed < 0) return Damaged(absl::StrCat("/", prefix), LastHdf5Error());
    if (listed > 0) return TooMany();
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      MR_RETURN_IF_ERROR(
          ScanLink(group, name, absl::StrCat(prefix, name), depth));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status TooMany() {
    return absl::InvalidArgumentError(absl::StrCat(
        "the file has more than ", kHdf5MaxDatasets,
        " datasets; Millrace reads files whose datasets have a row for each "
        "sample: write the samples as rows of one dataset for each field"));
  }

  absl::StatusOr<Hdf5Dataset*> Add(const std::string& path) {
    if (layout_->datasets_size() == kHdf5MaxDatasets) return TooMany();
    Hdf5Dataset* const set = layout_->add_datasets();
    set->set_name(path);
    return set;
  }

  absl::Status ScanLink(hid_t group, const std::string& name,
                        const std::string& path, int depth) {
    H5L_info_t link;
    if (H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT) < 0) {
      return Damaged(path, LastHdf5Error());
    }
    if (link.type != H5L_TYPE_HARD) {
      MR_ASSIGN_OR_RETURN(Hdf5Dataset* const set, Add(path));
      set->set_left_out(
          link.type == H5L_TYPE_SOFT
              ? "is a soft link; name the dataset that it leads to"
              : "is a link to another file");
      return absl::OkStatus();
    }
    const Hdf5Handle object(H5Oopen(group, name.c_str(), H5P_DEFAULT),
                            H5Oclose);
    if (!object.ok()) return Damaged(path, LastHdf5Error());
    switch (H5Iget_type(object.get())) {
      case H5I_GROUP:
        return ScanGroup(object.get(), absl::StrCat(path, "/"), depth + 1);
      case H5I_DATASET: {
        MR_ASSIGN_OR_RETURN(Hdf5Dataset* const set, Add(path));
        return DatasetScan(object.get(), file_, set).Scan();
      }
      default:  // a named type holds no data
        return absl::OkStatus();
    }
  }

  const FileFacts& file_;
  Hdf5Layout* const layout_;
  std::set<haddr_t> groups_;
};

}  // namespace

absl::StatusOr<Hdf5Layout> ScanFile(hid_t file) {
  Hdf5Layout layout;
  const Hdf5Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
  if (!root.ok()) return Damaged("/", LastHdf5Error());
  const Hdf5Handle properties(H5Fget_create_plist(file), H5Pclose);
  hsize_t user_block = 0;
  size_t address_bytes = 0;
  size_t length_bytes = 0;
  if (!properties.ok() || H5Pget_userblock(properties.get(), &user_block) < 0 ||
      H5Pget_sizes(properties.get(), &address_bytes, &length_bytes) < 0) {
    return Damaged("/", LastHdf5Error());
  }
  const FileFacts facts = {.user_block = user_block,
                           .wide = address_bytes == 8 && length_bytes == 8};
  MR_RETURN_IF_ERROR(FileScan(facts, &layout).ScanGroup(root.get(), "", 0));
  std::sort(layout.mutable_datasets()->pointer_begin(),
            layout.mutable_datasets()->pointer_end(),
            [](const Hdf5Dataset* a, const Hdf5Dataset* b) {
              return a->name() < b->name();
            });
  return layout;
}

}  // namespace millrace::storage
