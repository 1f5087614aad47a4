// The functions of millrace.h that concern a loader, and those without an
// object. The others are in options.cc, batch.cc, dlpack.cc and error.cc.

#include "client/c/millrace.h"

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "client/c/error.h"
#include "client/c/loader.h"
#include "client/c/options.h"
#include "client/c/process.h"
#include "common/log_level.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/version.h"

using namespace millrace;     // NOLINT: functions of C have no namespace
using namespace millrace::c;  // NOLINT

struct millrace_loader {
  explicit millrace_loader(LoadRequest request) : loader(std::move(request)) {}

  const HomeProcess home;
  CallGate gate;
  Loader loader;
};

namespace {

// Size of the struct in its first release.
constexpr size_t kPlanBytes = offsetof(millrace_plan, json) + sizeof(char*);

constexpr absl::Duration kExplainTimeout = absl::Seconds(60);

absl::Duration TimeoutOf(int64_t timeout_ms) {
  return timeout_ms < 0 ? absl::InfiniteDuration()
                        : absl::Milliseconds(timeout_ms);
}

// Runs `body` of a loader of this process, while nobody deletes the loader.
template <typename Body>
millrace_status WithLoader(millrace_loader* loader, millrace_error** error,
                           const Body& body) noexcept {
  return Guarded(error, [&]() -> std::invoke_result_t<Body, Loader&> {
    MR_RETURN_IF_ERROR(CheckArgument(loader, "loader"));
    MR_RETURN_IF_ERROR(loader->home.Check("the loader"));
    const CallGate::Call call(loader->gate);
    return body(loader->loader);
  });
}

}  // namespace

extern "C" {

uint32_t millrace_interface_version(void) { return MILLRACE_INTERFACE_VERSION; }

const char* millrace_version(void) { return kMillraceVersion; }

millrace_status millrace_set_log_level(const char* level,
                                       millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(level, "level"));
    MR_ASSIGN_OR_RETURN(const LogSeverity severity, ParseLogLevel(level));
    // Before the level of the caller, which holds.
    UseLogLevelOfEnvironment().IgnoreError();
    SetMinLogSeverity(severity);
    return absl::OkStatus();
  });
}

millrace_status millrace_loader_open(const millrace_options* options,
                                     millrace_loader** loader,
                                     millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(loader, "loader"));
    *loader = nullptr;
    MR_RETURN_IF_ERROR(CheckArgument(options, "options"));
    MR_ASSIGN_OR_RETURN(LoadRequest request, MakeLoadRequest(options->values));
    MR_RETURN_IF_ERROR(CheckMayOpenHere());
    *loader = std::make_unique<millrace_loader>(std::move(request)).release();
    return absl::OkStatus();
  });
}

millrace_status millrace_loader_wait_open(millrace_loader* loader,
                                          int64_t timeout_ms,
                                          millrace_error** error) {
  return WithLoader(loader, error, [&](Loader& self) -> Ready {
    return self.WaitOpen(TimeoutOf(timeout_ms));
  });
}

millrace_status millrace_loader_next(millrace_loader* loader,
                                     int64_t timeout_ms, millrace_batch** batch,
                                     millrace_error** error) {
  if (batch != nullptr) *batch = nullptr;
  return WithLoader(loader, error, [&](Loader& self) -> Ready {
    MR_RETURN_IF_ERROR(CheckArgument(batch, "batch"));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<millrace_batch> next,
                        self.Next(TimeoutOf(timeout_ms)));
    *batch = next.release();
    return *batch != nullptr;
  });
}

millrace_status millrace_loader_position(millrace_loader* loader,
                                         uint64_t* epoch, uint64_t* step,
                                         millrace_error** error) {
  if (epoch != nullptr) *epoch = 0;
  if (step != nullptr) *step = 0;
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(epoch, "epoch"));
    MR_RETURN_IF_ERROR(CheckArgument(step, "step"));
    const Position position = self.position();
    *epoch = position.epoch;
    *step = position.step;
    return absl::OkStatus();
  });
}

millrace_status millrace_loader_seek(millrace_loader* loader, uint64_t epoch,
                                     uint64_t step, millrace_error** error) {
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    return self.Seek({epoch, step});
  });
}

millrace_status millrace_loader_get_plan(millrace_loader* loader,
                                         millrace_plan* plan,
                                         millrace_error** error) {
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(plan, "plan"));
    MR_ASSIGN_OR_RETURN(const millrace_plan known, self.Plan());
    return FillStruct(known, plan, kPlanBytes, "millrace_plan");
  });
}

millrace_status millrace_loader_stats(millrace_loader* loader, char** json,
                                      millrace_error** error) {
  if (json != nullptr) *json = nullptr;
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(json, "json"));
    MR_ASSIGN_OR_RETURN(*json, CopyText(self.Stats()));
    return absl::OkStatus();
  });
}

millrace_status millrace_loader_where_the_time_went(millrace_loader* loader,
                                                    char** text,
                                                    millrace_error** error) {
  if (text != nullptr) *text = nullptr;
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(text, "text"));
    MR_ASSIGN_OR_RETURN(*text, CopyText(self.WhereTheTimeWent()));
    return absl::OkStatus();
  });
}

millrace_status millrace_loader_explain(millrace_loader* loader, uint64_t epoch,
                                        uint64_t step, int64_t timeout_ms,
                                        char** json, millrace_error** error) {
  if (json != nullptr) *json = nullptr;
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(json, "json"));
    MR_ASSIGN_OR_RETURN(
        const std::string text,
        self.Explain({epoch, step},
                     timeout_ms < 0 ? kExplainTimeout : TimeoutOf(timeout_ms)));
    MR_ASSIGN_OR_RETURN(*json, CopyText(text));
    return absl::OkStatus();
  });
}

millrace_status millrace_loader_cancel_explain(millrace_loader* loader,
                                               millrace_error** error) {
  return WithLoader(loader, error, [](Loader& self) -> absl::Status {
    self.CancelExplain();
    return absl::OkStatus();
  });
}

millrace_status millrace_loader_offer(millrace_loader* loader, void* data,
                                      uint64_t bytes, millrace_error** error) {
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    return self.Offer(data, bytes);
  });
}

millrace_status millrace_loader_wanted(millrace_loader* loader,
                                       uint32_t* buffers,
                                       millrace_error** error) {
  if (buffers != nullptr) *buffers = 0;
  return WithLoader(loader, error, [&](Loader& self) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(buffers, "buffers"));
    MR_ASSIGN_OR_RETURN(*buffers, self.Wanted());
    return absl::OkStatus();
  });
}

void millrace_loader_close(millrace_loader* loader) {
  if (loader == nullptr || !loader->home.here()) return;
  const CallGate::Call call(loader->gate);
  loader->loader.Close();
}

void millrace_loader_free(millrace_loader* loader) {
  // In a forked child, the threads to join do not exist.
  if (loader == nullptr || !loader->home.here()) return;
  loader->loader.Close();
  loader->gate.WaitUntilEmpty();
  delete loader;
}

}  // extern "C"
