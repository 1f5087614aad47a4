#include "client/c/options.h"

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/c/error.h"
#include "client/flags/loader_flags.h"
#include "client/receive/endpoint.h"
#include "common/clean_text.h"
#include "common/hex.h"
#include "common/program/flag_set.h"
#include "common/program/nearest_word.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "proto/spec_text.h"

namespace millrace::c {
namespace {

using program::FlagSet;

constexpr size_t kMaxQuotedBytes = 100;

struct Option {
  const char* name;
  FlagSet::Target (*target)(OptionValues& values);
  const char* words = nullptr;  // "off|auto|require": the only values
  bool may_be_zero = false;     // of a time
};

const Option kOptions[] = {
    {"endpoint",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.endpoint; }},
    {"dataset",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.dataset; }},
    {"preset",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.preset; }},
    {"pipeline",
     [](OptionValues& v) -> FlagSet::Target { return &v.pipeline; }},
    {"pipeline_name",
     [](OptionValues& v) -> FlagSet::Target { return &v.pipeline_name; }},
    {"outputs",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.outputs; }},
    {"batch_size",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.batch_size; }},
    {"seed",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.seed; }},
    {"shuffle",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.shuffle; },
     "global|sequential"},
    {"last_batch",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.last_batch; },
     "drop|pad|partial"},
    {"compression",
     [](OptionValues& v) -> FlagSet::Target { return &v.choices.compression; },
     "none|zstd"},
    {"rank", [](OptionValues& v) -> FlagSet::Target { return &v.loader.rank; }},
    {"world_size",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.world_size; }},
    {"start_epoch",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.start.epoch; }},
    {"start_step",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.start.step; }},
    {"epochs",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.epochs; }},
    {"expected_plan_hash",
     [](OptionValues& v) -> FlagSet::Target {
       return FlagSet::Parser([&v](absl::string_view text) -> absl::Status {
         const absl::StatusOr<std::string> hash = ParseHex(text);
         if (!hash.ok()) {
           return absl::InvalidArgumentError(
               "expected a hash in hexadecimal, as millrace_plan has it");
         }
         v.loader.expected_plan_hash = *hash;
         return absl::OkStatus();
       });
     }},
    {"expected_fingerprint",
     [](OptionValues& v) -> FlagSet::Target {
       return &v.loader.expected_fingerprint;
     }},
    {"window",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.window; }},
    {"window_bytes",
     [](OptionValues& v) -> FlagSet::Target {
       return FlagSet::Bytes{&v.loader.window_bytes};
     }},
    {"initial_window",
     [](OptionValues& v) -> FlagSet::Target {
       return &v.loader.initial_window;
     }},
    {"memory", [](OptionValues& v) -> FlagSet::Target { return &v.memory; },
     "own|offered"},
    {"read_only",
     [](OptionValues& v) -> FlagSet::Target { return &v.read_only; }},
    {"same_host",
     [](OptionValues& v) -> FlagSet::Target {
       return FlagSet::Parser([&v](absl::string_view word) {
         v.loader.same_host = flags::SameHostOf(word);
         return absl::OkStatus();
       });
     },
     "off|auto|require"},
    {"verify_payload",
     [](OptionValues& v) -> FlagSet::Target {
       return &v.loader.verify_payload;
     }},
    {"open_timeout",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.open_timeout; }},
    {"next_timeout",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.next_timeout; }},
    {"step_timeout",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.step_timeout; }},
    {"hedge_share",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.hedge_share; }},
    {"hedge_floor",
     [](OptionValues& v) -> FlagSet::Target { return &v.loader.hedge_floor; },
     nullptr, true},
};

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<PipelineSpec> MakeSpec(const OptionValues& values) {
  PipelineSpec spec;
  if (!values.pipeline.empty()) {
    if (!values.choices.preset.empty()) {
      return Bad(
          "options preset and pipeline cannot be used together: remove one of "
          "them");
    }
    MR_ASSIGN_OR_RETURN(spec,
                        ParseSpecText(values.pipeline, values.pipeline_name));
  } else {
    spec.set_preset(values.choices.preset);
  }
  MR_RETURN_IF_ERROR(values.choices.Replace({.prefix = "option ",
                                             .pipeline = values.pipeline_name,
                                             .default_batch_size = 0},
                                            spec));
  if (spec.sources().empty()) {
    return Bad(
        "option dataset is missing, and the pipeline names no dataset; "
        "`millrace status` lists the datasets of a server");
  }
  if (spec.batch_size() == 0) {
    return Bad(
        "option batch_size is missing or 0; set the number of samples of a "
        "global batch, over all ranks");
  }
  return spec;
}

}  // namespace

