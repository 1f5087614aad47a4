// A trainer without training: receives a rank's batches and writes down what
// each of them was, one line a batch, so that two runs can be compared and a
// run that was killed can be taken up where it ended. For tools/chaos.
//
//   digest_client --endpoint=HOST:PORT,... --dataset=NAME --preset=NAME
//       --batch_size=N --output=FILE [--start=EPOCH:STEP] [--batches=N]
//       [--rank=R --world=W] [--pace=5ms] [--next_timeout=60s] ...
//
//   0 17 64 50944 9c3b5a2f5f0d1e77
//
// are epoch, step, rows, bytes and XXH3-64 of the payload.
//
// A line is whole or not there. Ends with 0 after --batches (0: at SIGTERM, or
// never), with 1 and a sentence when the loader gives up. The last line of
// standard output is a JSON object with what the loader counted.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/spec_flags.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "common/malloc_tuning.h"
#include "common/program/flag_set.h"
#include "common/status_macros.h"
#include "xxhash.h"

namespace millrace {
namespace {

std::atomic<bool> stop{false};

absl::StatusOr<Position> ParsePosition(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Position position;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &position.epoch) ||
      !absl::SimpleAtoi(parts[1], &position.step)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--start=", text, ": write EPOCH:STEP"));
  }
  return position;
}

absl::Status Run(const std::vector<std::string>& arguments) {
  cli::SpecFlags spec_flags;
  std::string start = "0:0";
  std::string output;
  uint64_t batches = 0;
  absl::Duration pace;
  program::FlagSet flags(
      {.command = "digest_client",
       .summary = "Writes down what each batch of a rank was."});
  spec_flags.AddTo(flags);
  spec_flags.loader.AddHedging(flags);
  LoaderOptions& values = spec_flags.loader.options;
  flags.Add("output", &output, "FILE", "One line a batch, appended");
  flags.Add("start", &start, "EPOCH:STEP", "First batch");
  flags.Add("batches", &batches, "N",
            "Number of batches after which it ends; 0: at SIGTERM");
  spec_flags.loader.AddRank(flags);
  spec_flags.loader.AddWorld(flags);
  spec_flags.loader.AddWindow(flags);
  flags.Add("pace", &pace, "TIME", "Time that the work on a batch takes");
  absl::Duration next_timeout = values.next_timeout;
  flags.Add("next_timeout", &next_timeout, "TIME",
            "Time without a batch after which it gives up");
  MR_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(spec_flags.Validate());
  if (output.empty()) {
    return absl::InvalidArgumentError("--output is missing");
  }
  HostLoaderOptions options = spec_flags.MakeOptions();
  options.next_timeout = next_timeout;
  options.epochs = 0;
  options.verify_payload = true;
  MR_ASSIGN_OR_RETURN(options.spec, spec_flags.MakeSpec());
  MR_ASSIGN_OR_RETURN(options.start, ParsePosition(start));
  std::FILE* file = std::fopen(output.c_str(), "ab");
  if (file == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot write ", output));
  }
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<HostLoader> loader,
                      receive::OpenHostLoader(options));
  double longest_wait = 0;
  while (!stop && (batches == 0 || loader->stats().batches < batches)) {
    const absl::Time before = absl::Now();
    MR_ASSIGN_OR_RETURN(const HostBatch batch, loader->Next());
    longest_wait =
        std::max(longest_wait, absl::ToDoubleSeconds(absl::Now() - before));
    const std::string line = absl::StrFormat(
        "%d %d %d %d %016x\n", batch.position.epoch, batch.position.step,
        batch.header.rows(), batch.payload.size(),
        XXH3_64bits(batch.payload.data(), batch.payload.size()));
    // One write, so that whoever kills this program finds whole lines.
    if (std::fwrite(line.data(), 1, line.size(), file) != line.size() ||
        std::fflush(file) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot write ", output));
    }
    if (pace > absl::ZeroDuration()) absl::SleepFor(pace);
  }
  std::fclose(file);
  const HostLoader::Stats stats = loader->stats();
  absl::PrintF(
      "{\"batches\": %d, \"retried_steps\": %d, \"wait_seconds\": %.3f, "
      "\"longest_wait_seconds\": %.3f, \"servers\": %d}\n",
      stats.batches, stats.retried_steps, stats.wait_seconds, longest_wait,
      stats.servers);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::KeepFreedMemory();
  signal(SIGTERM, [](int) { millrace::stop = true; });
  const absl::Status status =
      millrace::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
