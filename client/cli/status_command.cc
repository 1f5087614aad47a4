// `millrace status`: the state and the load of the servers of an endpoint.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/message_json.h"
#include "client/cli/server_agreement.h"
#include "client/diagnosis/server_verdict.h"
#include "client/flags/loader_flags.h"
#include "client/receive/endpoint.h"
#include "client/receive/server_queries.h"
#include "common/byte_size.h"
#include "common/json_text.h"
#include "common/program/flag_set.h"
#include "common/program/report.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"

namespace millrace::cli {
namespace {

// Of an id, which is random: enough to tell clients apart.
constexpr size_t kClientChars = 16;
// More than an IPv6 address with a port has.
constexpr size_t kAddressChars = 64;

// The server names a client without an id by its address and port. The port, at
// the end, tells such clients apart.
std::string ClientText(absl::string_view client) {
  if (absl::ConsumePrefix(&client, "ipv4:") ||
      absl::ConsumePrefix(&client, "ipv6:")) {
    return std::string(client.substr(0, kAddressChars));
  }
  return std::string(client.substr(0, kClientChars));
}

std::string Uptime(double seconds) {
  return absl::FormatDuration(
      absl::Trunc(absl::Seconds(seconds), absl::Seconds(1)));
}

// "2 + 32": decoding threads and reading threads.
std::string Threads(const GetStatusResponse& status) {
  return status.read_threads() == 0
             ? absl::StrCat(status.threads())
             : absl::StrCat(status.threads(), " + ", status.read_threads());
}

// Memory of the budget in use, without the reserved part.
uint64_t InUse(const GetStatusResponse& status) {
  return status.memory_used_bytes() -
         std::min(status.memory_used_bytes(), status.memory_reserved_bytes());
}

// The earlier status of the same server; empty without one, or when the server
// restarted since.
GetStatusResponse Before(const std::vector<receive::ServerStatus>& earlier,
                         const receive::ServerStatus& server) {
  for (const receive::ServerStatus& one : earlier) {
    if (one.address == server.address && one.status.ok() &&
        one.status->uptime_seconds() <= server.status->uptime_seconds()) {
      return *one.status;
    }
  }
  return GetStatusResponse();
}

std::string ServerJson(const receive::ServerStatus& server,
                       const std::vector<receive::ServerStatus>& earlier) {
  JsonObject json;
  json.Add("address", server.address);
  if (!server.status.ok()) {
    return json.Add("error", server.status.status().message()).Json();
  }
  AddFields(*server.status, &json);
  const std::string verdict =
      diagnosis::ServerVerdict(Before(earlier, server), *server.status);
  return json.Add("verdict", verdict).Json();
}

// The row of the work in between, or since the start of the server.
std::vector<std::string> Work(
    const receive::ServerStatus& server,
    const std::vector<receive::ServerStatus>& earlier) {
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
      diagnosis::StageShares(before, s),
      diagnosis::ServerVerdict(before, s)};
}

std::string ServersText(const std::vector<receive::ServerStatus>& servers,
                        const std::vector<receive::ServerStatus>& earlier) {
  std::vector<std::vector<std::string>> work = {
      {"SERVER", "SAMPLES/S", "PAYLOAD", "BLOCKED", "WAIT FOR MEMORY",
       "CANCELLED", "REVOKED", "REFUSED CONNECTIONS", "STALLED CONNECTIONS",
       "STAGES", earlier.empty() ? "BOTTLENECK SINCE START" : "VERDICT"}};
  std::vector<std::vector<std::string>> rows = {
      {"SERVER", "STATE", "VERSION", "UP", "THREADS", "MEMORY", "RESERVED",
       "PLANS", "RESIDENT", "STREAMS", "BATCHES SENT", "SAMPLES SENT",
       "BYTES SENT", "BAD SAMPLES", "REFUSED"}};
  std::vector<std::vector<std::string>> datasets = {
      {"DATASET", "FORMAT", "SAMPLES", "FINGERPRINT", "SERVER"}};
  std::vector<std::vector<std::string>> bad_samples = {
      {"BAD SAMPLE OF", "SHARD", "ROW", "SAMPLE", "TIMES", "SERVER", "REASON"}};
  std::vector<std::vector<std::string>> changes = {
      {"THREADS FOR", "AGO", "BEFORE", "AFTER", "SERVER", "REASON"}};
  std::vector<std::vector<std::string>> clients = {
      {"CLIENT", "ADDRESS", "DATASET", "WORKER TIME", "CURRENT SHARE",
       "STREAMS", "SERVER"}};
  std::vector<std::vector<std::string>> shares = {
      {"FULL SHARE OF", "HELD", "CONNECTIONS", "WAITING CLIENTS", "SERVER",
       "ADVICE"}};
  std::vector<std::vector<std::string>> operators = {
      {"OPERATOR", "KIND", "VERSION", "LIBRARY", "SERVER", "FILE"}};
  for (const receive::ServerStatus& server : servers) {
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
          {ClientText(client.client()), client.peer(), client.dataset(),
           absl::StrFormat("%.1f s", client.worker_seconds()),
           absl::StrFormat("%.0f %%", 100 * client.recent_share()),
           absl::StrCat(client.active_streams()), server.address});
    }
    for (const FullShare& share : s.full_shares()) {
      shares.push_back({share.peer(),
                        absl::StrCat(FormatByteSize(share.held_bytes()), " of ",
                                     FormatByteSize(share.share_bytes())),
                        absl::StrCat(share.connections()),
                        absl::StrCat(share.waiting_clients()), server.address,
                        diagnosis::RaiseBudget(share)});
    }
    for (const DatasetSummary& dataset : s.datasets()) {
      datasets.push_back({dataset.name(), dataset.format(),
                          absl::StrCat(dataset.samples()),
                          dataset.fingerprint(), server.address});
      if (dataset.fault().empty()) continue;
      datasets.back().push_back(dataset.fault());
      datasets.front().resize(5);
      datasets.front().push_back("REASON NOT SERVED");
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
  std::string text = program::Table(rows);
  if (work.size() > 1) absl::StrAppend(&text, "\n", program::Table(work));
  if (changes.size() > 1) absl::StrAppend(&text, "\n", program::Table(changes));
  if (clients.size() > 1) absl::StrAppend(&text, "\n", program::Table(clients));
  if (shares.size() > 1) absl::StrAppend(&text, "\n", program::Table(shares));
  if (datasets.size() > 1)
    absl::StrAppend(&text, "\n", program::Table(datasets));
  if (operators.size() > 1)
    absl::StrAppend(&text, "\n", program::Table(operators));
  if (bad_samples.size() > 1) {
    absl::StrAppend(&text, "\n", program::Table(bad_samples));
  }
  return text;
}

}  // namespace

