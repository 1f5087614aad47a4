#include "server/data_tool/report.h"

#include <iostream>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clean_text.h"
#include "common/program/exit_code.h"
#include "proto/error_detail.h"

namespace millrace::data_tool {
namespace {

// Longer than any sentence of this program.
constexpr size_t kMaxReadableBytes = 1 << 16;

}  // namespace

std::string Readable(absl::string_view text) {
  return CleanText(text, kMaxReadableBytes);
}

std::string SizeText(int64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  double size = static_cast<double>(bytes) / 1e3;
  const char* unit = "kB";
  for (const char* const larger : {"MB", "GB", "TB"}) {
    if (size < 1e3) break;
    size /= 1e3;
    unit = larger;
  }
  return absl::StrFormat("%.1f %s", size, unit);
}

std::string NamingFlag(absl::string_view message, absl::string_view field,
                       absl::string_view flag) {
  if (!absl::StrContains(message, field)) return std::string(message);
  return absl::StrCat(message, " (", field, " is from ", flag, ")");
}

absl::Status NamingFlag(const absl::Status& status, absl::string_view field,
                        absl::string_view flag) {
  absl::Status named(status.code(), NamingFlag(status.message(), field, flag));
  status.ForEachPayload(
      [&named](absl::string_view url, const absl::Cord& data) {
        named.SetPayload(url, data);
      });
  return named;
}

int Report(absl::string_view command, const absl::Status& status) {
  if (status.ok()) return program::kExitOk;
  const ErrorDetail detail = GetErrorDetail(status);
  std::string where;
  if (!detail.shard().empty()) {
    where = absl::StrCat("shard ", detail.shard(), ", row ", detail.row(),
                         " (sample ", detail.sample(), "): ");
  }
  std::cerr << "millrace-data " << command << ": "
            << Readable(absl::StrCat(where, status.message())) << std::endl;
  return program::ExitCode(status);
}

void Warn(absl::string_view command,
          const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    std::cerr << "millrace-data " << command
              << ": warning: " << Readable(sentence) << std::endl;
  }
}

program::FlagSet::Flag& AddCacheDirFlag(program::FlagSet& flags,
                                        std::string* cache_dir) {
  return flags
      .Add("cache_dir", cache_dir, "DIR",
           "Folder of the indexes of datasets that are served without packing "
           "(imagefolder:, tar:, ...), as the --cache_dir of millrace-server, "
           "or off. Decompressed copies of compressed shards are kept there "
           "only if the flag is given")
      .Default("$XDG_CACHE_HOME/millrace, otherwise ~/.cache/millrace");
}

bool ParseOrLeave(program::FlagSet& flags, const std::vector<std::string>& args,
                  absl::string_view command, std::ostream& out,
                  int* exit_code) {
  *exit_code = Report(command, flags.Parse(args));
  if (*exit_code != program::kExitOk) return false;
  if (flags.help_wanted()) out << flags.Help();
  return !flags.help_wanted();
}

}  // namespace millrace::data_tool
