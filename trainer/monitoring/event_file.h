// EventFile writes scalars over steps for TensorBoard: a file of checksummed
// records, each an Event of tensorboard/compat/proto/event.proto. What it is
// not: a reader, or a writer of pictures and histograms.
//
// One thread. Owns the open file. Add() keeps records in memory and writes them
// when the last write is `flush_every` old, so that an open TensorBoard page
// follows the run; the destructor writes the rest. A file never holds a
// truncated record in its middle: one that a full disk cut off is removed
// before more is written.
//
//   MR_ASSIGN_OR_RETURN(auto file, EventFile::Create("logs/run1", {}));
//   MR_RETURN_IF_ERROR(file->Add(120, {{"Loss/train", 0.25}}));
//
// A record is: length (8 bytes, little-endian), masked CRC-32C of these 8 bytes
// (4), the event, masked CRC-32C of the event (4); that is TensorFlow's
// TFRecord format. The first event says file_version "brain.Event:2".

#ifndef MILLRACE_TRAINER_MONITORING_EVENT_FILE_H_
#define MILLRACE_TRAINER_MONITORING_EVENT_FILE_H_

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

namespace millrace::monitoring {

struct Scalar {
  std::string tag;   // "Loss/train"; TensorBoard groups by what is before the /
  double value = 0;  // stored as float32
};

class EventFile {
 public:
  struct Options {
    absl::Duration flush_every = absl::Seconds(2);
    // Records that could not be written are kept up to this size, for a disk
    // that is full for a while; beyond it new records are dropped.
    uint64_t max_pending_bytes = 1 << 20;
    // First step of a resumed run: TensorBoard then drops the points of earlier
    // files in the folder from this step on, because these steps are trained
    // again. 0: a new run.
    uint64_t first_step = 0;
    absl::Time now = absl::Now();  // part of the file's name
  };

  // Creates `folder` and its missing parents, and in it a file with a unique
  // name: runs that share a folder appear as one run, as a resumed run should.
  // Errors name the path. A disk that is full is no error: the first records
  // wait like others.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(
      const std::string& folder, const Options& options);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Adds several scalars of one step. ResourceExhausted and other errors: the
  // file could not be written, and the records wait for the next attempt (see
  // Options). The caller may continue.
  absl::Status Add(uint64_t step, const std::vector<Scalar>& scalars,
                   absl::Time now = absl::Now());
  // Writes the records that Add() kept.
  absl::Status Flush();

  const std::string& path() const { return path_; }
  uint64_t left_out() const { return left_out_; }  // records that were dropped

  // "PATH has 3 of 99 points (451 of 8,273 bytes): 96 points are missing, the
  // first at step 4, the last at step 99". Empty: the file has all points. A
  // point holds the scalars of one Add().
  std::string MissingText() const;

 private:
  EventFile(std::string path, UniqueFd file, const Options& options)
      : path_(std::move(path)), file_(std::move(file)), options_(options) {}

  const std::string path_;
  const UniqueFd file_;
  const Options options_;
  // Steps of points that are not in the file.
  struct Missing {
    uint64_t points = 0;
    uint64_t first = 0;
    uint64_t last = 0;
    void Add(uint64_t step) {
      if (points++ == 0) first = step;
      last = step;
    }
  };

  std::string pending_;  // whole records
  Missing pending_points_;
  uint64_t written_ = 0;  // bytes
  uint64_t left_out_ = 0;
  Missing left_out_points_;
  uint64_t points_ = 0;  // of all Add()
  uint64_t bytes_ = 0;   // of all records
  absl::Time flushed_ = absl::InfinitePast();
};

// The record that holds `event`.
std::string FrameRecord(absl::string_view event);

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_EVENT_FILE_H_
