#include "server/storage/packing_journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/read_file.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kFirstLine = "millrace packing 1";
constexpr absl::string_view kPlacing = "placing";
constexpr absl::string_view kFreshName = ".journal-new.tmp";

std::string LineOf(const PackingJournal::Shard& shard) {
  return absl::StrCat("shard ", shard.samples, " ", shard.bytes, " ",
                      HashToHex(shard.content), " ", HashToHex(shard.input),
                      "\n");
}

bool ParseHash(absl::string_view line, absl::string_view name, Hash128* hash) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  return words.size() == 2 && words[0] == name && HashFromHex(words[1], hash);
}

bool ParseShard(absl::string_view line, PackingJournal::Shard* shard) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  return words.size() == 5 && words[0] == "shard" &&
         absl::SimpleAtoi(words[1], &shard->samples) && shard->samples > 0 &&
         absl::SimpleAtoi(words[2], &shard->bytes) && shard->bytes > 0 &&
         HashFromHex(words[3], &shard->content) &&
         HashFromHex(words[4], &shard->input);
}

}  // namespace

bool PackingJournal::Read(const std::string& folder, Content* content) {
  const absl::StatusOr<std::string> text =
      ReadFile(JoinPath(folder, kName), kNoFileLimit);
  if (!text.ok()) return false;
  std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  lines.pop_back();  // without its end, or empty
  Content read;
  if (lines.size() < 3 || lines[0] != kFirstLine ||
      !ParseHash(lines[1], "flags", &read.flags) ||
      !ParseHash(lines[2], "input", &read.input)) {
    return false;
  }
  for (size_t i = 3; i < lines.size() && !read.placing; ++i) {
    Shard shard;
    if (lines[i] == kPlacing) {
      read.placing = true;
    } else if (ParseShard(lines[i], &shard)) {
      read.shards.push_back(shard);
    } else {
      break;
    }
  }
  *content = std::move(read);
  return true;
}

absl::StatusOr<std::unique_ptr<PackingJournal>> PackingJournal::Start(
    const std::string& folder, const Content& content) {
  std::string path = JoinPath(folder, kName);
  const std::string fresh = JoinPath(folder, kFreshName);
  std::string text =
      absl::StrCat(kFirstLine, "\nflags ", HashToHex(content.flags), "\ninput ",
                   HashToHex(content.input), "\n");
  for (const Shard& shard : content.shards)
    absl::StrAppend(&text, LineOf(shard));
  if (content.placing) absl::StrAppend(&text, kPlacing, "\n");
  const int fd = open(
      fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return FileError(errno, "write", fresh);
  std::unique_ptr<PackingJournal> journal(
      new PackingJournal(std::move(path), fd));
  MR_RETURN_IF_ERROR(journal->Append(text));
  // One that is there is whole until this one is.
  if (rename(fresh.c_str(), journal->path_.c_str()) != 0) {
    return FileError(errno, "write", journal->path_);
  }
  MR_RETURN_IF_ERROR(SyncToDisk(folder));
  return journal;
}

PackingJournal::~PackingJournal() { close(fd_); }

absl::Status PackingJournal::Append(absl::string_view lines) {
  const ssize_t written = write(fd_, lines.data(), lines.size());
  if (written != static_cast<ssize_t>(lines.size())) {
    return FileError(written < 0 ? errno : ENOSPC, "write", path_);
  }
  if (fdatasync(fd_) != 0) return FileError(errno, "write", path_);
  return absl::OkStatus();
}

absl::Status PackingJournal::Add(const Shard& shard) {
  return Append(LineOf(shard));
}

absl::Status PackingJournal::AddPlacing() {
  return Append(absl::StrCat(kPlacing, "\n"));
}

}  // namespace millrace::storage
