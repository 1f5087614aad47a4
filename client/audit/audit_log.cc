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
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/audit/spec_difference.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "xxhash.h"

namespace millrace::audit {
namespace {

constexpr uint64_t kUnit = 32;          // heads and records start at multiples
constexpr uint32_t kHead = 0xFFFFFFFF;  // more samples than a record has
constexpr uint32_t kVersion = 1;
constexpr char kMagic[] = "MRAUDIT1";
// The message is a pipeline spec and a few small fields.
constexpr uint64_t kMaxHeadBytes = 1 << 20;
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

bool HasMagic(const char* unit) {
  return std::memcmp(unit + offsetof(Head, magic), kMagic,
                     sizeof(Head::magic)) == 0;
}

// The unit has the mark or the magic of a head.
bool HasPartOfHead(const char* unit, uint64_t bytes) {
  return (bytes >= sizeof(kHead) &&
          std::memcmp(unit, &kHead, sizeof(kHead)) == 0) ||
         (bytes >= offsetof(Head, bytes) && HasMagic(unit));
}

// The first bytes of the unit are those of a head. Where they end before the
// field `bytes`, only zeros follow.
bool BeginsAsHead(const char* unit, uint64_t bytes) {
  Head head = {kHead, kVersion, {}, 0, 0};
  std::memcpy(head.magic, kMagic, sizeof(head.magic));
  const auto* const expected = reinterpret_cast<const char*>(&head);
  const char* const end = unit + bytes;
  const char* const fixed_end =
      unit + std::min<uint64_t>(bytes, offsetof(Head, bytes));
  const char* const rest = std::mismatch(unit, fixed_end, expected).first;
  if (rest == unit) return false;
  return rest == fixed_end ||
         std::all_of(rest, end, [](char c) { return c == 0; });
}

// Consecutive units that are neither a head nor a record at its place.
//
// A write that was cut short leaves such units, and the next writer pads the
// last one with zeros: a part of a record, a part of a head, or only zeros
// after a power failure. Nothing of the same start follows, because a writer
// stops at its first error.
class Gap {
 public:
  bool empty() const { return units_ == 0; }
  uint64_t offset() const { return offset_; }

  void Add(uint64_t at, const char* unit, uint64_t bytes) {
    if (empty()) {
      offset_ = at;
      std::memcpy(first_, unit, bytes);
      first_bytes_ = bytes;
    }
    ++units_;
    if (std::any_of(unit, unit + bytes, [](char c) { return c != 0; })) {
      used_ = units_;
    }
  }
  // A record or another head of the same start follows the gap.
  void SetContinued() { continued_ = true; }

  // Only zeros, or a part of a head and then zeros.
  bool IsCutShortHead() const {
    if (continued_) return false;
    if (used_ == 0) return true;
    if (!BeginsAsHead(first_, first_bytes_)) return false;
    if (used_ == 1) return true;
    Head head;
    std::memcpy(&head, first_, sizeof(head));
    return HasMagic(first_) && head.bytes <= kMaxHeadBytes &&
           used_ <= 1 + Padded(head.bytes) / kUnit;
  }

  // A part of a record and then zeros. A damaged record whose last byte is 0
  // looks the same.
  bool IsCutShortRecord() const {
    return !continued_ && used_ == 1 &&
           (first_bytes_ < kUnit || first_[kUnit - 1] == 0);
  }

 private:
  uint64_t offset_ = 0;
  uint64_t units_ = 0;
  uint64_t used_ = 0;  // units up to the last one with a byte other than 0
  char first_[kUnit] = {};
  uint64_t first_bytes_ = 0;
  bool continued_ = false;
};

struct LogScan {
  AuditFile file;
  uint64_t bytes = 0;
  // There is no head, because a start ended during its first write.
  bool begins_cut_short = false;
};

absl::StatusOr<LogScan> ScanLog(const std::string& path);

// InvalidArgument: the file has steps of another job than `run`. Warns when the
// file may have lost steps.
absl::Status CheckSameJob(const std::string& path, const AuditRun& run) {
  const absl::StatusOr<LogScan> scan = ScanLog(path);
  if (!scan.ok()) {
    if (!absl::IsDataLoss(scan.status()) &&
        !absl::IsInvalidArgument(scan.status())) {
      return scan.status();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        scan.status().message(),
        "; name another file or folder for the audit log of this run"));
  }
  if (scan->file.segments.empty()) {
    MR_LOG(WARNING) << "the audit log " << path << " has "
                    << (scan->bytes == 0 ? "no bytes"
                                         : "no whole head of a run")
                    << ": an earlier start ended before its first step, or the "
                       "file lost its content; this run starts the log again";
  } else if (scan->file.damaged_at.has_value()) {
    MR_LOG(WARNING) << DamageText(path, *scan->file.damaged_at)
                    << "; this run appends to the log, and `millrace audit "
                       "--files` reports the damage";
  }
  for (const AuditSegment& segment : scan->file.segments) {
    if (segment.records == 0 || IsSamePlan(segment.run, run)) continue;
    const std::vector<FieldDifference> fields =
        DifferencesOf(segment.run.resolved_spec(), run.resolved_spec());
    return absl::InvalidArgumentError(absl::StrCat(
        "the audit log ", path, " has steps of another job (",
        PlanText(segment.run), "); this run has ", PlanText(run),
        fields.empty()
            ? ""
            : absl::StrCat("; they differ in ",
                           DifferenceText(fields, "in the log", "in this run")),
        ": give every job a folder of its own"));
  }
  return absl::OkStatus();
}

// InvalidArgument: the path exists and is not a file. Opening a FIFO would wait
// for a program at its other end.
absl::Status CheckIsFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the audit log ", path, " is ",
      S_ISDIR(info.st_mode) ? "a folder" : "a FIFO, a socket or a device",
      ": give the path of a file, or remove it"));
}

