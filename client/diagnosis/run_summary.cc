#include "client/diagnosis/run_summary.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "common/read_file.h"
#include "common/status_macros.h"

namespace millrace::diagnosis {
namespace {

using ::google::protobuf::Struct;
using ::google::protobuf::Value;

// A summary of 100,000 epochs has a tenth of that.
constexpr size_t kMaxBytes = 256 << 20;
constexpr double kMaxNumber = 1e18;
constexpr int kSummaryDigits = 9;

template <typename T, typename Type>
concept Is = std::is_same_v<std::remove_const_t<T>, Type>;

// EachField names the keys of a struct, in the order of the file. It calls
// `field(key, member)` for every member, and `field.Derived(key, value)` for a
// value that is written for other programs and not read back.

void EachField(Is<BadSampleSummary::Place> auto& place, auto& field) {
  field("dataset", place.dataset);
  field("shard", place.shard);
  field("row", place.row);
  field("sample", place.sample);
  field("reason", place.reason);
}

void EachField(Is<BadSampleSummary> auto& bad, auto& field) {
  field("policy", bad.policy);
  field("empty_rows", bad.empty_rows);
  field("eval_empty_rows", bad.eval_empty_rows);
  field("damaged", bad.damaged);
}

void EachField(Is<RunTimes> auto& t, auto& field) {
  field("seconds", t.seconds);
  field("steps", t.steps);
  field("samples", t.samples);
  field("data_seconds", t.data_seconds);
  field("start_seconds", t.start_seconds);
  field("start_data_seconds", t.start_data_seconds);
  field("copy_seconds", t.copy_seconds);
  field("device_copy_seconds", t.device_copy_seconds);
  field("forward_seconds", t.forward_seconds);
  field("backward_seconds", t.backward_seconds);
  field("optimizer_seconds", t.optimizer_seconds);
  field("allreduce_seconds", t.allreduce_seconds);
  field("ranks_seconds", t.ranks_seconds);
  field.Derived("compute_seconds", t.compute_seconds());
  field.Derived("data_share", t.share(t.data_seconds));
  field.Derived("compute_share", t.share(t.compute_seconds()));
  field.Derived("allreduce_share", t.share(t.allreduce_seconds));
  field("cpu_seconds", t.cpu_seconds);
  field("cpus", t.cpus);
  field.Derived("cpu_percent", 100 * t.rate(t.cpu_seconds));
  field("other_cpu_seconds", t.other_cpu_seconds);
  field("machine_cpus", t.machine_cpus);
  field("pinned_bytes", t.pinned_bytes);
  field("device_busy", t.device_busy);
  field("device_busy_source", t.device_busy_source);
  field("wait_cause", t.wait_cause);
}

void EachField(Is<RunSummary> auto& s, auto& field) {
  field("ended", s.ended);
  field("error", s.error);
  field("final_wait_seconds", s.final_wait_seconds);
  field("model", s.model);
  field("dataset", s.dataset);
  field("device", s.device);
  field("world_size", s.world_size);
  field("batch_size", s.batch_size);
  field("samples_per_epoch", s.samples_per_epoch);
  field("parameters", s.parameters);
  field("steps", s.steps);
  field("samples", s.samples);
  field("replay_batches", s.replay_batches);
  field("epoch_seconds", s.epoch_seconds);
  field("eval_seconds", s.eval_seconds);
  field("samples_per_second", s.samples_per_second);
  field("stall_share", s.stall_share);
  field("rank_stall_shares", s.rank_stall_shares);
  field("allreduce_share", s.rank_allreduce_shares);
  field("allreduce_bytes", s.allreduce_bytes);
  field("where_the_time_went", s.where_the_time_went);
  field("times", s.times);
  field("epoch_times", s.epoch_times);
  field("loss", s.loss);
  field("eval_loss", s.eval_loss);
  field("eval_accuracy", s.eval_accuracy);
  field("eval_top5", s.eval_top5);
  field("eval_mean_iou", s.eval_mean_iou);
  field("bad_samples", s.bad_samples);
  field("loss_scale", s.loss_scale);
  field("skipped_steps", s.skipped_steps);
  field("plan_hash", s.plan_hash);
  field("fingerprint", s.fingerprint);
  field("endpoint", s.endpoint);
  field("pipeline", s.pipeline);
  field("flags", s.flags);
}

template <typename T>
concept Record = Is<T, BadSampleSummary::Place> || Is<T, BadSampleSummary> ||
    Is<T, RunTimes>;

// Collects `"key": value` of each field.
class Writer {
 public:
  Writer(const char* separator, int digits)
      : separator_(separator), digits_(digits) {}

  template <typename T>
  void operator()(const char* key, const T& value) {
    absl::StrAppend(&text_, text_.empty() ? "" : separator_, JsonText(key),
                    ": ", JsonTextOf(value));
  }
  template <typename T>
  void Derived(const char* key, const T& value) {
    (*this)(key, value);
  }
  const std::string& text() const { return text_; }

