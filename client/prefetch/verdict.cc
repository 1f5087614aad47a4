#include "client/prefetch/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace millrace {
namespace {

// Shares; verdict.h says what they mean.
constexpr double kLinkBusy = 0.7;
constexpr double kLinkFull = 0.8;
constexpr double kThreadsBusy = 0.25;  // idle less than that
constexpr double kThreadsIdle = 0.5;   // idle more than that
constexpr double kMemoryWaits = 0.5;   // of the time to make a batch
constexpr double kNothingQueues = 0.25;
// A link that is busy holds batches up that stand ready for this part of the
// time that it takes to make them.
constexpr double kStandsBeside = 0.5;
constexpr double kMostOfWork = 0.6;
constexpr double kNamedCause = 0.6;
// Fewer say nothing.
constexpr uint64_t kFewBatches = 4;
// More are counted, not named.
constexpr size_t kNamedServers = 2;

WaitCause WorkCause(const ServerTimes& s) {
  const double work = s.read_seconds + s.decode_seconds + s.augment_seconds;
  if (work <= 0) return WaitCause::kUnclear;
  // Reading may be done ahead by threads of its own: much of it is no sign that
  // it holds busy threads up.
  if (s.decode_seconds >= kMostOfWork * work) return WaitCause::kDecoding;
  if (s.augment_seconds >= kMostOfWork * work) return WaitCause::kAugmenting;
  return WaitCause::kWork;
}

// What is slow between the server's batch and this client's slot.
WaitCause WayCause(const ServerTimes& s) {
  return 2 * s.shared_batches > s.batches ? WaitCause::kSharedMemory
                                          : WaitCause::kLink;
}

struct Group {
  double waited = 0;
  std::vector<std::string> addresses;
};

// "2 of 6 servers (data-1:7001, data-2:7001)", "the server".
std::string On(const Group& group, size_t servers) {
  if (servers == 1) return "the server";
  const size_t here = group.addresses.size();
  return absl::StrCat(
      here, " of ", servers, " servers",
      here <= kNamedServers && here < servers
          ? absl::StrCat(" (", absl::StrJoin(group.addresses, ", "), ")")
          : "");
}

std::string LinkText(const Group& group, size_t servers) {
  if (group.addresses.size() <= kNamedServers) {
    return absl::StrCat("the link to ", absl::StrJoin(group.addresses, " and "),
                        servers == group.addresses.size()
                            ? ", or this client's receiving"
                            : "");
  }
  if (group.addresses.size() == servers) {
    return absl::StrCat("the links to all ", servers,
                        " servers: this client's own link or its receiving");
  }
  return absl::StrCat("the links to ", group.addresses.size(), " of ", servers,
                      " servers");
}

// What it is, then what to do.
std::string CauseText(WaitCause cause, const Group& group, size_t servers) {
  switch (cause) {
    case WaitCause::kLink:
      return LinkText(group, servers);
    case WaitCause::kSharedMemory:
      return absl::StrCat("batches lie ready in shared memory of ",
                          On(group, servers),
                          ", and this client takes them out too slowly");
    case WaitCause::kReading:
      return absl::StrCat(
          "reading on ", On(group, servers),
          "; faster storage, more servers, or more read threads: "
          "millrace-server without --read_threads adapts "
          "their number");
    case WaitCause::kDecoding:
      return absl::StrCat("decoding on ", On(group, servers),
                          "; add servers or cores");
    case WaitCause::kAugmenting:
      return absl::StrCat("augmenting on ", On(group, servers),
                          "; add servers or cores");
    case WaitCause::kWork:
      return absl::StrCat("making batches on ", On(group, servers),
                          "; add servers or cores");
    case WaitCause::kMemory:
      return absl::StrCat("memory at ", On(group, servers),
                          "; raise --memory_budget");
    case WaitCause::kWindow:
      return absl::StrCat("too few batches requested at once from ",
                          On(group, servers),
                          "; raise --window, or leave the flag out: then it "
                          "adapts");
    case WaitCause::kNoAnswer:
      return absl::StrCat("no server answered (",
                          absl::StrJoin(group.addresses, "; "),
                          "); see that the servers run and can be reached");
    default:
      return "not clear";
  }
}

bool SendsTimes(const ServerTimes& server) {
  return server.timed_batches >= kFewBatches && server.make_seconds > 0;
}

}  // namespace

