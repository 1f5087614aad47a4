// The table of subcommands.

#include <string>
#include <utility>
#include <vector>

#include "common/program/command_table.h"
#include "common/version.h"
#include "server/data_tool/commands.h"

namespace millrace::data_tool {
namespace {

using Run = int (*)(const std::vector<std::string>&, std::ostream&);

}  // namespace

int RunDataTool(const std::vector<std::string>& args, std::ostream& out) {
  const auto row = [&out](std::string name, std::string summary, Run run) {
    return program::CommandTable::Row{
        std::move(name), std::move(summary),
        [run, &out](const auto& rest) { return run(rest, out); }};
  };
  return program::CommandTable(
             {.program = "millrace-data",
              .summary = "Creates, describes and checks datasets.",
              .version = kMillraceVersion,
              .commands =
                  {row("pack",
                       "Pack original files, or a dataset of another format, "
                       "into LMDB or Parquet.",
                       &RunPack),
                   row("index",
                       "List and hash a dataset that is served without "
                       "packing.",
                       &RunIndex),
                   row("inspect", "Describe a dataset.", &RunInspect),
                   row("head", "Show the first samples of a dataset.",
                       &RunHead),
                   row("diff", "Compare the content of two datasets.",
                       &RunDiff),
                   row("verify",
                       "Read a whole dataset and check its content hash.",
                       &RunVerify),
                   row("check", "Check a pipeline file.", &RunCheck),
                   row("preview",
                       "Show a batch before and after its transforms.",
                       &RunPreview)},
              .examples =
                  {"millrace-data pack --format=imagefolder --input=photos \\\n"
                   "      --output=lmdb:/data/photos.lmdb",
                   "millrace-data inspect lmdb:/data/photos.lmdb",
                   "millrace-data verify lmdb:/data/photos.lmdb"}})
      .Run(args, out);
}

}  // namespace millrace::data_tool
