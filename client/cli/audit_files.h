// `millrace audit --files=DIR`: checks the audit logs of a job and prints what
// they prove. The check itself is CheckAuditLogs()
// (client/audit/audit_check.h).
//
// Blocking, for the program's main thread.
//
//   MR_RETURN_IF_ERROR(AuditFiles({.files = "/runs/7/audit"}));

#ifndef MILLRACE_CLIENT_CLI_AUDIT_FILES_H_
#define MILLRACE_CLIENT_CLI_AUDIT_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/prefetch/host_loader.h"

namespace millrace::cli {

struct AuditFilesOptions {
  std::string files;  // a folder with *.mraudit, or files separated by commas
  // How to reach servers; the logs name the data. With an endpoint, steps are
  // compared with the batches that the servers send now.
  HostLoaderOptions loader;
  // Number of steps (of one rank each) to compare, spread over the job.
  uint64_t compare = 32;
  // Min number of complete epochs.
  uint64_t expect_epochs = 0;
  bool json = false;
};

// Prints the result. DataLoss: a step or a sample was lost, came twice or
// differs from the servers' batch. FailedPrecondition: fewer complete epochs
// than expected, and no other problem. With the mark of UsageError(): a file
// that cannot be read or is not an audit log, and logs of several jobs.
absl::Status AuditFiles(const AuditFilesOptions& options);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_AUDIT_FILES_H_
