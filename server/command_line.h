// The flags of millrace-server.

#ifndef MILLRACE_SERVER_COMMAND_LINE_H_
#define MILLRACE_SERVER_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/config.pb.h"
#include "proto/names.h"

namespace millrace::server {

struct ServerCommandLine {
  std::string config_file;  // empty: none
  ServerConfig flags;       // what the flags say; unset fields are the file's
  std::string port_file;    // empty: none
  bool parse_config = false;
  std::string check_pipeline;  // file, for check_config
  bool check_config = false;
  bool help = false;
  bool version = false;
};

// `arguments` are those after the program's name. Errors as FlagSet::Parse()
// has them.
absl::StatusOr<ServerCommandLine> ParseCommandLine(
    const std::vector<std::string>& arguments);

// The file of --port_file. It must not keep the port of an earlier server when
// this start fails for any reason, also when the flags have a mistake. Empty:
// no such flag, or the program only prints something.
std::string PortFileToRemove(const std::vector<std::string>& arguments);

// The configuration of the file, overridden by the flags: a dataset of a flag
// replaces the file's dataset of the same name, otherwise it is added.
ServerConfig MergeConfig(ServerConfig file, const ServerConfig& flags);

// What --help prints.
std::string HelpText();

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_COMMAND_LINE_H_
