#include "trainer/monitoring/event_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/host_name.h"
#include "common/status_macros.h"
#include "trainer/monitoring/crc32c.h"

namespace millrace::monitoring {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedOutputStream;
using ::google::protobuf::io::StringOutputStream;

// Field numbers of tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto, which are public and fixed.
constexpr int kEventWallTime = 1;     // double, seconds since 1970
constexpr int kEventStep = 2;         // int64
constexpr int kEventFileVersion = 3;  // string
constexpr int kEventSummary = 5;      // Summary
constexpr int kEventSessionLog = 7;   // SessionLog
constexpr int kSummaryValue = 1;      // repeated Value
constexpr int kValueTag = 1;          // string
constexpr int kValueSimpleValue = 2;  // float
constexpr int kSessionLogStatus = 1;  // enum
constexpr int kSessionLogStart = 1;

template <typename Write>
std::string Message(Write&& write) {
  std::string bytes;
  {
    StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    write(&out);
  }
  return bytes;
}

std::string Event(absl::Time now, uint64_t step, int field,
                  const std::string& content) {
  return Message([&](CodedOutputStream* out) {
    WireFormatLite::WriteDouble(
        kEventWallTime, absl::ToDoubleSeconds(now - absl::UnixEpoch()), out);
    WireFormatLite::WriteInt64(kEventStep, static_cast<int64_t>(step), out);
    WireFormatLite::WriteBytes(field, content, out);
  });
}

std::string Value(const Scalar& scalar) {
  return Message([&](CodedOutputStream* out) {
    WireFormatLite::WriteString(kValueTag, scalar.tag, out);
    WireFormatLite::WriteFloat(kValueSimpleValue,
                               static_cast<float>(scalar.value), out);
  });
}

std::string LittleEndian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
  return out;
}

// "events.out.tfevents.SECONDS.HOST.PID.NUMBER": TensorBoard looks for
// "tfevents", and reads the files of a folder in the order of their names.
std::string EventFileName(absl::Time now) {
  static std::atomic<int> files{0};
  return absl::StrFormat("events.out.tfevents.%010d.%s.%d.%d",
                         absl::ToUnixSeconds(now), HostName(), getpid(),
                         files.fetch_add(1));
}

}  // namespace

std::string FrameRecord(absl::string_view event) {
  const std::string length = LittleEndian(event.size(), 8);
  return absl::StrCat(length, LittleEndian(MaskCrc32c(Crc32c(length)), 4),
                      event, LittleEndian(MaskCrc32c(Crc32c(event)), 4));
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(
    const std::string& folder, const Options& options) {
  MR_RETURN_IF_ERROR(MakeFolders(folder));
  const std::string path =
      absl::StrCat(folder, "/", EventFileName(options.now));
  UniqueFd opened(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!opened.ok()) return FileError(errno, "write", path);
  std::unique_ptr<EventFile> file(
      new EventFile(path, std::move(opened), options));
  file->pending_ =
      FrameRecord(Event(options.now, 0, kEventFileVersion, "brain.Event:2"));
  if (options.first_step > 0) {
    file->pending_ += FrameRecord(Event(
        options.now, options.first_step, kEventSessionLog,
        Message([](CodedOutputStream* out) {
          WireFormatLite::WriteEnum(kSessionLogStatus, kSessionLogStart, out);
        })));
  }
  file->bytes_ = file->pending_.size();
  static_cast<void>(file->Flush());
  return file;
}

EventFile::~EventFile() { static_cast<void>(Flush()); }

absl::Status EventFile::Add(uint64_t step, const std::vector<Scalar>& scalars,
                            absl::Time now) {
  const std::string record = FrameRecord(
      Event(now, step, kEventSummary, Message([&](CodedOutputStream* out) {
              for (const Scalar& scalar : scalars) {
                WireFormatLite::WriteBytes(kSummaryValue, Value(scalar), out);
              }
            })));
  ++points_;
  bytes_ += record.size();
  if (pending_.size() + record.size() <= options_.max_pending_bytes) {
    pending_ += record;
    pending_points_.Add(step);
  } else {
    ++left_out_;
    left_out_points_.Add(step);
  }
  if (now - flushed_ < options_.flush_every) return absl::OkStatus();
  // Also after a failure, so that not every step tries the disk.
  flushed_ = now;
  return Flush();
}

absl::Status EventFile::Flush() {
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t n =
        pwrite(file_.get(), pending_.data() + done, pending_.size() - done,
               static_cast<off_t>(written_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const absl::Status failed = FileError(errno, "write", path_);
      // A truncated record would hide those after it from every reader. If this
      // fails too, the next attempt overwrites it.
      static_cast<void>(!ftruncate(file_.get(), static_cast<off_t>(written_)));
      return failed;
    }
    done += static_cast<size_t>(n);
  }
  written_ += done;
  pending_.clear();
  pending_points_ = {};
  return absl::OkStatus();
}

std::string EventFile::MissingText() const {
  const uint64_t missing = pending_points_.points + left_out_points_.points;
  if (missing == 0) return "";
  uint64_t first = std::numeric_limits<uint64_t>::max();
  uint64_t last = 0;
  for (const Missing& some : {pending_points_, left_out_points_}) {
    if (some.points == 0) continue;
    first = std::min(first, some.first);
    last = std::max(last, some.last);
  }
  return absl::StrCat(
      path_, " has ", points_ - missing, " of ", CountText(points_, "point"),
      " (", GroupedText(written_), " of ", GroupedText(bytes_),
      " bytes): ", CountText(missing, "point is", "points are"), " missing, ",
      missing == 1 ? absl::StrCat("at step ", first)
                   : absl::StrCat("the first at step ", first,
                                  ", the last at step ", last));
}

}  // namespace millrace::monitoring
