#include "server/storage/lmdb/lmdb_file.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {

LmdbFile::LmdbFile(std::unique_ptr<const MappedFile> file,
                   const LmdbHeader& header)
    : file_(std::move(file)),
      header_(header),
      tree_(file_->data(), header),
      pages_(file_->data()) {}

absl::StatusOr<std::unique_ptr<const LmdbFile>> LmdbFile::Open(
    const std::string& path) {
  MR_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  MR_ASSIGN_OR_RETURN(const LmdbHeader header, ReadLmdbHeader(*file));
  return std::unique_ptr<const LmdbFile>(new LmdbFile(std::move(file), header));
}

LmdbTree::Result LmdbFile::TryGet(absl::string_view key,
                                  LmdbTree::Position* position,
                                  absl::Span<const uint8_t>* value) const {
  const LmdbTree::Result result = tree_.Find(key, position, value);
  if (result == LmdbTree::Result::kFound) pages_.Advise(*value);
  return result;
}

LmdbTree::Result LmdbFile::TryAt(const LmdbPlace& place,
                                 absl::Span<const uint8_t>* value) const {
  const LmdbTree::Result result = tree_.At(place, value);
  if (result == LmdbTree::Result::kFound) pages_.Advise(*value);
  return result;
}

absl::StatusOr<absl::Span<const uint8_t>> LmdbFile::Get(
    absl::string_view key, LmdbTree::Position* position) const {
  absl::Span<const uint8_t> value;
  const LmdbTree::Result result = TryGet(key, position, &value);
  if (result == LmdbTree::Result::kFound) return value;
  // In a changed file, damage is reported as the change.
  MR_RETURN_IF_ERROR(CheckUnchanged());
  if (result == LmdbTree::Result::kDamaged) return DamagedTree();
  return absl::NotFoundError(absl::StrCat(path(), " has no such record"));
}

absl::Status LmdbFile::DamagedTree() const {
  return absl::DataLossError(
      absl::StrCat("a page of the index of ", path(),
                   " is damaged; copy the file again, or pack it again"));
}

}  // namespace millrace::storage
