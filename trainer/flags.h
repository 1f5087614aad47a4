// ParseTrainFlags() parses the command line of millrace-train.
//
// What it is not: it starts no rank and reads no file.
//
// Safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(TrainFlags flags, ParseTrainFlags(arguments, false));
//   if (!flags.help.empty()) ... print it and exit ...

#ifndef MILLRACE_TRAINER_FLAGS_H_
#define MILLRACE_TRAINER_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/config.h"
#include "trainer/launcher.h"

namespace millrace::trainer {

struct TrainFlags {
  TrainerConfig config;
  // Without command and threads_per_rank. ranks 0: this process is a rank.
  LaunchOptions launch;
  std::string help;  // text to print instead of training; empty: train
  bool version = false;
};

// `arguments` are those after the program's name. The last value of a repeated
// flag counts. `launched`: this process is a rank that a launcher has started
// with the launcher's own flags, which are not validated again. Errors, with
// the mark of UsageError(): those of FlagSet::Parse(), LoaderFlags::Validate()
// and TrainerConfig::Validate(), and of flags that start ranks and cannot be
// used together.
absl::StatusOr<TrainFlags> ParseTrainFlags(
    const std::vector<std::string>& arguments, bool launched);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_FLAGS_H_