// Of a log without a whole head.
absl::Status CutOffError(const std::string& path, uint64_t bytes) {
  return absl::DataLossError(absl::StrCat(
      "the audit log ", path, " is cut off or damaged: it has ",
      CountText(bytes, "byte"),
      " and no whole head of a run; copy the file again, or leave it out if "
      "its start ended before the first step"));
}
absl::Status DamagedHeadError(const std::string& path) {
  return absl::DataLossError(
      absl::StrCat("the audit log ", path,
                   " is damaged: it begins like an audit log, but contains no "
                   "complete run header; copy the file again"));
}

// Reads the file once and keeps the offsets of the segments.
class LogScanner {
 public:
  explicit LogScanner(const std::string& path) : path_(path) {}

  absl::StatusOr<LogScan> Run() {
    std::ifstream file(path_, std::ios::binary);
    if (!file) {
      return FileError(errno == 0 ? EIO : errno, "read the audit log", path_);
    }
    std::vector<char> buffer(kReadUnits * kUnit);
    while (true) {
      file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
      const uint64_t bytes = static_cast<uint64_t>(file.gcount());
      if (bytes == 0) break;
      for (uint64_t i = 0; i < bytes; i += kUnit) {
        const uint64_t of_unit = std::min(kUnit, bytes - i);
        MR_RETURN_IF_ERROR(Take(buffer.data() + i, of_unit));
        at_ += of_unit;
      }
    }
    scan_.bytes = at_;
    EndGap();
    if (segments().empty() && at_ > 0) {
      if (!only_cut_short_heads_) {
        if (begins_as_log_) return DamagedHeadError(path_);
        return absl::InvalidArgumentError(absl::StrCat(
            path_, " is not an audit log: it has no head of a run"));
      }
      scan_.begins_cut_short = true;
    }
    return std::move(scan_);
  }

 private:
  std::vector<AuditSegment>& segments() { return scan_.file.segments; }

  absl::Status Take(const char* unit, uint64_t bytes) {
    if (at_ == 0) begins_as_log_ = HasPartOfHead(unit, bytes);
    if (to_skip_ > 0) {
      --to_skip_;
      return absl::OkStatus();
    }
    Line line;
    if (bytes == kUnit) {
      std::memcpy(&line, unit, sizeof(line));
      if (line.samples == kHead) {
        MR_ASSIGN_OR_RETURN(const bool whole, TakeHead(unit));
        if (whole) return absl::OkStatus();
      } else if (IsRecord(line)) {
        if (gap_.empty()) {
          ++segments().back().records;
          return absl::OkStatus();
        }
        gap_.SetContinued();
      }
    }
    // Several starts in a row may be cut short.
    if (BeginsAsHead(unit, bytes)) EndGap();
    // A record after a gap does not count: its segment has ended.
    gap_.Add(at_, unit, bytes);
    scan_.file.skipped_bytes += bytes;
    return absl::OkStatus();
  }

  // The line is a record at its place in the newest segment.
  bool IsRecord(const Line& line) {
    if (segments().empty()) return false;
    const AuditSegment& segment = segments().back();
    return line.check ==
           CheckOf(line, segment.seed + (at_ - segment.offset) / kUnit);
  }

