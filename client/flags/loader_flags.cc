#include "client/flags/loader_flags.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/byte_size.h"
#include "common/status_macros.h"

namespace millrace::flags {

void LoaderFlags::AddEndpoint(program::FlagSet& flags) {
  flags.Add("endpoint", &options.endpoint, "HOST:PORT[,...]",
            "Data servers; a DNS name may resolve to several");
}

void LoaderFlags::AddTimeout(program::FlagSet& flags) {
  flags.Add("timeout", &options.open_timeout, "TIME",
            "Max time to wait until a server of --endpoint answers");
}

program::FlagSet::Flag& LoaderFlags::AddRank(program::FlagSet& flags) {
  return flags.Add("rank", &options.rank, "N", "Rank of the job, from 0");
}

program::FlagSet::Flag& LoaderFlags::AddWorld(program::FlagSet& flags) {
  return flags
      .Add(
          "world",
          [this](absl::string_view text) -> absl::Status {
            MR_RETURN_IF_ERROR(
                program::FlagSet::ParseValue(text, &options.world_size));
            if (options.world_size > 0) return absl::OkStatus();
            return absl::InvalidArgumentError(
                "expected a number of ranks from 1");
          },
          "N", "Number of ranks of the job")
      .Default(absl::StrCat(options.world_size));
}

void LoaderFlags::AddInitialWindow(program::FlagSet& flags) {
  flags.Add("initial_window", &options.initial_window, "N",
            absl::StrCat("Initial window of --window=auto, ",
                         LoaderOptions::kMinWindow, " to ",
                         LoaderOptions::kMaxAdaptiveWindow,
                         " batches, at most what fits into ",
                         FormatByteSize(options.window_bytes),
                         "; 0: chosen by the size of the batches"));
}

void LoaderFlags::AddWindow(program::FlagSet& flags) {
  flags
      .Add(
          "window",
          [this](absl::string_view text) -> absl::Status {
            uint32_t window = 0;
            if (text != "auto" &&
                !program::FlagSet::ParseValue(text, &window).ok()) {
              return absl::InvalidArgumentError(
                  "write auto, or a number of batches");
            }
            options.window = window;
            return absl::OkStatus();
          },
          "auto|N",
          "Max number of batches that are requested and not yet consumed; "
          "auto or 0: adjusted automatically; N: fixed")
      .Default(options.window == 0 ? "auto" : absl::StrCat(options.window));
}

void LoaderFlags::AddPrefetch(program::FlagSet& flags) {
  AddWindow(flags);
  flags.Add("data_timeout", &options.next_timeout, "TIME",
            "Max time to wait for a batch; then the run ends");
}

void LoaderFlags::AddConnection(program::FlagSet& flags) {
  flags
      .Add(
          "same_host",
          [this](absl::string_view word) {
            options.same_host = SameHostOf(word);
            return absl::OkStatus();
          },
          "off|auto|require",
          "How servers on this machine pass batches. off: over the network; "
          "auto, and the flag without a value: in shared memory where that "
          "works; require: a server that cannot share memory is not used (a "
          "server that stops sharing later sends batches over the network "
          "until it shares memory again)")
      .Choice()
      .Bare("auto", "off")
      .Default(std::string(SameHostWord(options.same_host)));
  AddTimeout(flags);
  flags.Add("step_timeout", &options.step_timeout, "TIME",
            "Time without progress after which a step is requested from "
            "another server");
}

void LoaderFlags::AddVerification(program::FlagSet& flags) {
  flags.Add("verify_payload", &options.verify_payload, "",
            "Verify each batch against the digest from its server");
}

void LoaderFlags::AddHedging(program::FlagSet& flags) {
  flags
      .Add("hedge_share", &options.hedge_share, "SHARE",
           "Upper bound of the share of steps that are requested from a second "
           "server because they are late; 0: never")
      .Default(absl::StrCat(options.hedge_share));
  flags
      .Add(
          "hedge_floor",
          [this](absl::string_view text) {
            hedge_floor_given_ = true;
            return program::FlagSet::ParseTime(text, /*may_be_zero=*/true,
                                               &options.hedge_floor);
          },
          "TIME", "Minimum time before a step counts as late; 0: no minimum")
      .Default(absl::FormatDuration(options.hedge_floor));
}

absl::Status LoaderFlags::Validate() const {
  // Also when the flag has the value of its default.
  if (options.hedge_share == 0 && hedge_floor_given_) {
    return absl::InvalidArgumentError(
        "--hedge_floor has no effect with --hedge_share=0: remove one of them");
  }
  LoaderOptions checked = options;
  // Programs name a missing flag themselves, and some need none.
  if (checked.endpoint.empty()) checked.endpoint = "localhost:1";
  const absl::Status valid = checked.Validate();
  // The flags that have another name than their option, --world, --timeout and
  // --data_timeout, refuse a wrong value when they are parsed.
  return valid.ok() ? valid
                    : absl::InvalidArgumentError(
                          absl::StrCat("flag --", valid.message()));
}

absl::Status LoaderFlags::RequireEndpoint() const {
  if (!options.endpoint.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("flag --endpoint=HOST:PORT is missing");
}

SameHost SameHostOf(absl::string_view word) {
  if (word == "auto") return SameHost::kAuto;
  return word == "require" ? SameHost::kRequire : SameHost::kOff;
}

absl::string_view SameHostWord(SameHost same_host) {
  if (same_host == SameHost::kAuto) return "auto";
  return same_host == SameHost::kRequire ? "require" : "off";
}

}  // namespace millrace::flags
