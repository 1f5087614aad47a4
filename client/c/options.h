// OptionValues are the options of millrace.h by name, and what a loader is
// opened with. Each option is in one table (options.cc);
// LoaderOptions::Validate() and the servers check what the values mean.
//
// Plain data, one thread at a time.
//
//   OptionValues values;
//   MR_RETURN_IF_ERROR(values.Set("batch_size", "256"));
//   MR_ASSIGN_OR_RETURN(LoadRequest request, MakeLoadRequest(values));

#ifndef MILLRACE_CLIENT_C_OPTIONS_H_
#define MILLRACE_CLIENT_C_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/c/millrace.h"
#include "client/prefetch/host_loader.h"
#include "proto/spec_choices.h"

namespace millrace::c {

struct OptionValues {
  LoaderOptions loader;  // without the spec
  SpecChoices choices;   // names no file
  std::string pipeline;  // text
  std::string pipeline_name = "pipeline";
  std::string memory = "own";
  bool read_only = false;

  // InvalidArgument: there is no option `name`, or `value` is none of its
  // values. Nothing has changed then.
  absl::Status Set(absl::string_view name, absl::string_view value);
};

// What a loader is opened with.
struct LoadRequest {
  HostLoaderOptions options;
  // Not empty: the spec needs the preset for training that this dataset has.
  std::string preset_of;
};

// InvalidArgument: an option is missing, or cannot be used together with
// another one.
absl::StatusOr<LoadRequest> MakeLoadRequest(const OptionValues& values);

}  // namespace millrace::c

struct millrace_options {
  millrace::c::OptionValues values;
};

#endif  // MILLRACE_CLIENT_C_OPTIONS_H_