absl::Status OptionValues::Set(absl::string_view name,
                               absl::string_view value) {
  std::vector<absl::string_view> names;
  for (const Option& option : kOptions) {
    names.push_back(option.name);
    if (name != option.name) continue;
    const auto bad = [&](absl::string_view why) {
      return Bad(absl::StrCat("option ", name, "=",
                              CleanText(value, kMaxQuotedBytes), ": ", why));
    };
    if (!IsUtf8(value)) return bad("the value is not UTF-8");
    // A parser may leave part of a value that it refuses.
    OptionValues changed = *this;
    absl::Status status = absl::OkStatus();
    if (option.words != nullptr) {
      status = FlagSet::CheckChoice(value, option.words);
    }
    if (status.ok()) {
      status = FlagSet::ParseValue(value, option.target(changed),
                                   option.may_be_zero);
    }
    if (!status.ok()) return bad(status.message());
    *this = std::move(changed);
    return absl::OkStatus();
  }
  // Comparing takes time with the length.
  const std::string near = name.size() <= kMaxQuotedBytes
                               ? program::DidYouMean(name, names, "")
                               : "";
  return Bad(absl::StrCat(
      "there is no option \"", CleanText(name, kMaxQuotedBytes), "\"",
      near.empty() ? "; millrace.h lists the options" : near));
}

absl::StatusOr<LoadRequest> MakeLoadRequest(const OptionValues& values) {
  LoadRequest request;
  HostLoaderOptions& options = request.options;
  static_cast<LoaderOptions&>(options) = values.loader;
  MR_RETURN_IF_ERROR(options.Validate());
  MR_RETURN_IF_ERROR(receive::ParseEndpoint(options.endpoint).status());
  MR_ASSIGN_OR_RETURN(options.spec, MakeSpec(values));
  if (options.spec.batch_size() % options.world_size != 0) {
    return Bad(absl::StrCat("option batch_size=", options.spec.batch_size(),
                            ": the global batch cannot be shared equally by ",
                            options.world_size, " ranks (world_size)"));
  }
  if (values.pipeline.empty() && values.choices.preset.empty()) {
    request.preset_of = values.choices.dataset;
  }
  options.read_only_payload = values.read_only;
  if (values.memory == "offered") {
    if (values.read_only) {
      return Bad(
          "options memory=offered and read_only=true cannot be used together, "
          "because a batch that stays in a server's memory needs no memory of "
          "the caller: remove one of them");
    }
    options.offered = std::make_shared<prefetch::OfferedSlots>();
  }
  return request;
}

}  // namespace millrace::c

extern "C" {

millrace_options* millrace_options_new(void) {
  try {
    return new millrace_options;
  } catch (...) {
    return nullptr;
  }
}

void millrace_options_free(millrace_options* options) { delete options; }

millrace_status millrace_options_set(millrace_options* options,
                                     const char* name, const char* value,
                                     millrace_error** error) {
  return millrace::c::Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(millrace::c::CheckArgument(options, "options"));
    MR_RETURN_IF_ERROR(millrace::c::CheckArgument(name, "name"));
    MR_RETURN_IF_ERROR(millrace::c::CheckArgument(value, "value"));
    return options->values.Set(name, value);
  });
}

millrace_status millrace_options_set_int(millrace_options* options,
                                         const char* name, int64_t value,
                                         millrace_error** error) {
  return millrace::c::Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(millrace::c::CheckArgument(options, "options"));
    MR_RETURN_IF_ERROR(millrace::c::CheckArgument(name, "name"));
    return options->values.Set(name, absl::StrCat(value));
  });
}

millrace_status millrace_options_validate(const millrace_options* options,
                                          millrace_error** error) {
  return millrace::c::Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(millrace::c::CheckArgument(options, "options"));
    return millrace::c::MakeLoadRequest(options->values).status();
  });
}

size_t millrace_option_count(void) { return std::size(millrace::c::kOptions); }

const char* millrace_option_name(size_t index) {
  return index < std::size(millrace::c::kOptions)
             ? millrace::c::kOptions[index].name
             : nullptr;
}

}  // extern "C"
