// RunReport is what the summary of a training run (millrace-train --json) says
// of its time: the part of it that `millrace doctor` judges.
//
// Reading takes foreign bytes: whatever is in the file, the result is a report
// or an error, and its numbers are finite and not negative.
//
//   MR_ASSIGN_OR_RETURN(RunReport run, ReadRunReport("run.json"));

#ifndef MILLRACE_CLIENT_CLI_RUN_REPORT_H_
#define MILLRACE_CLIENT_CLI_RUN_REPORT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// trainer/logs/run_times.h says what each is; seconds of rank 0.
struct PartTimes {
  double seconds = 0;
  double steps = 0;
  double samples = 0;  // of all ranks
  double data = 0;
  double copy = 0;
  double device_copy = 0;
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double compute = 0;
  double allreduce = 0;
  double ranks = 0;
  double cpu = 0;
  double cpus = 0;
  double other_cpu = 0;
  double machine_cpus = 0;  // 0: the run did not measure it
  double pinned_bytes = 0;
  double device_busy = 0;  // share
  std::string device_busy_source;
  std::string wait_cause;

  // Of all the time, 0 to 1.
  double share(double part) const;
};

struct RunReport {
  std::string path;
  std::string model;
  std::string dataset;
  std::string device;  // "cpu", "cuda:0"
  std::string plan_hash;
  std::string endpoint;
  double world_size = 1;
  double batch_size = 0;  // global
  // 0: unknown, of an earlier version.
  double samples_per_epoch = 0;
  double parameters = 0;
  // Above 0: batches were repeats (--replay_batches), no real training.
  double replay_batches = 0;
  std::vector<std::string> flags;  // of its command line
  PartTimes times;
  std::vector<PartTimes> epochs;
  std::vector<double> rank_stall_shares;
  std::vector<std::string> where;  // of each epoch, why it waited
  std::vector<double> loss;
  std::optional<double> accuracy;  // of the last evaluation

  bool on_cpu() const { return device == "cpu"; }
  // The trainer copied and transformed batches within its wait for data, not
  // beside it.
  bool copies_in_wait() const { return on_cpu() && !has_flag("prepare_ahead"); }
  // Seconds that the trainer waited for servers.
  double waited_for_servers() const {
    return copies_in_wait() ? std::max(0.0, times.data - times.copy)
                            : times.data;
  }
  // Its servers run on the trainer's machine, as far as the endpoint tells.
  bool servers_are_local() const;
  // Whether its command line has the flag `name`, with whatever value.
  bool has_flag(absl::string_view name) const;
};

// InvalidArgument: not a summary, or one of an earlier version without times.
absl::StatusOr<RunReport> ParseRunReport(const std::string& json,
                                         const std::string& path);
// Also NotFound and others: the file cannot be read.
absl::StatusOr<RunReport> ReadRunReport(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_RUN_REPORT_H_
