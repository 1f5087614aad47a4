// millrace-data verify: reads everything and compares it with what was packed.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "server/data_tool/command_line.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/interrupt.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/report.h"
#include "server/operators/operators.h"
#include "server/storage/content_hash.h"
#include "server/storage/open.h"

namespace millrace {
namespace {

constexpr char kSummary[] =
    "Reads every sample of a dataset, checks it against the schema and\n"
    "compares the content hash with the one that the packer has written.\n"
    "Foreign Parquet carries no hash: there, only reading is checked.\n\n"
    "  millrace-data verify lmdb:/data/train";

// Where the child is, for the case that it does not come back.
struct Place {
  volatile int64_t sample;
  char shard[256];
};

absl::Status Verify(const std::string& uri,
                    const std::vector<std::string>& libraries, Place* place,
                    std::ostream& out) {
  MR_ASSIGN_OR_RETURN(const auto operators, Operators::Load(libraries));
  MR_ASSIGN_OR_RETURN(auto source,
                      OpenRecordSource(uri, {.operators = operators.get()}));
  MR_ASSIGN_OR_RETURN(auto reader, source->NewReader());
  const DatasetInfo& info = source->info();
  Progress progress("verifying", info.samples());
  int64_t bytes = 0;
  bool hashes_known = true;
  for (const ShardInfo& shard : info.shards()) {
    std::snprintf(place->shard, sizeof(place->shard), "%s",
                  shard.name().c_str());
    ContentSum sum;
    for (int64_t row = 0; row < shard.samples(); ++row) {
      if (Interrupted()) return absl::CancelledError("interrupted");
      const int64_t index = shard.first_sample() + row;
      place->sample = index;
      MR_RETURN_IF_ERROR(reader->Read(index, [&](const EncodedSample& sample) {
        sum.Add(index, sample.fields);
        for (const auto& field : sample.fields) bytes += field.size();
        return absl::OkStatus();
      }));
      progress.Update(index + 1, bytes);
    }
    hashes_known = hashes_known && !shard.content_sum().empty();
    if (!shard.content_sum().empty() &&
        HashToHex(sum.value()) != shard.content_sum()) {
      return absl::DataLossError(absl::StrCat(
          "the content of shard ", shard.name(),
          " is not what was packed: its hash is ", HashToHex(sum.value()),
          " instead of ", shard.content_sum(),
          "; copy the file again, or pack the dataset again"));
    }
  }
  out << absl::StreamFormat(
      "%s: %d samples (%.1f MB) in %d %s are whole%s, fingerprint %s\n", uri,
      info.samples(), static_cast<double>(bytes) / 1e6, info.shards_size(),
      info.shards_size() == 1 ? "shard" : "shards",
      hashes_known ? " and as they were packed"
                   : " (they carry no content hash to compare with)",
      info.fingerprint());
  return absl::OkStatus();
}

}  // namespace

// LMDB follows the page numbers in its file without doubting them, so a
// damaged file may end the process that walks it: a child process walks.
int RunVerify(const Args& args, std::ostream& out) {
  CommandLine line("verify", kSummary, "URI");
  std::vector<std::string> libraries;
  line.Add("operators", "FILE.so",
           "library of a source that reads the dataset; may be repeated",
           &libraries);
  int exit_code;
  if (!ParseOrLeave(line, args, "verify", out, &exit_code)) return exit_code;
  void* shared = mmap(nullptr, sizeof(Place), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    return Report("verify", absl::ResourceExhaustedError("no memory"));
  }
  Place* place = static_cast<Place*>(shared);
  place->sample = -1;
  out.flush();
  const pid_t child = fork();
  if (child < 0) {
    return Report("verify",
                  absl::InternalError(absl::StrCat("cannot start a process: ",
                                                   std::strerror(errno))));
  }
  if (child == 0) {
    const int code =
        Report("verify", Verify(line.operands()[0], libraries, place, out));
    out.flush();
    _exit(code);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  absl::Status result;
  if (WIFSIGNALED(status)) {
    const std::string where = place->sample < 0
                                  ? absl::StrCat("opening ", line.operands()[0])
                                  : absl::StrCat("reading shard ", place->shard,
                                                 " at sample ", place->sample);
    result = absl::DataLossError(absl::StrCat(
        "the reader died (", strsignal(WTERMSIG(status)), ") while ", where,
        ": the file is damaged; copy it again, or pack the dataset again"));
  }
  munmap(shared, sizeof(Place));
  if (!result.ok()) return Report("verify", result);
  return WEXITSTATUS(status);
}

}  // namespace millrace