  // Whether the message after the head is that of its hash.
  bool ReadRun(const Head& head, AuditRun* run) const {
    if (head.bytes > kMaxHeadBytes) return false;
    std::string message(head.bytes, '\0');
    std::ifstream again(path_, std::ios::binary);
    again.seekg(static_cast<std::streamoff>(at_ + kUnit));
    again.read(message.data(), static_cast<std::streamsize>(head.bytes));
    return static_cast<uint64_t>(again.gcount()) == head.bytes &&
           head.hash == XXH3_64bits_withSeed(message.data(), message.size(),
                                             head.bytes) &&
           run->ParseFromString(message);
  }

  // Begins a segment. False: the head is not whole.
  absl::StatusOr<bool> TakeHead(const char* unit) {
    Head head;
    std::memcpy(&head, unit, sizeof(head));
    if (!HasMagic(unit)) return false;
    AuditRun run;
    const bool whole = ReadRun(head, &run);
    if (head.version != kVersion && !whole) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the audit log ", path_, " has format version ", head.version,
          ", this program reads ", kVersion, "; use a newer program"));
    }
    // The hash of another version differs, so this number is damaged.
    if (head.version != kVersion || !whole) return false;
    // After a write that was cut short, nothing of the same start follows.
    if (!gap_.empty() && !segments().empty() &&
        segments().back().run.attempt() == run.attempt()) {
      gap_.SetContinued();
    }
    EndGap();
    to_skip_ = Padded(head.bytes) / kUnit;
    AuditSegment& segment = segments().emplace_back();
    segment.run = std::move(run);
    segment.file = path_;
    segment.offset = at_ + kUnit + Padded(head.bytes);
    segment.seed = head.hash;
    return true;
  }

  void EndGap() {
    const Gap gap = std::exchange(gap_, Gap());
    if (gap.empty() || gap.IsCutShortHead()) return;
    only_cut_short_heads_ = false;
    if (gap.IsCutShortRecord()) return;
    if (!scan_.file.damaged_at.has_value()) {
      scan_.file.damaged_at = gap.offset();
    }
  }

  const std::string& path_;
  LogScan scan_;
  uint64_t at_ = 0;                   // offset of the current unit in the file
  uint64_t to_skip_ = 0;              // units of a head that was read
  Gap gap_;                           // before the current unit
  bool only_cut_short_heads_ = true;  // all gaps so far
  bool begins_as_log_ = false;        // its first unit has a part of a head
};

absl::StatusOr<LogScan> ScanLog(const std::string& path) {
  MR_RETURN_IF_ERROR(CheckIsFile(path));
  return LogScanner(path).Run();
}

}  // namespace

bool IsSamePlan(const AuditRun& a, const AuditRun& b) {
  return a.plan_hash() == b.plan_hash() && a.fingerprint() == b.fingerprint() &&
         a.steps_per_epoch() == b.steps_per_epoch();
}

absl::StatusOr<std::unique_ptr<AuditWriter>> AuditWriter::Open(std::string path,
                                                               AuditRun run) {
  MR_RETURN_IF_ERROR(CheckIsFile(path));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  int fd = open(path.c_str(), kFlags | O_EXCL, 0644);
  const bool created = fd >= 0;
  if (!created && errno == EEXIST) fd = open(path.c_str(), kFlags, 0644);
  if (fd < 0) return FileError(errno, "open the audit log", path);
  std::unique_ptr<AuditWriter> writer(
      new AuditWriter(std::move(path), fd, std::move(run)));
  // File systems without locks return other errors.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process writes to the audit log ", writer->path_,
                     "; give every rank of every job a file of its own"));
  }
  writer->created_ = created;
  if (!created) MR_RETURN_IF_ERROR(CheckSameJob(writer->path_, writer->run_));
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return FileError(errno, "read the size of the audit log", writer->path_);
  }
  // After a write that was cut short, the next head begins at a whole unit.
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (const uint64_t rest = Padded(size) - size; rest > 0) {
    MR_RETURN_IF_ERROR(writer->Write(std::string(rest, '\0')));
  }
  return writer;
}

AuditWriter::~AuditWriter() {
  // The lock is still held, so no other writer has begun with the file.
  if (created_ && !begun_) unlink(path_.c_str());
  close(fd_);
}

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
  MR_ASSIGN_OR_RETURN(LogScan scan, ScanLog(path));
  if (scan.begins_cut_short) return CutOffError(path, scan.bytes);
  return std::move(scan.file);
}

std::string DamageText(absl::string_view path, uint64_t offset) {
  return absl::StrCat(
      "the audit log ", path, " holds bytes at offset ", offset,
      " that are neither a valid record nor a write that was cut short: the "
      "file was damaged or edited, and the records from there to the next "
      "start "
      "of the job do not count");
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

}  // namespace millrace::audit
