// How the data tool tells errors and warnings: one sentence on standard error.

#ifndef MILLRACE_SERVER_DATA_TOOL_REPORT_H_
#define MILLRACE_SERVER_DATA_TOOL_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/program/flag_set.h"

namespace millrace::data_tool {

// One line of readable text of what a file, a folder or a user named.
std::string Readable(absl::string_view text);

// "999 B", "10.1 kB", "57.1 MB": one decimal, powers of 1000.
std::string SizeText(int64_t bytes);

// `message`, with " (batch_size is from --batch_size=8)" behind it where it
// speaks of `field` ("batch_size") of a pipeline, which the user gave by
// `flag`.
std::string NamingFlag(absl::string_view message, absl::string_view field,
                       absl::string_view flag);
absl::Status NamingFlag(const absl::Status& status, absl::string_view field,
                        absl::string_view flag);

// Prints "millrace-data COMMAND: MESSAGE" unless `status` is OK; ExitCode() of
// it.
int Report(absl::string_view command, const absl::Status& status);

// Prints "millrace-data COMMAND: warning: SENTENCE" for each.
void Warn(absl::string_view command, const std::vector<std::string>& sentences);

// Adds --cache_dir, for commands that open datasets.
program::FlagSet::Flag& AddCacheDirFlag(program::FlagSet& flags,
                                        std::string* cache_dir);

// Parses, and answers --help. False: leave with *exit_code.
bool ParseOrLeave(program::FlagSet& flags, const std::vector<std::string>& args,
                  absl::string_view command, std::ostream& out, int* exit_code);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_REPORT_H_
