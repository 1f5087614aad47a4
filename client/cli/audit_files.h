// `millrace audit --files=DIR`: what the audit logs of a whole job prove.

#ifndef MILLRACE_CLIENT_CLI_AUDIT_FILES_H_
#define MILLRACE_CLIENT_CLI_AUDIT_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace {

struct AuditFilesOptions {
  std::string files;  // a folder with *.mraudit, or files separated by commas
  // Compare steps with what the servers send now; empty: do not.
  std::string endpoint;
  // Steps of a rank that are compared, spread over all of the job.
  uint64_t compare = 32;
  // Complete epochs that there must be at least.
  uint64_t expect_epochs = 0;
  bool json = false;
  absl::Duration timeout = absl::Seconds(5);
};

// Prints the result. DataLoss: something was lost or came twice.
absl::Status AuditFiles(const AuditFilesOptions& options);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_AUDIT_FILES_H_
