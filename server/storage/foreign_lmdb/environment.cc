#include "server/storage/foreign_lmdb/environment.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"

namespace millrace::storage {
namespace {

// Max named databases in an error, and bytes of a name there.
constexpr size_t kMaxNames = 8;
constexpr size_t kNameBytes = 80;

// Bytes that an entry takes at least: header, place in the list, key.
constexpr uint64_t kMinEntryBytes = 11;

std::string NamesText(const std::vector<std::string>& names) {
  return absl::StrCat(absl::StrJoin(names, ", "),
                      names.size() == kMaxNames ? " and perhaps others" : "");
}

// The database `wanted` of `file`; empty: that of the header, whose entries are
// not databases.
absl::StatusOr<LmdbHeader> FindDatabase(const LmdbFile& file,
                                        const std::string& wanted) {
  LmdbHeader header = file.header();
  std::vector<std::string> names;
  LmdbCursor cursor(file.data(), header);
  LmdbCursor::Entry entry;
  while (true) {
    const LmdbCursor::Result result = cursor.Next(&entry);
    if (result == LmdbCursor::Result::kDamaged) {
      MR_RETURN_IF_ERROR(file.CheckUnchanged());
      return file.DamagedTree();
    }
    if (result == LmdbCursor::Result::kEnd) break;
    if (!entry.database.has_value()) {
      // Plain entries are the dataset; databases beside them are an error of
      // the scan.
      if (wanted.empty()) return header;
      continue;
    }
    if (wanted.empty() || entry.key != wanted) {
      if (names.size() < kMaxNames) {
        names.push_back(CleanText(entry.key, kNameBytes));
      }
      continue;
    }
    if (entry.database->flags != 0) {
      return absl::UnimplementedError(absl::StrCat(
          file.path(), ": database ", CleanText(wanted, kNameBytes),
          " has another order of keys or several values for a key (flags ",
          entry.database->flags,
          "; MDB_DUPSORT, MDB_INTEGERKEY or MDB_REVERSEKEY): write the "
          "records with plain keys"));
    }
    header.root = entry.database->root;
    header.entries = entry.database->entries;
    return header;
  }
  if (wanted.empty() && names.empty()) return header;
  return UsageError(absl::InvalidArgumentError(
      wanted.empty()
          ? absl::StrCat(file.path(),
                         " consists of named databases: ", NamesText(names),
                         ": name one with the option db=", names.front())
          : absl::StrCat(file.path(), " has no database ",
                         CleanText(wanted, kNameBytes), "; ",
                         names.empty()
                             ? "its records are in the unnamed one: remove the "
                               "option db"
                             : absl::StrCat("it has ", NamesText(names)))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Environment>> Environment::Open(
    const std::string& path, const std::string& database) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<const LmdbFile> file,
                      LmdbFile::Open(path));
  MR_ASSIGN_OR_RETURN(const LmdbHeader header, FindDatabase(*file, database));
  if (header.entries > file->bytes() / kMinEntryBytes) {
    return absl::DataLossError(
        absl::StrCat(path, " says that it has ", header.entries,
                     " records, and ", file->bytes(),
                     " bytes do not hold them: it is damaged; copy it again"));
  }
  return std::unique_ptr<const Environment>(
      new Environment(std::move(file), header));
}

absl::Status Environment::Damaged() const {
  MR_RETURN_IF_ERROR(file_->CheckUnchanged());
  return absl::DataLossError(
      absl::StrCat("a page of the index of ", path(),
                   " is damaged; copy the file again, or write it again"));
}

}  // namespace millrace::storage
