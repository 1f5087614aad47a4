#include "client/audit/audit_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/audit/spec_difference.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "xxhash.h"

namespace millrace {
namespace {

constexpr uint64_t kUnit = 32;          // everything lies at a multiple of it
constexpr uint32_t kHead = 0xFFFFFFFF;  // no record has so many samples
constexpr uint32_t kVersion = 1;
constexpr char kMagic[] = "MRAUDIT1";
// A pipeline spec and little else.
constexpr uint64_t kMostHeadBytes = 1 << 20;
constexpr uint64_t kReadUnits = 1 << 15;

struct Head {
  uint32_t mark;
  uint32_t version;
  char magic[8];
  uint64_t bytes;  // of the AuditRun that follows, then zeros up to a unit
  uint64_t hash;   // of it: XXH3-64 seeded with `bytes`
};
static_assert(sizeof(Head) == kUnit);

struct Line {
  uint32_t samples;
  // Low half of XXH3-64 of the line with `check` 0, seeded with the hash of the
  // head plus the line's number.
  uint32_t check;
  uint64_t ids;
  uint64_t sample_sum;
  uint64_t payload_xxh3;
};
static_assert(sizeof(Line) == kUnit);

uint64_t Padded(uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

uint32_t CheckOf(Line line, uint64_t seed) {
  line.check = 0;
  return static_cast<uint32_t>(XXH3_64bits_withSeed(&line, sizeof(line), seed));
}

Position After(Position position, uint64_t steps) {
  ++position.step;
  if (steps != 0 && position.step >= steps) return {position.epoch + 1, 0};
  return position;
}

// "plan 3f2a... over content 9c1d..., 6 steps of 32 samples an epoch".
std::string PlanText(const AuditRun& run) {
  return absl::StrCat(
      "plan ", absl::BytesToHexString(run.plan_hash()), " over content ",
      run.fingerprint(), ", ", CountText(run.steps_per_epoch(), "step"), " of ",
      CountText(run.resolved_spec().batch_size(), "sample"), " an epoch");
}

// Whether the file begins with a part of a log's head and then zeros: all that
// is left of a start whose first write was cut short.
bool BeginsAsLog(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Head head = {kHead, kVersion, {}, 0, 0};
  std::memcpy(head.magic, kMagic, sizeof(head.magic));
  const auto* const expected = reinterpret_cast<const char*>(&head);
  char begin[offsetof(Head, bytes)] = {};
  file.read(begin, sizeof(begin));
  const auto rest =
      std::mismatch(std::begin(begin), std::end(begin), expected).first;
  return std::all_of(rest, std::end(begin), [](char c) { return c == 0; });
}

// InvalidArgument: steps of `run` do not belong behind those of the file.
absl::Status CheckSameJob(const std::string& path, const AuditRun& run) {
  const absl::StatusOr<AuditFile> file = ReadAuditFile(path);
  if (!file.ok()) {
    if (!absl::IsDataLoss(file.status())) return file.status();
    if (BeginsAsLog(path)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        file.status().message(),
        "; name another file or folder for the audit log of this run"));
  }
  for (const AuditSegment& segment : file->segments) {
    if (segment.records == 0 || IsSamePlan(segment.run, run)) continue;
    const std::vector<FieldDifference> fields =
        DifferencesOf(segment.run.resolved_spec(), run.resolved_spec());
    return absl::InvalidArgumentError(absl::StrCat(
        "the audit log ", path, " has steps of another job (",
        PlanText(segment.run), "), this run has ", PlanText(run),
        fields.empty()
            ? ""
            : absl::StrCat("; they differ in ",
                           DifferenceText(fields, "in the log", "in this run")),
        ": give every job a folder of its own"));
  }
  return absl::OkStatus();
}

// Opening a FIFO would wait for a program at its other end. InvalidArgument for
// whatever exists and is no file; OK where nothing is there.
absl::Status CheckIsFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the audit log ", path, " is ",
      S_ISDIR(info.st_mode) ? "a folder" : "a FIFO, a socket or a device",
      ": name a file, or remove it"));
}

}  // namespace

bool IsSamePlan(const AuditRun& a, const AuditRun& b) {
  return a.plan_hash() == b.plan_hash() && a.fingerprint() == b.fingerprint() &&
         a.steps_per_epoch() == b.steps_per_epoch();
}

absl::StatusOr<std::unique_ptr<AuditWriter>> AuditWriter::Open(std::string path,
                                                               AuditRun run) {
  MR_RETURN_IF_ERROR(CheckIsFile(path));
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return FileError(errno, "open the audit log", path);
  std::unique_ptr<AuditWriter> writer(
      new AuditWriter(std::move(path), fd, std::move(run)));
  // File systems without locks say so with other errors.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process writes to the audit log ", writer->path_,
                     "; give every rank of every job a file of its own"));
  }
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return FileError(errno, "look at the audit log", writer->path_);
  }
  if (info.st_size > 0) {
    MR_RETURN_IF_ERROR(CheckSameJob(writer->path_, writer->run_));
  }
  // A write that was cut short: what follows begins at a whole unit.
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (const uint64_t rest = Padded(size) - size; rest > 0) {
    MR_RETURN_IF_ERROR(writer->Write(std::string(rest, '\0')));
  }
  return writer;
}

AuditWriter::~AuditWriter() { close(fd_); }

