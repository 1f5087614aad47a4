// Disagreements names what keeps the servers of an endpoint from serving one
// job together: datasets of one name and different content, and releases or
// image decoders that make different batches. A client refuses to mix them; a
// job that opens through the wrong one fails.
//
// Pure, safe from any thread. Servers that did not answer are left out.
//
//   for (const std::string& one : Disagreements(servers)) Say(one);

#ifndef MILLRACE_CLIENT_CLI_SERVER_AGREEMENT_H_
#define MILLRACE_CLIENT_CLI_SERVER_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/receive/describe.h"

namespace millrace {

// One sentence each; empty: they agree.
std::vector<std::string> Disagreements(absl::Span<const ServerStatus> servers);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_SERVER_AGREEMENT_H_
