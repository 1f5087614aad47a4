// The flags of millrace-train.

#ifndef MILLRACE_TRAINER_FLAGS_H_
#define MILLRACE_TRAINER_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/config.h"
#include "trainer/launcher.h"

namespace millrace {

struct TrainFlags {
  TrainerConfig config;
  // Without command and threads_per_rank. ranks is 0: this process is a rank.
  LaunchOptions launch;
  std::string help;  // what to print instead of training; empty: train
  bool version = false;
};

// `arguments` are those after the program's name. Of a flag that is given again
// the last value holds. `launched`: this process is a rank that a launcher has
// started with its own flags, which are not judged again. Errors as
// FlagSet::Parse() and TrainerConfig::Validate() have them, with the mark of
// UsageError(); also what contradicts in the flags that start ranks.
absl::StatusOr<TrainFlags> ParseTrainFlags(
    const std::vector<std::string>& arguments, bool launched);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_FLAGS_H_