absl::Status AuditWriter::Write(const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return FileError(n < 0 ? errno : EIO, "write to the audit log", path_);
    }
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status AuditWriter::BeginSegment(Position position) {
  run_.set_epoch(position.epoch);
  run_.set_step(position.step);
  std::string message = run_.SerializeAsString();
  Head head = {kHead, kVersion, {}, message.size(), 0};
  std::memcpy(head.magic, kMagic, sizeof(head.magic));
  head.hash = XXH3_64bits_withSeed(message.data(), message.size(), head.bytes);
  seed_ = head.hash;
  message.resize(Padded(message.size()), '\0');
  begun_ = true;
  return Write(std::string(reinterpret_cast<const char*>(&head), sizeof(head)) +
               message);
}

absl::Status AuditWriter::Append(Position position, const AuditRecord& record) {
  if (!error_.ok()) return error_;
  if (!begun_ || position != next_) error_ = BeginSegment(position);
  if (!error_.ok()) return error_;
  Line line = {record.samples, 0, record.ids, record.sample_sum,
               record.payload_xxh3};
  line.check = CheckOf(line, seed_);
  ++seed_;
  error_ =
      Write(std::string(reinterpret_cast<const char*>(&line), sizeof(line)));
  next_ = After(position, run_.steps_per_epoch());
  return error_;
}

absl::StatusOr<AuditFile> ReadAuditFile(const std::string& path) {
  MR_RETURN_IF_ERROR(CheckIsFile(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return FileError(errno == 0 ? EIO : errno, "read the audit log", path);
  }
  AuditFile result;
  std::vector<char> buffer(kReadUnits * kUnit);
  uint64_t at = 0;       // offset in the file of the unit at hand
  uint64_t to_skip = 0;  // units that belong to a head that was read
  AuditSegment* segment = nullptr;
  while (true) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const uint64_t bytes = static_cast<uint64_t>(file.gcount());
    if (bytes == 0) break;
    for (uint64_t i = 0; i < bytes; i += kUnit, at += kUnit) {
      if (to_skip > 0) {
        --to_skip;
        continue;
      }
      if (i + kUnit > bytes) {
        result.skipped_bytes += bytes - i;
        continue;
      }
      Line line;
      std::memcpy(&line, buffer.data() + i, sizeof(line));
      if (line.samples != kHead) {
        if (segment != nullptr &&
            line.check == CheckOf(line, segment->seed + segment->records)) {
          ++segment->records;
        } else {
          // Nothing that follows has a known place until the next head.
          segment = nullptr;
          result.skipped_bytes += kUnit;
        }
        continue;
      }
      Head head;
      std::memcpy(&head, buffer.data() + i, sizeof(head));
      std::string message;
      bool whole = std::memcmp(head.magic, kMagic, sizeof(head.magic)) == 0;
      if (whole && head.version != kVersion) {
        return absl::DataLossError(absl::StrCat(
            "the audit log ", path, " has format version ", head.version,
            ", this program knows ", kVersion, "; use a newer one"));
      }
      whole = whole && head.bytes <= kMostHeadBytes;
      if (whole) {
        message.resize(head.bytes);
        std::ifstream again(path, std::ios::binary);
        again.seekg(static_cast<std::streamoff>(at + kUnit));
        again.read(message.data(), static_cast<std::streamsize>(head.bytes));
        whole = static_cast<uint64_t>(again.gcount()) == head.bytes &&
                head.hash == XXH3_64bits_withSeed(message.data(),
                                                  message.size(), head.bytes);
      }
      AuditRun run;
      if (!whole || !run.ParseFromString(message)) {
        segment = nullptr;
        result.skipped_bytes += kUnit;
        continue;
      }
      to_skip = Padded(head.bytes) / kUnit;
      segment = &result.segments.emplace_back();
      segment->run = std::move(run);
      segment->file = path;
      segment->offset = at + kUnit + Padded(head.bytes);
      segment->seed = head.hash;
    }
  }
  if (result.segments.empty() && at > 0) {
    return absl::DataLossError(
        absl::StrCat(path, " is no audit log: it has no head of a run"));
  }
  return result;
}

absl::Status ReadAuditRecords(
    const AuditSegment& segment, uint64_t first, uint64_t count,
    const std::function<void(const AuditRecord&)>& each) {
  std::ifstream file(segment.file, std::ios::binary);
  if (!file) {
    return FileError(errno == 0 ? EIO : errno, "read the audit log",
                     segment.file);
  }
  file.seekg(static_cast<std::streamoff>(segment.offset + first * kUnit));
  std::vector<char> buffer(std::min(kReadUnits, count) * kUnit);
  while (count > 0) {
    const uint64_t part = std::min(kReadUnits, count);
    file.read(buffer.data(), static_cast<std::streamsize>(part * kUnit));
    if (static_cast<uint64_t>(file.gcount()) != part * kUnit) {
      return absl::DataLossError(absl::StrCat(
          "the audit log ", segment.file, " became shorter while it was read"));
    }
    for (uint64_t i = 0; i < part; ++i) {
      Line line;
      std::memcpy(&line, buffer.data() + i * kUnit, sizeof(line));
      each({line.samples, line.ids, line.sample_sum, line.payload_xxh3});
    }
    count -= part;
  }
  return absl::OkStatus();
}

}  // namespace millrace
