// EventFile writes numbers over steps as TensorBoard reads them: a file of
// checked records, each an Event of tensorboard/compat/proto/event.proto. What
// it is not: a reader, or a way to write pictures and histograms.
//
// One thread. Owns the open file. Add() keeps records in memory and writes them
// when the last write is `flush_every` old, so that a page that is open in a
// browser follows the run; the destructor writes the rest. A file never holds
// half a record in its middle: what a full disk has cut off is taken back
// before more is written.
//
//   MR_ASSIGN_OR_RETURN(auto file, EventFile::Create("logs/run1", {}));
//   MR_RETURN_IF_ERROR(file->Add(120, {{"Loss/train", 0.25}}));
//
// A record is: length (8 bytes, little-endian), masked CRC-32C of these 8 bytes
// (4), the event, masked CRC-32C of the event (4); that is TensorFlow's
// TFRecord format. The first event says file_version "brain.Event:2".

#ifndef MILLRACE_TRAINER_LOGS_EVENT_FILE_H_
#define MILLRACE_TRAINER_LOGS_EVENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace millrace {

struct Scalar {
  std::string tag;   // "Loss/train"; TensorBoard groups by what is before the /
  double value = 0;  // stored as float32
};

class EventFile {
 public:
  struct Options {
    absl::Duration flush_every = absl::Seconds(2);
    // Records that could not be written are kept up to this size, for a disk
    // that is full for a while; beyond it new ones are left out.
    uint64_t most_pending_bytes = 1 << 20;
    // Of a run that goes on from a checkpoint: TensorBoard then drops what an
    // earlier file of the folder says of this step and later ones, which are
    // trained again. 0: of a new run.
    uint64_t first_step = 0;
    absl::Time now = absl::Now();  // names the file
  };

  // Makes `folder`, and its parents, when they are not there, and in it a file
  // of a name of its own: runs that share a folder appear as one, which is what
  // a resumed run wants. Errors name the path.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(
      const std::string& folder, const Options& options);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Several numbers of one step. ResourceExhausted and other errors: the file
  // could not be written, the record waits for the next try (see Options). The
  // caller may go on.
  absl::Status Add(uint64_t step, const std::vector<Scalar>& scalars,
                   absl::Time now = absl::Now());
  // Writes what Add() has kept.
  absl::Status Flush();

  const std::string& path() const { return path_; }
  uint64_t left_out() const { return left_out_; }  // records, for lack of room

 private:
  EventFile(std::string path, UniqueFd file, const Options& options)
      : path_(std::move(path)), file_(std::move(file)), options_(options) {}

  const std::string path_;
  const UniqueFd file_;
  const Options options_;
  std::string pending_;  // whole records
  uint64_t written_ = 0;
  uint64_t left_out_ = 0;
  absl::Time flushed_ = absl::InfinitePast();
};

// One record around `event`.
std::string FrameRecord(absl::string_view event);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOGS_EVENT_FILE_H_
