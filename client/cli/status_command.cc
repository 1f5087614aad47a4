// `millrace status`: what the servers of an endpoint say of themselves.

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/server_agreement.h"
#include "client/cli/server_verdict.h"
#include "client/receive/describe.h"
#include "client/receive/endpoint.h"
#include "common/byte_size.h"
#include "common/json_text.h"
#include "common/program/flag_set.h"
#include "common/program/report.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"

namespace millrace {
namespace {

// Of an id, which is random.
constexpr size_t kClientChars = 16;

std::string Uptime(double seconds) {
  return absl::FormatDuration(
      absl::Trunc(absl::Seconds(seconds), absl::Seconds(1)));
}

// "2 + 32": those that decode and those that read.
std::string Threads(const GetStatusResponse& status) {
  return status.read_threads() == 0
             ? absl::StrCat(status.threads())
             : absl::StrCat(status.threads(), " + ", status.read_threads());
}

// Of the budget: without what is only set aside.
uint64_t InUse(const GetStatusResponse& status) {
  return status.memory_used_bytes() -
         std::min(status.memory_used_bytes(), status.memory_reserved_bytes());
}

// Of the same server, before; nothing when there is none, or when the server
// has started since.
GetStatusResponse Before(const std::vector<ServerStatus>& earlier,
                         const ServerStatus& server) {
  for (const ServerStatus& one : earlier) {
    if (one.address == server.address && one.status.ok() &&
        one.status->uptime_seconds() <= server.status->uptime_seconds()) {
      return *one.status;
    }
  }
  return GetStatusResponse();
}

std::string ServerJson(const ServerStatus& server,
                       const std::vector<ServerStatus>& earlier) {
  Report report;
  report.Add("address", "", absl::string_view(server.address));
  if (!server.status.ok()) {
    report.Add("error", "",
               absl::string_view(server.status.status().message()));
    return report.Json();
  }
  const GetStatusResponse& s = *server.status;
  report.Add("version", "", absl::string_view(s.version()));
  report.Add("protocol_version", "", uint64_t{s.protocol_version()});
  report.Add("content_revision", "", uint64_t{s.content_revision()});
  report.Add("decoder_digest", "", absl::string_view(s.decoder_digest()));
  report.Add("uptime_seconds", "", s.uptime_seconds(), "");
  report.Add("threads", "", uint64_t{s.threads()});
  report.Add("most_threads", "", uint64_t{s.most_threads()});
  report.Add("read_threads", "", uint64_t{s.read_threads()});
  report.Add("most_read_threads", "", uint64_t{s.most_read_threads()});
  report.Add("memory_budget_bytes", "", s.memory_budget_bytes());
  report.Add("memory_used_bytes", "", s.memory_used_bytes());
  report.Add("memory_reserved_bytes", "", s.memory_reserved_bytes());
  report.Add("memory_peak_bytes", "", s.memory_peak_bytes());
  report.Add("memory_resident_bytes", "", s.memory_resident_bytes());
  report.Add("waiting_for_memory", "", s.waiting_for_memory());
  report.Add("active_streams", "", s.active_streams());
  report.Add("blocked_sends", "", s.blocked_sends());
  report.Add("idle_thread_seconds", "", s.idle_thread_seconds(), "");
  report.Add("batches_sent", "", s.batches_sent());
  report.Add("samples_sent", "", s.samples_sent());
  report.Add("bytes_sent", "", s.bytes_sent());
  report.Add("bad_samples", "", s.bad_samples());
  report.Add("cancelled_sends", "", s.cancelled_sends());
  report.Add("refused_admissions", "", s.refused_admissions());
  report.Add("revoked_batches", "", s.revoked_batches());
  report.Add("refused_connections", "", s.refused_connections());
  report.Add("stalled_connections", "", s.stalled_connections());
  report.Add("cached_pipelines", "", s.cached_pipelines());
  report.Add("cached_pipeline_bytes", "", s.cached_pipeline_bytes());
  report.Add("same_host_links", "", s.same_host_links());
  report.Add("same_host_bytes", "", s.same_host_bytes());
  report.Add("same_host_batches_sent", "", s.same_host_batches_sent());
  report.AddJson("shutting_down", s.shutting_down() ? "true" : "false");
  report.Add("verdict", "",
             absl::string_view(ServerVerdict(Before(earlier, server), s)));
  std::vector<std::string> parts;
  for (const StageTime& stage : s.stages()) {
    Report one;
    one.Add("stage", "", absl::string_view(stage.stage()));
    one.Add("seconds", "", stage.seconds(), "");
    one.Add("samples", "", stage.samples());
    parts.push_back(one.Json());
  }
  report.AddJson("stages", absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  parts.clear();
  for (const ThreadChange& change : s.thread_changes()) {
    Report one;
    one.Add("seconds_ago", "", change.seconds_ago(), "");
    one.Add("kind", "", absl::string_view(change.kind()));
    one.Add("before", "", uint64_t{change.before()});
    one.Add("after", "", uint64_t{change.after()});
    one.Add("reason", "", absl::string_view(change.reason()));
    parts.push_back(one.Json());
  }
  report.AddJson("thread_changes",
                 absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  parts.clear();
  for (const ClientShare& client : s.clients()) {
    Report one;
    one.Add("client", "", absl::string_view(client.client()));
    one.Add("peer", "", absl::string_view(client.peer()));
    one.Add("dataset", "", absl::string_view(client.dataset()));
    one.Add("worker_seconds", "", client.worker_seconds(), "");
    one.Add("recent_share", "", client.recent_share(), "");
    one.Add("active_streams", "", client.active_streams());
    parts.push_back(one.Json());
  }
  report.AddJson("clients", absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  parts.clear();
  for (const FullShare& share : s.full_shares()) {
    Report one;
    one.Add("peer", "", absl::string_view(share.peer()));
    one.Add("waiting_clients", "", share.waiting_clients());
    one.Add("connections", "", share.connections());
    one.Add("held_bytes", "", share.held_bytes());
    one.Add("share_bytes", "", share.share_bytes());
    one.Add("advised_budget_bytes", "", share.advised_budget_bytes());
    parts.push_back(one.Json());
  }
  report.AddJson("full_shares",
                 absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  parts.clear();
  for (const DatasetSummary& dataset : s.datasets()) {
    Report one;
    one.Add("name", "", absl::string_view(dataset.name()));
    one.Add("format", "", absl::string_view(dataset.format()));
    one.AddJson("samples", absl::StrCat(dataset.samples()));
    one.Add("fingerprint", "", absl::string_view(dataset.fingerprint()));
    one.Add("fault", "", absl::string_view(dataset.fault()));
    parts.push_back(one.Json());
  }
  report.AddJson("datasets",
                 absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  parts.clear();
  for (const BadSample& bad : s.recent_bad_samples()) {
    Report one;
    one.Add("dataset", "", absl::string_view(bad.dataset()));
    one.Add("shard", "", absl::string_view(bad.shard()));
    one.AddJson("row", absl::StrCat(bad.row()));
    one.AddJson("sample", absl::StrCat(bad.sample()));
    one.Add("stage", "", absl::string_view(bad.stage()));
    one.Add("reason", "", absl::string_view(bad.reason()));
    one.Add("times", "", bad.times());
    parts.push_back(one.Json());
  }
  report.AddJson("recent_bad_samples",
                 absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  parts.clear();
  for (const LoadedOperator& loaded : s.operators()) {
    Report one;
    one.Add("kind", "", absl::string_view(loaded.kind()));
    one.Add("name", "", absl::string_view(loaded.ref().name()));
    one.Add("version", "", absl::string_view(loaded.ref().version()));
    one.Add("library_hash", "", absl::string_view(loaded.ref().library_hash()));
    one.Add("file", "", absl::string_view(loaded.file()));
    parts.push_back(one.Json());
  }
  report.AddJson("operators",
                 absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  return report.Json();
}

// What an interval was worth, or all the time since the start.
std::vector<std::string> Work(const ServerStatus& server,
                              const std::vector<ServerStatus>& earlier) {
  const GetStatusResponse& s = *server.status;
  const GetStatusResponse before = Before(earlier, server);
  const double seconds = s.uptime_seconds() - before.uptime_seconds();
  const auto rate = [seconds](uint64_t now, uint64_t then) {
    return seconds > 0 ? static_cast<double>(now - then) / seconds : 0;
  };
  return {
      server.address,
      absl::StrFormat("%.0f", rate(s.samples_sent(), before.samples_sent())),
      absl::StrCat(FormatByteSize(static_cast<uint64_t>(
                       rate(s.bytes_sent(), before.bytes_sent()))),
                   "/s"),
      absl::StrCat(s.blocked_sends()),
      absl::StrCat(s.waiting_for_memory()),
      absl::StrCat(s.cancelled_sends()),
      absl::StrCat(s.revoked_batches()),
      absl::StrCat(s.refused_connections()),
      absl::StrCat(s.stalled_connections()),
      StageShares(before, s),
      ServerVerdict(before, s)};
}

std::string ServersText(const std::vector<ServerStatus>& servers,
                        const std::vector<ServerStatus>& earlier) {
  std::vector<std::vector<std::string>> work = {
      {"SERVER", "SAMPLES/S", "PAYLOAD", "BLOCKED", "WAIT FOR MEMORY",
       "CANCELLED", "REVOKED", "REFUSED CONNECTIONS", "STALLED CONNECTIONS",
       "STAGES", earlier.empty() ? "SINCE ITS START" : "NOW"}};
  std::vector<std::vector<std::string>> rows = {
      {"SERVER", "STATE", "VERSION", "UP", "THREADS", "MEMORY", "SET ASIDE",
       "PLANS", "RESIDENT", "STREAMS", "BATCHES SENT", "SAMPLES SENT",
       "BYTES SENT", "BAD SAMPLES", "REFUSED"}};
  std::vector<std::vector<std::string>> datasets = {
      {"DATASET", "FORMAT", "SAMPLES", "FINGERPRINT", "SERVER"}};
  std::vector<std::vector<std::string>> bad_samples = {
      {"BAD SAMPLE OF", "SHARD", "ROW", "SAMPLE", "TIMES", "SERVER", "REASON"}};
  std::vector<std::vector<std::string>> changes = {
      {"THREADS THAT", "AGO", "BEFORE", "AFTER", "SERVER", "BECAUSE"}};
  std::vector<std::vector<std::string>> clients = {{"CLIENT", "FROM", "DATASET",
                                                    "WORKER TIME", "SHARE NOW",
                                                    "STREAMS", "SERVER"}};
  std::vector<std::vector<std::string>> shares = {
      {"FULL SHARE OF", "HELD", "CONNECTIONS", "CLIENTS WITHOUT A BATCH",
       "SERVER", "ADVICE"}};
  std::vector<std::vector<std::string>> operators = {
      {"OPERATOR", "KIND", "VERSION", "LIBRARY", "SERVER", "FILE"}};
  for (const ServerStatus& server : servers) {
    if (!server.status.ok()) {
      rows.push_back(
          {server.address, std::string(server.status.status().message())});
      continue;
    }
    const GetStatusResponse& s = *server.status;
    work.push_back(Work(server, earlier));
    rows.push_back(
        {server.address, s.shutting_down() ? "stopping" : "serving",
         s.version(), Uptime(s.uptime_seconds()), Threads(s),
         absl::StrCat(FormatByteSize(InUse(s)), " of ",
                      FormatByteSize(s.memory_budget_bytes())),
         FormatByteSize(s.memory_reserved_bytes()),
         FormatByteSize(s.cached_pipeline_bytes()),
         s.memory_resident_bytes() == 0
             ? "unknown"
             : FormatByteSize(s.memory_resident_bytes()),
         absl::StrCat(s.active_streams()), absl::StrCat(s.batches_sent()),
         absl::StrCat(s.samples_sent()), FormatByteSize(s.bytes_sent()),
         absl::StrCat(s.bad_samples()), absl::StrCat(s.refused_admissions())});
    for (const ThreadChange& change : s.thread_changes()) {
      changes.push_back({change.kind(), Uptime(change.seconds_ago()),
                         absl::StrCat(change.before()),
                         absl::StrCat(change.after()), server.address,
                         change.reason()});
    }
    for (const ClientShare& client : s.clients()) {
      clients.push_back(
          {client.client().substr(0, kClientChars), client.peer(),
           client.dataset(), absl::StrFormat("%.1f s", client.worker_seconds()),
           absl::StrFormat("%.0f %%", 100 * client.recent_share()),
           absl::StrCat(client.active_streams()), server.address});
    }
    for (const FullShare& share : s.full_shares()) {
      shares.push_back({share.peer(),
                        absl::StrCat(FormatByteSize(share.held_bytes()), " of ",
                                     FormatByteSize(share.share_bytes())),
                        absl::StrCat(share.connections()),
                        absl::StrCat(share.waiting_clients()), server.address,
                        RaiseBudget(share)});
    }
    for (const DatasetSummary& dataset : s.datasets()) {
      datasets.push_back({dataset.name(), dataset.format(),
                          absl::StrCat(dataset.samples()),
                          dataset.fingerprint(), server.address});
      if (dataset.fault().empty()) continue;
      datasets.back().push_back(dataset.fault());
      datasets.front().resize(5);
      datasets.front().push_back("NOT SERVED BECAUSE");
    }
    for (const LoadedOperator& loaded : s.operators()) {
      operators.push_back({loaded.ref().name(), loaded.kind(),
                           loaded.ref().version(), loaded.ref().library_hash(),
                           server.address, loaded.file()});
    }
    for (const BadSample& bad : s.recent_bad_samples()) {
      bad_samples.push_back(
          {bad.dataset(), bad.shard(), absl::StrCat(bad.row()),
           absl::StrCat(bad.sample()), absl::StrCat(bad.times()),
           server.address, bad.reason()});
    }
  }
  std::string text = Table(rows);
  if (work.size() > 1) absl::StrAppend(&text, "\n", Table(work));
  if (changes.size() > 1) absl::StrAppend(&text, "\n", Table(changes));
  if (clients.size() > 1) absl::StrAppend(&text, "\n", Table(clients));
  if (shares.size() > 1) absl::StrAppend(&text, "\n", Table(shares));
  if (datasets.size() > 1) absl::StrAppend(&text, "\n", Table(datasets));
  if (operators.size() > 1) absl::StrAppend(&text, "\n", Table(operators));
  if (bad_samples.size() > 1) {
    absl::StrAppend(&text, "\n", Table(bad_samples));
  }
  return text;
}

}  // namespace

absl::Status RunStatus(absl::Span<const std::string> arguments) {
  std::string endpoint;
  bool json = false;
  absl::Duration timeout = absl::Seconds(5);
  absl::Duration interval;
  FlagSet flags(
      {.command = "millrace status",
       .summary = "Prints the state of the data servers. Fails when one does "
                  "not answer, or when they hold different data under one "
                  "name.",
       .examples = {"millrace status --endpoint=data-1:7001,data-2:7001"}});
  flags.Add("endpoint", &endpoint, "HOST:PORT[,...]",
            "Data servers; one DNS name may stand for several");
  flags.Add("json", &json, "", "Print one JSON object");
  flags.Add("timeout", &timeout, "TIME",
            "Time after which an endpoint that does not answer is given up");
  flags
      .Add("interval", &interval, "TIME",
           "Ask twice, with this time in between: rates and verdict are of "
           "that time")
      .Default("ask once: they are of the time since the server's start");
  MR_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  if (endpoint.empty()) {
    return UsageError(
        absl::InvalidArgumentError("flag --endpoint=HOST:PORT is missing"));
  }
  MR_RETURN_IF_ERROR(UsageError(ParseEndpoint(endpoint).status()));
  std::vector<ServerStatus> earlier;
  if (interval > absl::ZeroDuration()) {
    MR_ASSIGN_OR_RETURN(earlier, GetServerStatus(endpoint, timeout));
    absl::SleepFor(interval);
  }
  MR_ASSIGN_OR_RETURN(const std::vector<ServerStatus> servers,
                      GetServerStatus(endpoint, timeout));
  const std::vector<std::string> disagreements = Disagreements(servers);
  std::string silent;
  size_t answered = 0;
  size_t refused = 0;  // that answered with an error
  std::vector<std::string> parts;
  for (const ServerStatus& server : servers) {
    parts.push_back(ServerJson(server, earlier));
    if (server.status.ok()) {
      ++answered;
      continue;
    }
    const absl::Status& error = server.status.status();
    if (HasErrorDetail(error) ||
        (!absl::IsUnavailable(error) && !absl::IsDeadlineExceeded(error))) {
      ++refused;
    }
    absl::StrAppend(&silent, silent.empty() ? "" : "; ", server.address, ": ",
                    error.message());
  }
  if (json) {
    std::vector<std::string> quoted;
    for (const std::string& one : disagreements) {
      quoted.push_back(JsonText(one));
    }
    std::printf(
        "{\"endpoint\": %s, \"servers\": [%s], \"disagreements\": [%s]}\n",
        JsonText(endpoint).c_str(), absl::StrJoin(parts, ", ").c_str(),
        absl::StrJoin(quoted, ", ").c_str());
  } else if (answered > 0) {
    std::fputs(ServersText(servers, earlier).c_str(), stdout);
  }
  if (silent.empty()) {
    std::vector<std::string> wrong = disagreements;
    for (const ServerStatus& server : servers) {
      for (const DatasetSummary& dataset : server.status->datasets()) {
        if (dataset.fault().empty()) continue;
        wrong.push_back(absl::StrCat("server ", server.address,
                                     " does not serve dataset ", dataset.name(),
                                     " any more: ", dataset.fault()));
      }
    }
    if (wrong.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrJoin(wrong, "; "));
  }
  std::string wrong = absl::StrJoin(disagreements, "; ");
  if (!wrong.empty()) wrong += "; ";
  if (answered + refused == servers.size()) {
    return absl::UnavailableError(
        absl::StrCat(wrong, "a data server answers with an error at endpoint ",
                     endpoint, " (", silent, ")"));
  }
  return absl::UnavailableError(absl::StrCat(
      wrong,
      answered + refused == 0 ? "no data server answers"
                              : "not every data server answers",
      " at endpoint ", endpoint, " (", silent,
      "); check that millrace-server runs there and that its port can be "
      "reached"));
}

}  // namespace millrace
