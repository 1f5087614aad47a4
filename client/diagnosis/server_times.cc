#include "client/diagnosis/server_times.h"

#include <algorithm>

namespace millrace::diagnosis {
namespace {

constexpr double ServerTimes::*kSums[] = {
    &ServerTimes::read_seconds,        &ServerTimes::decode_seconds,
    &ServerTimes::augment_seconds,     &ServerTimes::wait_memory_seconds,
    &ServerTimes::wait_thread_seconds, &ServerTimes::send_seconds,
    &ServerTimes::make_seconds,        &ServerTimes::idle_seconds,
    &ServerTimes::receive_seconds,     &ServerTimes::waited_seconds,
};

// A number of the wire, limited to a day, which is more than any batch takes.
double Seconds(uint64_t micros) {
  constexpr uint64_t kMax = uint64_t{86400} * 1000000;
  return 1e-6 * static_cast<double>(std::min(micros, kMax));
}

}  // namespace

void ServerTimes::AddStages(const BatchHeader& header) {
  if (!header.has_stage_micros()) return;
  const StageMicros& stages = header.stage_micros();
  ++timed_batches;
  read_seconds += Seconds(stages.read());
  decode_seconds += Seconds(stages.decode());
  augment_seconds += Seconds(stages.augment());
  wait_memory_seconds += Seconds(stages.wait_memory());
  wait_thread_seconds += Seconds(stages.wait_thread());
  send_seconds += Seconds(stages.send());
  make_seconds += Seconds(stages.make());
  idle_seconds += Seconds(std::min(stages.idle(), stages.make()));
}

std::vector<ServerTimes> Difference(const std::vector<ServerTimes>& after,
                                    const std::vector<ServerTimes>& before) {
  std::vector<ServerTimes> result;
  for (const ServerTimes& now : after) {
    ServerTimes between = now;
    for (const ServerTimes& then : before) {
      if (then.address != now.address) continue;
      between.batches -= then.batches;
      between.timed_batches -= then.timed_batches;
      between.shared_batches -= then.shared_batches;
      for (const auto sum : kSums) between.*sum -= then.*sum;
      break;
    }
    if (between.batches == 0 && between.waited_seconds <= 0) continue;
    result.push_back(std::move(between));
  }
  return result;
}

}  // namespace millrace::diagnosis