const char* NameOf(WaitCause cause) {
  switch (cause) {
    case WaitCause::kConsumer:
      return "consumer";
    case WaitCause::kLink:
      return "link";
    case WaitCause::kSharedMemory:
      return "shared_memory";
    case WaitCause::kReading:
      return "reading";
    case WaitCause::kDecoding:
      return "decoding";
    case WaitCause::kAugmenting:
      return "augmenting";
    case WaitCause::kWork:
      return "work";
    case WaitCause::kMemory:
      return "memory";
    case WaitCause::kWindow:
      return "window";
    case WaitCause::kNoAnswer:
      return "no_answer";
    case WaitCause::kPreparing:
      return "preparing";
    case WaitCause::kUnclear:
      break;
  }
  return "unclear";
}

WaitCause CauseAt(const ServerTimes& s, double elapsed_seconds) {
  if (s.batches < kFewBatches || elapsed_seconds <= 0) {
    return WaitCause::kUnclear;
  }
  const bool link_busy = s.receive_seconds >= kLinkBusy * elapsed_seconds;
  // Times of a few batches do not stand for the others.
  if (!SendsTimes(s) || 2 * s.timed_batches < s.batches) {
    return link_busy ? WayCause(s) : WaitCause::kUnclear;
  }
  const double idle = s.idle_seconds / s.make_seconds;
  const bool threads_busy = idle < kThreadsBusy;
  const bool stands_ready =
      s.send_seconds >=
      std::max({s.make_seconds, s.wait_thread_seconds, s.wait_memory_seconds});
  // Threads are counted while batches are made. Behind a thin link that is a
  // small part of the time, and they are busy in it. A batch is sent when it is
  // whole: where sending takes all of the time, making takes no more than that.
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
  const double work = s.read_seconds + s.decode_seconds + s.augment_seconds;
  if (s.wait_memory_seconds >= kMemoryWaits * s.make_seconds) {
    return WaitCause::kMemory;
  }
  if (work > 0 && s.read_seconds >= kMostOfWork * work) {
    return WaitCause::kReading;
  }
  const double queued =
      s.wait_memory_seconds + s.wait_thread_seconds + s.send_seconds;
  if (queued <= kNothingQueues * s.make_seconds) return WaitCause::kWindow;
  return WaitCause::kUnclear;
}

Verdict Judge(const WaitReport& report) {
  Verdict verdict;
  if (report.elapsed_seconds <= 0) {
    verdict.text = "not clear: nothing was measured";
    return verdict;
  }
  const double share =
      std::clamp(report.wait_seconds / report.elapsed_seconds, 0.0, 1.0);
  verdict.wait_share = share;
  const std::string waited = absl::StrFormat("waited %.0f %%: ", 100 * share);
  if (share < kHardlyWaits) {
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
  bool silent = false;  // a server that was waited for sends no times
  for (const ServerTimes& server : report.servers) {
    if (server.waited_seconds <= 0) continue;
    const WaitCause cause = CauseAt(server, report.elapsed_seconds);
    Group& group = groups[cause];
    group.waited += server.waited_seconds;
    group.addresses.push_back(server.address);
    all += server.waited_seconds;
    silent = silent || (cause == WaitCause::kUnclear && !SendsTimes(server));
  }
  if (report.no_answer_seconds > 0) {
    groups[WaitCause::kNoAnswer] = {report.no_answer_seconds,
                                    {report.no_answer}};
    all += report.no_answer_seconds;
  }
  const auto most = std::max_element(groups.begin(), groups.end(),
                                     [](const auto& a, const auto& b) {
                                       return a.second.waited < b.second.waited;
                                     });
  const size_t servers = report.servers.size();
  if (most != groups.end() && most->first != WaitCause::kUnclear &&
      most->second.waited >= kNamedCause * all) {
    verdict.cause = most->first;
    verdict.text =
        absl::StrCat(waited, CauseText(most->first, most->second, servers));
    return verdict;
  }

  std::vector<std::string> parts;
  for (const auto& [cause, group] : groups) {
    if (cause == WaitCause::kUnclear) continue;
    parts.push_back(absl::StrFormat("%.0f %% of it %s",
                                    100 * group.waited / all,
                                    CauseText(cause, group, servers)));
  }
  verdict.text = absl::StrCat(waited, "not clear");
  if (!parts.empty()) {
    absl::StrAppend(&verdict.text, ": ", absl::StrJoin(parts, "; "));
  } else if (report.retried_steps > 0) {
    absl::StrAppend(&verdict.text, ": ", report.retried_steps,
                    " steps had to be requested again, the log says why");
  } else if (silent) {
    absl::StrAppend(&verdict.text,
                    ": the servers do not say where batches spent their time, "
                    "or there were too few batches");
  }
  return verdict;
}

}  // namespace millrace