absl::Status RunStatus(absl::Span<const std::string> arguments) {
  flags::LoaderFlags loader;
  bool json = false;
  absl::Duration interval;
  program::FlagSet flags(
      {.command = "millrace status",
       .summary = "Prints the state and the load of data servers. Fails when "
                  "a server does not answer, and when servers hold different "
                  "data under one name.",
       .examples = {"millrace status --endpoint=data-1:7001,data-2:7001"}});
  loader.AddEndpoint(flags);
  flags.Add("json", &json, "", "Print one JSON object");
  loader.AddTimeout(flags);
  flags
      .Add("interval", &interval, "TIME",
           "Query the servers twice, this time apart: rates and verdict cover "
           "the time in between")
      .Default(
          "query once; rates and verdict then cover the time since the start "
          "of the server");
  MR_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(UsageError(loader.RequireEndpoint()));
  const std::string& endpoint = loader.options.endpoint;
  const absl::Duration timeout = loader.options.open_timeout;
  MR_RETURN_IF_ERROR(UsageError(receive::ParseEndpoint(endpoint).status()));
  std::vector<receive::ServerStatus> earlier;
  if (interval > absl::ZeroDuration()) {
    MR_ASSIGN_OR_RETURN(earlier, receive::GetServerStatus(endpoint, timeout));
    absl::SleepFor(interval);
  }
  MR_ASSIGN_OR_RETURN(const std::vector<receive::ServerStatus> servers,
                      receive::GetServerStatus(endpoint, timeout));
  const std::vector<std::string> disagreements = Disagreements(servers);
  std::string silent;
  size_t answered = 0;
  size_t refused = 0;  // answered with an error
  for (const receive::ServerStatus& server : servers) {
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
    JsonObject object;
    object.Add("endpoint", endpoint);
    object.AddJson("servers",
                   JsonList(servers, [&](const receive::ServerStatus& server) {
                     return ServerJson(server, earlier);
                   }));
    object.Add("disagreements", disagreements);
    std::printf("%s\n", object.Json().c_str());
  } else if (answered > 0) {
    std::fputs(ServersText(servers, earlier).c_str(), stdout);
  }
  if (silent.empty()) {
    std::vector<std::string> wrong = disagreements;
    for (const receive::ServerStatus& server : servers) {
      for (const DatasetSummary& dataset : server.status->datasets()) {
        if (dataset.fault().empty()) continue;
        wrong.push_back(absl::StrCat("server ", server.address,
                                     " no longer serves dataset ",
                                     dataset.name(), ": ", dataset.fault()));
      }
    }
    if (wrong.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrJoin(wrong, "; "));
  }
  std::string wrong = absl::StrJoin(disagreements, "; ");
  if (!wrong.empty()) wrong += "; ";
  if (answered + refused == servers.size()) {
    return absl::UnavailableError(
        absl::StrCat(wrong, "a data server of endpoint ", endpoint,
                     " answers with an error (", silent, ")"));
  }
  return absl::UnavailableError(absl::StrCat(
      wrong,
      answered + refused == 0 ? "no data server answers"
                              : "not every data server answers",
      " at endpoint ", endpoint, " (", silent,
      "); check that millrace-server runs there and that its port can be "
      "reached"));
}

}  // namespace millrace::cli
