// `millrace audit --files=DIR`: what the audit logs of a whole job prove.

#ifndef MILLRACE_CLIENT_CLI_AUDIT_FILES_H_
#define MILLRACE_CLIENT_CLI_AUDIT_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/prefetch/host_loader.h"

namespace millrace {

struct AuditFilesOptions {
  std::string files;  // a folder with *.mraudit, or files separated by commas
  // How to ask servers; what, the logs say. With an endpoint, steps are
  // compared with what the servers send now.
  HostLoaderOptions loader;
  // Steps (each of one rank) that are compared, spread over all of the job.
  uint64_t compare = 32;
  // Complete epochs that there must be at least.
  uint64_t expect_epochs = 0;
  bool json = false;
};

// Prints the result. DataLoss: something was lost, came twice or differs from
// what the servers send. FailedPrecondition: fewer complete epochs than
// expected, and nothing else. With the mark of UsageError(): a file that cannot
// be read, or is no audit log, and logs that are not of one job.
absl::Status AuditFiles(const AuditFilesOptions& options);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_AUDIT_FILES_H_