 private:
  template <typename T>
  std::string JsonTextOf(const T& value) const {
    return JsonOf(value, digits_);
  }
  template <Record T>
  std::string JsonTextOf(const T& value) const {
    Writer record(", ", kJsonDigits);
    EachField(value, record);
    return absl::StrCat("{", record.text(), "}");
  }
  // On a line each.
  template <Record T>
  std::string JsonTextOf(const std::vector<T>& list) const {
    std::string text;
    for (const T& value : list) {
      absl::StrAppend(&text, text.empty() ? "\n    " : ",\n    ",
                      JsonTextOf(value));
    }
    return absl::StrCat("[", text, "]");
  }
  std::string JsonTextOf(const std::optional<WaitCause>& cause) const {
    return JsonText(cause.has_value() ? NameOf(*cause) : "");
  }

  const char* const separator_;
  const int digits_;  // of floating-point numbers
  std::string text_;
};

// Sets members to the values of a JSON object. A value of another type leaves
// its member as it is.
class Reader {
 public:
  // Floating-point numbers below `min` become `min`.
  Reader(const Struct& object, double min) : object_(object), min_(min) {}

  template <typename T>
  void operator()(const char* key, T& member) const {
    const auto found = object_.fields().find(key);
    if (found != object_.fields().end()) Read(found->second, member);
  }
  template <typename T>
  void Derived(const char* /*key*/, const T& /*value*/) const {}

 private:
  void Read(const Value& value, std::string& member) const {
    if (value.kind_case() == Value::kStringValue) member = value.string_value();
  }
  void Read(const Value& value, double& member) const {
    if (value.kind_case() != Value::kNumberValue) return;
    const double number = value.number_value();
    if (!std::isnan(number)) member = std::clamp(number, min_, kMaxNumber);
  }
  template <typename T>
  requires std::is_integral_v<T>
  void Read(const Value& value, T& member) const {
    double number = static_cast<double>(member);
    Read(value, number);
    using Limits = std::numeric_limits<T>;
    member = static_cast<T>(
        std::clamp(number, static_cast<double>(Limits::min()),
                   std::min(kMaxNumber, static_cast<double>(Limits::max()))));
  }
  void Read(const Value& value, std::optional<WaitCause>& member) const {
    std::string name;
    Read(value, name);
    if (!name.empty()) member = WaitCauseOf(name);
  }
  template <typename T>
  void Read(const Value& value, std::optional<T>& member) const {
    constexpr auto kKind = std::is_same_v<T, std::string> ? Value::kStringValue
                                                          : Value::kNumberValue;
    if (value.kind_case() == kKind) Read(value, member.emplace());
  }
  template <typename T>
  void Read(const Value& value, std::vector<T>& member) const {
    member.clear();
    for (const Value& element : value.list_value().values()) {
      // A number that is not finite was written as null.
      if constexpr (std::is_same_v<T, double>) {
        member.push_back(std::nan(""));
      } else {
        member.emplace_back();
      }
      Read(element, member.back());
    }
  }
  template <Record T>
  void Read(const Value& value, T& member) const {
    Reader record(value.struct_value(), Is<T, RunTimes> ? 0 : -kMaxNumber);
    EachField(member, record);
  }

  const Struct& object_;
  const double min_;
};

}  // namespace

double RunSummary::waited_for_servers() const {
  return copies_in_wait()
             ? std::max(0.0, times.data_seconds - times.copy_seconds)
             : times.data_seconds;
}

bool RunSummary::servers_are_local() const {
  const std::vector<absl::string_view> hosts = absl::StrSplit(endpoint, ',');
  return std::all_of(hosts.begin(), hosts.end(), [](absl::string_view host) {
    return absl::StartsWith(host, "127.") || absl::StartsWith(host, "[::1]") ||
           absl::StartsWith(host, "localhost:");
  });
}

bool RunSummary::has_flag(absl::string_view name) const {
  return std::any_of(
      flags.begin(), flags.end(), [name](absl::string_view flag) {
        flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
        return flag == name || absl::StartsWith(flag, absl::StrCat(name, "="));
      });
}

std::string ToJson(const RunSummary& summary) {
  Writer fields(",\n  ", kSummaryDigits);
  EachField(summary, fields);
  return absl::StrCat("{\n  ", fields.text(), "\n}\n");
}

std::string ToJson(const RunTimes& times) {
  Writer fields(", ", kJsonDigits);
  EachField(times, fields);
  return absl::StrCat("{", fields.text(), "}");
}

absl::StatusOr<RunSummary> ParseRunSummary(const std::string& json,
                                           absl::string_view path) {
  Struct object;
  if (!google::protobuf::util::JsonStringToMessage(json, &object).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is not a summary of a training run: it holds no JSON object; give a "
        "file that `millrace-train --json=FILE` wrote"));
  }
  RunSummary summary;
  Reader reader(object, -kMaxNumber);
  EachField(summary, reader);
  summary.world_size = std::max(1u, summary.world_size);
  summary.final_wait_seconds = std::max(0.0, summary.final_wait_seconds);
  summary.times.device_busy = std::min(1.0, summary.times.device_busy);
  return summary;
}

absl::StatusOr<RunSummary> ReadRunSummary(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, kMaxBytes, "the summary"));
  return ParseRunSummary(text, path);
}

}  // namespace millrace::diagnosis
