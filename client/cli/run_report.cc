#include "client/cli/run_report.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/read_file.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

using ::google::protobuf::ListValue;
using ::google::protobuf::Struct;
using ::google::protobuf::Value;

// A summary of 100,000 epochs has a tenth of that.
constexpr size_t kMostBytes = 256 << 20;

const Value* Find(const Struct& object, const char* key) {
  const auto found = object.fields().find(key);
  return found == object.fields().end() ? nullptr : &found->second;
}

std::string Word(const Struct& object, const char* key) {
  const Value* value = Find(object, key);
  return value == nullptr ? "" : value->string_value();
}

double Sane(double value) {
  return std::isfinite(value) ? std::clamp(value, 0.0, 1e18) : 0;
}

double Number(const Struct& object, const char* key, double otherwise = 0) {
  const Value* value = Find(object, key);
  if (value == nullptr || value->kind_case() != Value::kNumberValue) {
    return otherwise;
  }
  return Sane(value->number_value());
}

const ListValue& List(const Struct& object, const char* key) {
  const Value* value = Find(object, key);
  return value == nullptr ? ListValue::default_instance() : value->list_value();
}

std::vector<double> Numbers(const Struct& object, const char* key) {
  std::vector<double> numbers;
  for (const Value& value : List(object, key).values()) {
    // A loss may be negative, or null.
    numbers.push_back(value.number_value());
  }
  return numbers;
}

std::vector<std::string> Words(const Struct& object, const char* key) {
  std::vector<std::string> words;
  for (const Value& value : List(object, key).values()) {
    words.push_back(value.string_value());
  }
  return words;
}

PartTimes Times(const Struct& object) {
  PartTimes times;
  times.seconds = Number(object, "seconds");
  times.steps = Number(object, "steps");
  times.samples = Number(object, "samples");
  times.data = Number(object, "data_seconds");
  times.copy = Number(object, "copy_seconds");
  times.device_copy = Number(object, "device_copy_seconds");
  times.forward = Number(object, "forward_seconds");
  times.backward = Number(object, "backward_seconds");
  times.optimizer = Number(object, "optimizer_seconds");
  times.compute = Number(object, "compute_seconds");
  times.allreduce = Number(object, "allreduce_seconds");
  times.ranks = Number(object, "ranks_seconds");
  times.cpu = Number(object, "cpu_seconds");
  times.cpus = Number(object, "cpus");
  times.other_cpu = Number(object, "other_cpu_seconds");
  times.machine_cpus = Number(object, "machine_cpus");
  times.pinned_bytes = Number(object, "pinned_bytes");
  times.device_busy = std::min(1.0, Number(object, "device_busy"));
  times.device_busy_source = Word(object, "device_busy_source");
  times.wait_cause = Word(object, "wait_cause");
  return times;
}

}  // namespace

double PartTimes::share(double part) const {
  return seconds > 0 ? std::clamp(part / seconds, 0.0, 1.0) : 0;
}

bool RunReport::has_flag(absl::string_view name) const {
  return std::any_of(
      flags.begin(), flags.end(), [name](const std::string& flag) {
        const absl::string_view rest = absl::string_view(flag).substr(
            flag.find_first_not_of('-') == std::string::npos
                ? flag.size()
                : flag.find_first_not_of('-'));
        return rest == name || absl::StartsWith(rest, absl::StrCat(name, "="));
      });
}

bool RunReport::servers_are_local() const {
  const std::vector<absl::string_view> hosts = absl::StrSplit(endpoint, ',');
  return std::all_of(hosts.begin(), hosts.end(), [](absl::string_view host) {
    return absl::StartsWith(host, "127.") || absl::StartsWith(host, "[::1]") ||
           absl::StartsWith(host, "localhost:");
  });
}

absl::StatusOr<RunReport> ParseRunReport(const std::string& json,
                                         const std::string& path) {
  Struct summary;
  if (!google::protobuf::util::JsonStringToMessage(json, &summary).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is no summary of millrace-train: not a JSON object; give the "
        "file that --json has written"));
  }
  RunReport run;
  run.path = path;
  const Value* times = Find(summary, "times");
  if (times == nullptr || times->kind_case() != Value::kStructValue) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " says nothing of its times: it is no summary of "
        "millrace-train, or one of an earlier version; train again with "
        "--json=FILE"));
  }
  run.times = Times(times->struct_value());
  if (run.times.seconds <= 0 || run.times.steps <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is of a run without a step: nothing to judge"));
  }
  for (const Value& epoch : List(summary, "epoch_times").values()) {
    run.epochs.push_back(Times(epoch.struct_value()));
  }
  run.model = Word(summary, "model");
  run.dataset = Word(summary, "dataset");
  run.device = Word(summary, "device");
  run.plan_hash = Word(summary, "plan_hash");
  run.endpoint = Word(summary, "endpoint");
  run.world_size = std::max(1.0, Number(summary, "world_size", 1));
  run.batch_size = Number(summary, "batch_size");
  run.samples_per_epoch = Number(summary, "samples_per_epoch");
  run.parameters = Number(summary, "parameters");
  run.replay_batches = Number(summary, "replay_batches");
  run.flags = Words(summary, "flags");
  run.rank_stall_shares = Numbers(summary, "rank_stall_shares");
  run.where = Words(summary, "where_the_time_went");
  run.loss = Numbers(summary, "loss");
  const Value* accuracy = Find(summary, "eval_accuracy");
  if (accuracy != nullptr && accuracy->kind_case() == Value::kNumberValue) {
    run.accuracy = accuracy->number_value();
  }
  return run;
}

absl::StatusOr<RunReport> ReadRunReport(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, kMostBytes, "the summary"));
  return ParseRunReport(text, path);
}

}  // namespace millrace
