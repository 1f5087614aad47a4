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
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/data_tool/command_line.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/dataset_files.h"
#include "server/data_tool/first_of.h"
#include "server/data_tool/image_check.h"
#include "server/data_tool/interrupt.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/report.h"
#include "server/operators/operators.h"
#include "server/storage/content_hash.h"
#include "server/storage/open.h"

namespace millrace {
namespace {

constexpr char kSummary[] =
    "Reads every sample of a dataset, checks it against the schema, decodes\n"
    "every image, and compares the content hash with the one that the packer\n"
    "has written. Foreign Parquet carries no hash to compare with.\n\n"
    "  millrace-data verify lmdb:/data/train";

// Where the child is, for the case that it does not come back.
struct Place {
  volatile int64_t sample;
  char shard[256];
};

// "shard part-00000-of-00002.lmdb, row 3 (sample 3): REASON"
std::string Describe(const DatasetInfo& info, int64_t sample, int field,
                     const absl::Status& status) {
  std::string where;
  for (const ShardInfo& shard : info.shards()) {
    if (sample < shard.first_sample() + shard.samples()) {
      where = absl::StrCat("shard ", shard.name(), ", row ",
                           sample - shard.first_sample());
      break;
    }
  }
  return absl::StrCat(where, " (sample ", sample, ", field ",
                      info.schema().fields(field).name(),
                      "): ", status.message());
}

absl::Status Verify(const std::string& uri,
                    const std::vector<std::string>& libraries, bool decode,
                    Place* place, std::ostream& out) {
  MR_ASSIGN_OR_RETURN(const auto operators,
                      UsageError(Operators::Load(libraries)));
  MR_ASSIGN_OR_RETURN(auto source,
                      OpenRecordSource(uri, {.operators = operators.get()}));
  MR_ASSIGN_OR_RETURN(const DatasetFiles files, FindDatasetFiles(uri));
  MR_ASSIGN_OR_RETURN(auto reader, source->NewReader());
  const DatasetInfo& info = source->info();
  std::vector<int> image_fields;
  for (int i = 0; i < info.schema().fields_size(); ++i) {
    if (info.schema().fields(i).kind() == FIELD_KIND_ENCODED_IMAGE) {
      image_fields.push_back(i);
    }
  }
  ImageCheck check(AvailableCpus(), operators.get());
  const auto images = static_cast<int64_t>(image_fields.size());
  ToolProgress progress("verifying", info.samples());
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
        for (int64_t i = 0; decode && i < images; ++i) {
          const auto& field = sample.fields[image_fields[i]];
          check.Add(
              index * images + i,
              [copy = std::string(reinterpret_cast<const char*>(field.data()),
                                  field.size())]() mutable
              -> absl::StatusOr<std::string> { return std::move(copy); });
        }
        return absl::OkStatus();
      }));
      progress.Update(index + 1, bytes);
    }
    hashes_known = hashes_known && !shard.content_sum().empty();
    if (!shard.content_sum().empty() &&
        HashToHex(sum.value()) != shard.content_sum()) {
      MR_RETURN_IF_ERROR(source->CheckFiles());  // changed since it was opened
      return absl::DataLossError(absl::StrCat(
          "the content of shard ", shard.name(),
          " is not what was packed: its hash is ", HashToHex(sum.value()),
          " instead of ", shard.content_sum(),
          "; copy the file again, or pack the dataset again"));
    }
  }
  if (const std::vector<ImageCheck::Bad> bad = check.Finish(); !bad.empty()) {
    std::vector<std::string> first;
    for (const ImageCheck::Bad& image : bad) {
      if (first.size() == kMostListed) break;
      first.push_back(Describe(info, image.number / images,
                               image_fields[image.number % images],
                               image.status));
    }
    const auto count = static_cast<int64_t>(bad.size());
    return absl::DataLossError(absl::StrCat(
        count, " of ", CountText(info.samples() * images, "image"),
        count == 1 ? " does" : " do",
        " not decode: ", FirstOf(first, "; ", count),
        hashes_known ? "; they are as they were packed: repair the originals "
                       "and pack again, or train with another policy than FAIL "
                       "(docs/operations.md)"
                     : "; repair them, or train with another policy than FAIL "
                       "(docs/operations.md)"));
  }
  std::string what;
  if (images > 0 && !decode) {
    what = ", images not decoded (--no_decode)";
  } else if (info.samples() * images == 1) {
    what = ", its image decodes";
  } else if (images > 0) {
    what = absl::StrCat(", all ", info.samples() * images, " images decode");
  }
  const bool one = info.samples() == 1;
  out << absl::StreamFormat(
      "%s: %s (%.1f MB) in %s %s whole%s%s, fingerprint %s\n", uri,
      CountText(info.samples(), "sample"), static_cast<double>(bytes) / 1e6,
      CountText(info.shards_size(), "shard"), one ? "is" : "are",
      !hashes_known ? " (there is no content hash to compare with)"
      : one         ? " and as it was packed"
                    : " and as they were packed",
      what, info.fingerprint());
  if (files.files.size() > 1) out << "they are " << files.Sentence() << "\n";
  Warn("verify", files.Warnings());
  return absl::OkStatus();
}

}  // namespace

// The source of an operator library may end the process over a damaged file: a
// child process reads.
int RunVerify(const Args& args, std::ostream& out) {
  CommandLine line("verify", kSummary, "URI");
  std::vector<std::string> libraries;
  line.Add("operators", "FILE.so",
           "library of a source that reads the dataset; may be repeated",
           &libraries);
  bool no_decode = false;
  line.Add("no_decode",
           "do not decode the images: faster, but an image that was damaged "
           "before it was packed is not noticed",
           &no_decode);
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
    const int code = Report("verify", Verify(line.operands()[0], libraries,
                                             !no_decode, place, out));
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
