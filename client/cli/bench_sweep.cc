#include "client/cli/bench_sweep.h"

#include <cstdint>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/prefetch/loader_options.h"
#include "common/byte_size.h"
#include "common/status_macros.h"

namespace millrace::cli {
namespace {

enum class Kind { kNumber, kNumberOrNone, kWindow, kBytes, kSameHost };

struct KnownKnob {
  absl::string_view name;
  Kind kind;
  bool server;
};

constexpr KnownKnob kKnown[] = {
    {"window", Kind::kWindow, false},
    {"batch_size", Kind::kNumber, false},
    {"loaders", Kind::kNumber, false},
    {"same_host", Kind::kSameHost, false},
    {"threads", Kind::kNumber, true},
    {"read_threads", Kind::kNumberOrNone, true},
    {"memory_budget", Kind::kBytes, true},
};

const KnownKnob* Find(absl::string_view name) {
  for (const KnownKnob& known : kKnown) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

absl::Status Wrong(absl::string_view part, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("flag --sweep, `", part, "`: ", why));
}

absl::Status CheckValue(absl::string_view part, const KnownKnob& known,
                        absl::string_view value) {
  switch (known.kind) {
    case Kind::kWindow:
      if (value == "auto") return absl::OkStatus();
      if (uint32_t window = 0; absl::SimpleAtoi(value, &window) && window > 0 &&
                               (window < LoaderOptions::kMinWindow ||
                                window > LoaderOptions::kMaxWindow)) {
        return Wrong(part,
                     absl::StrCat("`", value,
                                  "`: write auto, or a number of batches from ",
                                  LoaderOptions::kMinWindow, " to ",
                                  LoaderOptions::kMaxWindow));
      }
      [[fallthrough]];
    case Kind::kNumber:
    case Kind::kNumberOrNone: {
      const uint32_t min = known.kind == Kind::kNumberOrNone ? 0 : 1;
      uint32_t number = 0;
      if (absl::SimpleAtoi(value, &number) && number >= min) {
        return absl::OkStatus();
      }
      return Wrong(
          part, absl::StrCat("`", value, "` is not a whole number from ", min));
    }
    case Kind::kBytes:
      if (const auto bytes = ParseByteSize(value); bytes.ok() && *bytes > 0) {
        return absl::OkStatus();
      }
      return Wrong(part,
                   absl::StrCat("`", value,
                                "` is not a size; write, for example, 512MiB"));
    case Kind::kSameHost:
      if (value == "off" || value == "auto" || value == "require") {
        return absl::OkStatus();
      }
      return Wrong(
          part, absl::StrCat("`", value, "` is not one of off, auto, require"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string BenchSetting::Name() const {
  if (values.empty()) return "as given";
  return absl::StrJoin(values, " ", absl::PairFormatter("="));
}

const std::string* BenchSetting::Find(absl::string_view knob) const {
  for (const auto& [name, value] : values) {
    if (name == knob) return &value;
  }
  return nullptr;
}

bool IsServerKnob(absl::string_view name) {
  const KnownKnob* const known = Find(name);
  return known != nullptr && known->server;
}

absl::StatusOr<std::vector<SweepKnob>> ParseSweep(absl::string_view text) {
  std::vector<SweepKnob> knobs;
  size_t settings = 1;
  for (const absl::string_view part : absl::StrSplit(text, ';')) {
    // A semicolon at the end is allowed.
    if (part.empty() && !knobs.empty()) continue;
    const size_t equals = part.find('=');
    if (equals == absl::string_view::npos) {
      return Wrong(part,
                   "write KNOB=VALUE,VALUE[;KNOB=...], as "
                   "window=4,16;batch_size=64,256");
    }
    const absl::string_view name = part.substr(0, equals);
    if (name == "prefetch") {
      return Wrong(part,
                   "bench has no device; device_prefetch is a flag of "
                   "millrace-train: sweep window instead");
    }
    const KnownKnob* const known = Find(name);
    if (known == nullptr) {
      return Wrong(
          part, absl::StrCat(
                    "there is no knob `", name, "`; the knobs are ",
                    absl::StrJoin(kKnown, ", ",
                                  [](std::string* out, const KnownKnob& knob) {
                                    absl::StrAppend(out, knob.name);
                                  })));
    }
    SweepKnob knob = {.name = std::string(name)};
    for (const SweepKnob& other : knobs) {
      if (other.name == knob.name) return Wrong(part, "is given twice");
    }
    std::set<absl::string_view> seen;
    for (const absl::string_view value :
         absl::StrSplit(part.substr(equals + 1), ',')) {
      MR_RETURN_IF_ERROR(CheckValue(part, *known, value));
      if (!seen.insert(value).second) {
        return Wrong(part,
                     absl::StrCat("the value ", value, " is given twice"));
      }
      knob.values.emplace_back(value);
      if (knob.values.size() > kMaxSweepSettings) break;
    }
    settings *= knob.values.size();
    if (settings > kMaxSweepSettings) {
      return absl::InvalidArgumentError(absl::StrCat(
          "flag --sweep makes more than ", kMaxSweepSettings,
          " settings: give fewer values, or sweep one knob at a time"));
    }
    knobs.push_back(std::move(knob));
  }
  return knobs;
}

std::vector<BenchSetting> Combine(const std::vector<SweepKnob>& knobs) {
  std::vector<BenchSetting> settings(1);
  for (const SweepKnob& knob : knobs) {
    std::vector<BenchSetting> longer;
    for (const BenchSetting& setting : settings) {
      for (const std::string& value : knob.values) {
        longer.push_back(setting);
        longer.back().values.emplace_back(knob.name, value);
      }
    }
    settings = std::move(longer);
  }
  return settings;
}

}  // namespace millrace::cli
