// LoaderFlags declares the command-line flags that set LoaderOptions: each flag
// once, with its words, for `millrace` and `millrace-train` alike.
//
// What it is not: what to load is said by other flags (client/cli/spec_flags.h,
// trainer/flags.h), and so are the devices of a trainer.
//
// Not thread-safe. The object must not move between Add...() and
// FlagSet::Parse().
//
//   LoaderFlags loader;
//   flags.Group("How to load");
//   loader.AddConnection(flags);
//   loader.AddHedging(flags);
//   MR_RETURN_IF_ERROR(flags.Parse(arguments));
//   MR_RETURN_IF_ERROR(loader.Validate());
//   Open(loader.options);

#ifndef MILLRACE_CLIENT_FLAGS_LOADER_FLAGS_H_
#define MILLRACE_CLIENT_FLAGS_LOADER_FLAGS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/prefetch/loader_options.h"
#include "common/program/flag_set.h"

namespace millrace::flags {

class LoaderFlags {
 public:
  // The defaults of the flags, and after Parse() their values.
  LoaderOptions options;

  // Each adds its flags under the current heading. A program adds the flags
  // that have an effect in it.
  void AddEndpoint(program::FlagSet& flags);                  // --endpoint
  void AddTimeout(program::FlagSet& flags);                   // --timeout
  program::FlagSet::Flag& AddRank(program::FlagSet& flags);   // --rank
  program::FlagSet::Flag& AddWorld(program::FlagSet& flags);  // --world
  void AddWindow(program::FlagSet& flags);                    // --window
  void AddInitialWindow(program::FlagSet& flags);  // --initial_window
  void AddPrefetch(program::FlagSet& flags);       // --window, --data_timeout
  void AddVerification(program::FlagSet& flags);   // --verify_payload
  // --same_host, --timeout, --step_timeout
  void AddConnection(program::FlagSet& flags);
  // --hedge_share, --hedge_floor: for programs that receive more than single
  // batches, because a loader hedges after 32 steps at the earliest.
  void AddHedging(program::FlagSet& flags);

  // InvalidArgument: a mistake of one flag beside another, or of
  // LoaderOptions::Validate(), which needs no --endpoint here.
  absl::Status Validate() const;
  // InvalidArgument: --endpoint is missing.
  absl::Status RequireEndpoint() const;

 private:
  bool hedge_floor_given_ = false;
};

// Values of --same_host: "off", "auto", "require".
SameHost SameHostOf(absl::string_view word);  // any other word: kOff
absl::string_view SameHostWord(SameHost same_host);

}  // namespace millrace::flags

#endif  // MILLRACE_CLIENT_FLAGS_LOADER_FLAGS_H_
