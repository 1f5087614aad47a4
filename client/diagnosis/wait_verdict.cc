#include "client/diagnosis/wait_verdict.h"

#include <cmath>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/count_text.h"

namespace millrace::diagnosis {
namespace {

// In the order of WaitCause.
constexpr absl::string_view kNames[] = {
    "consumer", "link",       "shared_memory", "reading",
    "decoding", "augmenting", "work",          "memory",
    "window",   "no_answer",  "preparing",     "unclear"};
static_assert(std::size(kNames) ==
              static_cast<size_t>(WaitCause::kUnclear) + 1);

// Shares; wait_verdict.h says what they mean.
constexpr double kLinkBusy = 0.7;
constexpr double kLinkFull = 0.8;
constexpr double kThreadsBusy = 0.25;  // idle for less
constexpr double kThreadsIdle = 0.5;   // idle for more
constexpr double kMemoryWaits = 0.5;   // of the time to make a batch
constexpr double kNothingQueues = 0.25;
// A busy link delays batches that stand ready for this part of the time that it
// takes to make them.
constexpr double kStandsBeside = 0.5;
constexpr double kDominantShareOfWork = 0.6;
constexpr double kNamedCause = 0.6;
// Fewer batches show nothing.
constexpr uint64_t kMinBatches = 4;
// More servers are counted, not named.
constexpr size_t kMaxNamedServers = 2;

double WorkSeconds(const ServerTimes& s) {
  return s.read_seconds + s.decode_seconds + s.augment_seconds;
}

WaitCause WorkCause(const ServerTimes& s) {
  const double work = WorkSeconds(s);
  if (work <= 0) return WaitCause::kUnclear;
  // Threads of their own may read ahead: much reading is no sign that it keeps
  // the worker threads busy.
  if (s.decode_seconds >= kDominantShareOfWork * work)
    return WaitCause::kDecoding;
  if (s.augment_seconds >= kDominantShareOfWork * work)
    return WaitCause::kAugmenting;
  return WaitCause::kWork;
}

// The slow part between the server's batch and this client's slot.
WaitCause WayCause(const ServerTimes& s) {
  return 2 * s.shared_batches > s.batches ? WaitCause::kSharedMemory
                                          : WaitCause::kLink;
}

// The servers of one cause.
struct Group {
  double waited = 0;
  double read = 0;  // of `work`
  double work = 0;
  std::vector<std::string> addresses;
};

// "2 of 6 servers (data-1:7001, data-2:7001)", "the server".
std::string On(const Group& group, size_t servers) {
  if (servers == 1) return "the server";
  const size_t here = group.addresses.size();
  return absl::StrCat(
      here, " of ", servers, " servers",
      here <= kMaxNamedServers && here < servers
          ? absl::StrCat(" (", absl::StrJoin(group.addresses, ", "), ")")
          : "");
}

std::string LinkText(const Group& group, size_t servers) {
  if (group.addresses.size() <= kMaxNamedServers) {
    return absl::StrCat("the link to ", absl::StrJoin(group.addresses, " and "),
                        servers == group.addresses.size()
                            ? ", or receiving on this client"
                            : "");
  }
  if (group.addresses.size() == servers) {
    return absl::StrCat("the links to all ", servers,
                        " servers: this client's own link, or receiving on "
                        "this client");
  }
  return absl::StrCat("the links to ", group.addresses.size(), " of ", servers,
                      " servers");
}

// The cause, then what to do.
std::string CauseText(WaitCause cause, const Group& group, size_t servers,
                      bool less_than_an_epoch) {
  const std::string on = On(group, servers);
  const std::string cold =
      less_than_an_epoch
          ? "; less than an epoch was received, so the servers may have read "
            "these data for the first time: measure again, or with --epochs=2"
          : "";
  switch (cause) {
    case WaitCause::kLink:
      return LinkText(group, servers);
    case WaitCause::kSharedMemory:
      return absl::StrCat("batches are ready in shared memory of ", on,
                          ", and this client copies them out too slowly");
    case WaitCause::kReading:
      return absl::StrCat(
          "reading on ", on,
          "; use faster storage, more servers or more read threads "
          "(millrace-server without --read_threads adjusts their number)",
          cold);
    case WaitCause::kDecoding:
      return absl::StrCat("decoding on ", on, "; add servers or cores");
    case WaitCause::kAugmenting:
      return absl::StrCat("augmenting on ", on, "; add servers or cores");
    case WaitCause::kWork:
      // Without its share, a first run over Parquet would not show that the
      // servers read.
      if (group.read >= kDominantShareOfWork * group.work) {
        return absl::StrFormat(
            "reading, %.0f %% of the work of the servers' threads, which are "
            "never idle (reading includes unpacking Parquet row groups); add "
            "servers or cores%s",
            100 * group.read / group.work, cold);
      }
      return absl::StrCat("reading, decoding and augmenting together on ", on,
                          "; add servers or cores");
    case WaitCause::kMemory:
      return absl::StrCat("too little memory for batches on ", on,
                          "; raise --memory_budget");
    case WaitCause::kWindow:
      return absl::StrCat("too few batches in flight from ", on,
                          "; raise --window, or omit the flag to adjust the "
                          "window automatically");
    case WaitCause::kNoAnswer:
      return absl::StrCat("no server answered (",
                          absl::StrJoin(group.addresses, "; "),
                          "); check that the servers run and can be reached");
    default:
      return "not clear";
  }
}

bool SendsTimes(const ServerTimes& server) {
  return server.timed_batches >= kMinBatches && server.make_seconds > 0;
}

}  // namespace

absl::string_view NameOf(WaitCause cause) {
  return kNames[static_cast<size_t>(cause)];
}

WaitCause WaitCauseOf(absl::string_view name) {
  const auto* const found =
      std::find(std::begin(kNames), std::end(kNames) - 1, name);
  return static_cast<WaitCause>(found - std::begin(kNames));
}

WaitCause CauseAt(const ServerTimes& s, double elapsed_seconds) {
  if (s.batches < kMinBatches || elapsed_seconds <= 0) {
    return WaitCause::kUnclear;
  }
  const bool link_busy = s.receive_seconds >= kLinkBusy * elapsed_seconds;
  // Times of a few batches do not represent the others.
  if (!SendsTimes(s) || 2 * s.timed_batches < s.batches) {
    return link_busy ? WayCause(s) : WaitCause::kUnclear;
  }
  const double idle = s.idle_seconds / s.make_seconds;
  const bool threads_busy = idle < kThreadsBusy;
  const bool stands_ready =
      s.send_seconds >=
      std::max({s.make_seconds, s.wait_thread_seconds, s.wait_memory_seconds});
  // Threads are counted while batches are made. Behind a slow link that is a
  // small part of the time, and the threads are busy in it. A batch is sent
  // when it is whole: where sending takes all of the time, making takes no
  // more.
  if (stands_ready || s.receive_seconds >= kLinkFull * elapsed_seconds) {
    return WayCause(s);
  }
  if (link_busy) {
    return threads_busy && s.send_seconds < kStandsBeside * s.make_seconds
               ? WaitCause::kUnclear
               : WayCause(s);
  }
  if (threads_busy) return WorkCause(s);
  if (idle < kThreadsIdle) return WaitCause::kUnclear;
  const double work = WorkSeconds(s);
  if (s.wait_memory_seconds >= kMemoryWaits * s.make_seconds) {
    return WaitCause::kMemory;
  }
  if (work > 0 && s.read_seconds >= kDominantShareOfWork * work) {
    return WaitCause::kReading;
  }
  const double queued =
      s.wait_memory_seconds + s.wait_thread_seconds + s.send_seconds;
  if (queued <= kNothingQueues * s.make_seconds) return WaitCause::kWindow;
  return WaitCause::kUnclear;
}

WaitVerdict JudgeWait(const WaitReport& report) {
  WaitVerdict verdict;
  if (report.elapsed_seconds <= 0) {
    verdict.text = "not clear: nothing was measured";
    return verdict;
  }
  const double share =
      std::clamp(report.wait_seconds / report.elapsed_seconds, 0.0, 1.0);
  verdict.wait_share = share;
  const std::string waited = absl::StrFormat("waited %.0f %%: ", 100 * share);
  if (share < kMinWaitShare) {
    verdict.cause = WaitCause::kConsumer;
    verdict.text = absl::StrCat(waited, report.consumer, " is the bottleneck");
    return verdict;
  }
  if (report.prepare_seconds > report.host_wait_seconds &&
      report.prepare_seconds >= kNamedCause * report.wait_seconds) {
    verdict.cause = WaitCause::kPreparing;
    verdict.text = absl::StrCat(
        waited,
        "copying and transforming batches on this machine, not the servers");
    return verdict;
  }

  std::map<WaitCause, Group> groups;
  double all = 0;
  // Servers that the consumer waited for: without times, and with too few
  // batches to judge by.
  size_t without_times = 0;
  bool few = false;
  for (const ServerTimes& server : report.servers) {
    if (server.waited_seconds <= 0) continue;
    const WaitCause cause = CauseAt(server, report.elapsed_seconds);
    Group& group = groups[cause];
    group.waited += server.waited_seconds;
    group.read += server.read_seconds;
    group.work += WorkSeconds(server);
    group.addresses.push_back(server.address);
    all += server.waited_seconds;
    if (cause == WaitCause::kUnclear && !SendsTimes(server)) {
      const bool enough = server.batches >= kMinBatches;
      if (enough && (server.timed_batches == 0 || server.make_seconds <= 0)) {
        ++without_times;
      } else {
        few = true;
      }
    }
  }
  if (report.no_answer_seconds > 0) {
    Group& group = groups[WaitCause::kNoAnswer];
    group.waited = report.no_answer_seconds;
    group.addresses = {report.no_answer};
    all += report.no_answer_seconds;
  }
  const auto text = [&](const auto& group) {
    return CauseText(group.first, group.second, report.servers.size(),
                     report.less_than_an_epoch);
  };
  const auto longest = std::max_element(
      groups.begin(), groups.end(), [](const auto& a, const auto& b) {
        return a.second.waited < b.second.waited;
      });
  if (longest != groups.end() && longest->first != WaitCause::kUnclear &&
      longest->second.waited >= kNamedCause * all) {
    verdict.cause = longest->first;
    verdict.text = absl::StrCat(waited, text(*longest));
    return verdict;
  }

  std::vector<std::string> parts;
  for (const auto& group : groups) {
    if (group.first == WaitCause::kUnclear) continue;
    parts.push_back(absl::StrFormat("%.0f %% of the wait: %s",
                                    100 * group.second.waited / all,
                                    text(group)));
  }
  verdict.text = absl::StrCat(waited, "not clear");
  if (!parts.empty()) {
    absl::StrAppend(&verdict.text, ": ", absl::StrJoin(parts, "; "));
  } else if (report.retried_steps > 0) {
    absl::StrAppend(&verdict.text, ": ",
                    CountText(report.retried_steps, "step was", "steps were"),
                    " requested again; see the log for the reason");
  } else if (without_times > 0) {
    absl::StrAppend(&verdict.text, ": ",
                    without_times == report.servers.size()
                        ? "the servers"
                        : "some of the servers",
                    " sent no times of their stages");
  } else if (few) {
    absl::StrAppend(&verdict.text,
                    ": too few batches with times of their stages were "
                    "received to name a cause");
  }
  return verdict;
}

}  // namespace millrace::diagnosis
