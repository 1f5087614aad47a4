#include "client/cli/server_agreement.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::cli {
namespace {

// Value -> the servers with this value.
using Holders = std::map<std::string, std::vector<std::string>>;

// "a1b2 on data-1:7001, c3d4 on data-2:7001 and data-3:7001"
std::string Text(const Holders& holders) {
  return absl::StrJoin(holders, ", ",
                       [](std::string* out, const Holders::value_type& one) {
                         absl::StrAppend(out, one.first, " on ",
                                         absl::StrJoin(one.second, " and "));
                       });
}

}  // namespace

std::vector<std::string> Disagreements(
    absl::Span<const receive::ServerStatus> servers) {
  std::map<std::string, Holders> datasets;
  Holders revisions;
  Holders decoders;
  for (const receive::ServerStatus& server : servers) {
    if (!server.status.ok()) continue;
    const GetStatusResponse& status = *server.status;
    for (const DatasetSummary& dataset : status.datasets()) {
      datasets[dataset.name()][dataset.fingerprint()].push_back(server.address);
    }
    revisions[absl::StrCat(status.content_revision())].push_back(
        server.address);
    // Earlier versions do not report it.
    if (!status.decoder_digest().empty()) {
      decoders[status.decoder_digest()].push_back(server.address);
    }
  }
  std::vector<std::string> found;
  for (const auto& [name, holders] : datasets) {
    if (holders.size() < 2) continue;
    found.push_back(
        absl::StrCat("the servers hold different data under the name `", name,
                     "` (fingerprint ", Text(holders),
                     "): one job cannot use these servers together; give them "
                     "the same data, or give the "
                     "data different names"));
  }
  if (revisions.size() > 1) {
    found.push_back(absl::StrCat(
        "the servers produce different batches (content revision ",
        Text(revisions), "): a job cannot use both; install the same release"));
  }
  if (decoders.size() > 1) {
    found.push_back(absl::StrCat(
        "the servers' image decoders produce different pixels (digest ",
        Text(decoders),
        "): a job with images cannot use both; install the same image "
        "libraries"));
  }
  return found;
}

}  // namespace millrace::cli
