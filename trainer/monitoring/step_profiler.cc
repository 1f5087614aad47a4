#include "trainer/monitoring/step_profiler.h"

#include <sys/stat.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/count_text.h"
#include "common/folder.h"
#include "common/host_name.h"
#include "common/logging.h"
#include "trainer/monitoring/op_table.h"

namespace millrace::monitoring {
namespace {

namespace profiler = ::torch::autograd::profiler;
using ::torch::profiler::impl::ActivityType;
using ::torch::profiler::impl::ProfilerConfig;
using ::torch::profiler::impl::ProfilerState;

std::vector<OpEvent> Events(const profiler::ProfilerResult& result) {
  // Spans that the host names ("forward") appear a second time on the device.
  std::unordered_set<std::string> spans;
  for (const profiler::KinetoEvent& event : result.events()) {
    if (event.deviceType() == c10::DeviceType::CPU &&
        event.scope() == static_cast<uint8_t>(at::RecordScope::USER_SCOPE)) {
      spans.insert(event.name());
    }
  }
  std::vector<OpEvent> events;
  for (const profiler::KinetoEvent& event : result.events()) {
    OpEvent one;
    one.name = event.name();
    one.on_device = event.deviceType() != c10::DeviceType::CPU;
    if (one.on_device && spans.count(one.name) > 0) continue;
    one.start_ns = event.startNs();
    one.duration_ns = event.durationNs();
    one.thread = event.startThreadId();
    // Calls of CUDA's API also carry a number, but of another kind than the
    // operators' numbers.
    one.link = one.on_device                      ? event.linkedCorrelationId()
               : event.linkedCorrelationId() == 0 ? event.correlationId()
                                                  : 0;
    events.push_back(std::move(one));
  }
  return events;
}

// "HOST_rank0.1763790000000.pt.trace.json": TensorBoard's plug-in takes the
// part before the first dot as the worker.
std::string FileName(uint32_t rank) {
  std::string worker = HostName();
  worker = worker.substr(0, worker.find('.'));
  return absl::StrFormat("%s_rank%d.%d.pt.trace.json", worker, rank,
                         absl::ToUnixMillis(absl::Now()));
}

}  // namespace

StepProfiler::~StepProfiler() {
  if (!running_) return;
  try {
    profiler::disableProfiler();
  } catch (const std::exception&) {
    // The profile is discarded.
  }
}

void StepProfiler::BeforeStep(uint64_t step) {
  if (options_.folder.empty() || running_ || done_ || step < options_.first) {
    return;
  }
  if (step > options_.last) return;
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (options_.cuda) activities.insert(ActivityType::CUDA);
  try {
    const ProfilerConfig config(ProfilerState::KINETO,
                                /*report_input_shapes=*/true);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    running_ = true;
  } catch (const std::exception& error) {
    Fail(absl::StrCat("cannot start libtorch's profiler: ", error.what()));
    done_ = true;
  }
}

std::optional<std::string> StepProfiler::AfterStep(uint64_t step) {
  if (!running_ || step < options_.last) return std::nullopt;
  try {
    // Work that is queued on the device belongs to these steps.
    if (options_.cuda) torch::cuda::synchronize();
  } catch (const std::exception& error) {
    MR_LOG(ERROR) << "--profile: the device failed: " << error.what();
  }
  return Stop(step);
}

std::string ProfiledText(uint64_t first, uint64_t last) {
  if (last < first) return absl::StrCat("step ", first, ", which did not end");
  if (last == first) return absl::StrCat("step ", first);
  return absl::StrCat("steps ", first, " to ", last);
}

std::optional<std::string> StepProfiler::AtEnd(uint64_t steps) {
  if (running_) return Stop(steps);
  if (options_.folder.empty() || done_) return std::nullopt;
  return absl::StrCat(
      "--profile recorded nothing: this run had ", CountText(steps, "step"),
      ", and --profile_steps begins with step ", options_.first);
}

std::optional<std::string> StepProfiler::Stop(uint64_t last_step) {
  running_ = false;
  done_ = true;
  const std::string path =
      absl::StrCat(options_.folder, "/", FileName(options_.rank));
  // Not earlier: a run that fails before its first step leaves no folder. Where
  // this fails, the trace is missing below.
  const absl::Status made = MakeFolders(options_.folder);
  try {
    const std::unique_ptr<profiler::ProfilerResult> result =
        profiler::disableProfiler();
    result->save(path);
    // libtorch's writer does not report errors: it renames a whole file, and
    // leaves a temporary one when the disk was full.
    struct stat info;
    const bool whole = stat(path.c_str(), &info) == 0 && info.st_size > 0;
    if (!whole) {
      unlink(absl::StrCat(path, ".tmp").c_str());
      Fail(
          absl::StrCat("the trace could not be written to ", path, ": ",
                       made.ok() ? "free space on that disk" : made.message()));
    }
    return absl::StrCat(
        "profile of ", ProfiledText(options_.first, last_step), ": ",
        whole ? path : "the trace could not be written", "\n",
        FormatOpTable(OpTable(Events(*result)), options_.table_rows));
  } catch (const std::exception& error) {
    Fail(absl::StrCat("the trace could not be written to ", path, ": ",
                      error.what()));
    return std::nullopt;
  }
}

void StepProfiler::Fail(const std::string& what) {
  const absl::Status error =
      absl::UnknownError(absl::StrCat("--profile: ", what));
  MR_LOG(ERROR) << error.message();
  status_.Update(error);
}

}  // namespace millrace::monitoring
