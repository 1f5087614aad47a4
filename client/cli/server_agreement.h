// Disagreements names what prevents the servers of an endpoint from serving one
// job together: datasets with one name and different content, and releases or
// image decoders that produce different batches. A client refuses to mix such
// servers.
//
// It does not query servers, and ignores servers that did not answer.
//
// Pure function, safe from any thread.
//
//   for (const std::string& text : Disagreements(servers)) puts(text.c_str());

#ifndef MILLRACE_CLIENT_CLI_SERVER_AGREEMENT_H_
#define MILLRACE_CLIENT_CLI_SERVER_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/receive/server_queries.h"

namespace millrace::cli {

// One sentence each; empty: the servers agree.
std::vector<std::string> Disagreements(
    absl::Span<const receive::ServerStatus> servers);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_SERVER_AGREEMENT_H_
