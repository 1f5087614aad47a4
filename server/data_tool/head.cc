// millrace-data head: shows the first samples of a dataset.

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/field_text.h"
#include "server/data_tool/report.h"
#include "server/data_tool/sample_place.h"
#include "server/operators/operators.h"
#include "server/storage/open_in_order.h"
#include "server/storage/sample_files.h"

namespace millrace::data_tool {
namespace {

struct HeadOptions {
  std::string uri;
  int64_t samples = 5;
  int64_t first = 0;
  bool json = false;
  std::string cache_dir;
  std::vector<std::string> libraries;
};

JsonObject PlaceJson(const storage::RecordSource& source, int64_t index) {
  JsonObject json;
  json.Add("index", index);
  if (const storage::SampleFiles* const files = source.sample_files()) {
    return json.Add("file", files->FileOf(index));
  }
  const ShardInfo& shard = source.info().shards(ShardOf(source.info(), index));
  return json.Add("shard", shard.name())
      .Add("row", index - shard.first_sample());
}

absl::Status Head(const HeadOptions& options, std::ostream& out) {
  MR_ASSIGN_OR_RETURN(
      const auto operators,
      UsageError(operators::Operators::Load(options.libraries)));
  MR_ASSIGN_OR_RETURN(
      const auto source,
      storage::OpenInOrder(options.uri, {.cache_dir = options.cache_dir,
                                         .operators = operators.get()}));
  const DatasetInfo& info = source->info();
  if (options.first >= info.samples()) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "--first is ", options.first, ", but ", Readable(options.uri), " has ",
        CountText(info.samples(), "sample"), "; the first one is 0")));
  }
  MR_ASSIGN_OR_RETURN(auto reader, source->NewReader());
  FieldPrinter printer(operators.get());
  const int64_t end =
      options.first + std::min(options.samples, info.samples() - options.first);
  int64_t damaged = 0;
  std::vector<std::string> list;  // JSON
  for (int64_t index = options.first; index < end; ++index) {
    std::vector<std::string> fields;
    const absl::Status read =
        reader->Read(index, [&](const storage::EncodedSample& sample) {
          for (int i = 0; i < info.schema().fields_size(); ++i) {
            const Field& field = info.schema().fields(i);
            fields.push_back(
                options.json
                    ? printer.Json(field, sample.fields[i]).Json()
                    : absl::StrCat("  ", Readable(field.name()), ": ",
                                   FieldTypeText(field), ", ",
                                   printer.Text(field, sample.fields[i])));
          }
          return absl::OkStatus();
        });
    if (!read.ok() && !absl::IsDataLoss(read)) return read;
    if (!read.ok()) ++damaged;
    if (options.json) {
      JsonObject json = PlaceJson(*source, index);
      if (read.ok()) {
        json.AddJson("fields", JsonList(fields, [](const std::string& each) {
                       return each;
                     }));
      } else {
        json.Add("error", read.message());
      }
      list.push_back(json.Json());
      continue;
    }
    out << "sample " << index << ": " << Readable(PlaceOf(*source, index))
        << "\n";
    if (!read.ok()) out << "  damaged: " << Readable(read.message()) << "\n";
    for (const std::string& field : fields) out << field << "\n";
  }
  if (options.json) {
    out << JsonObject()
               .Add("uri", options.uri)
               .Add("samples", info.samples())
               .AddJson(
                   "head",
                   JsonList(list, [](const std::string& each) { return each; }))
               .Json()
        << "\n";
  }
  if (damaged == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      damaged, " of the ", CountText(end - options.first, "sample"),
      " cannot be read; `millrace-data verify` checks all of "
      "them"));
}

}  // namespace

int RunHead(const std::vector<std::string>& args, std::ostream& out) {
  HeadOptions options;
  program::FlagSet flags(
      {.command = "millrace-data head",
       .summary =
           "Shows the first samples of a dataset: the index and place of each "
           "sample, and the kind and size of each field. Images also have "
           "format, width and height, numbers their value, labels the name of "
           "the class, and texts their beginning. Images are not decoded.",
       .argument = "URI",
       .examples = {"millrace-data head --samples=2 tar:/data/train-0.tar"}});
  flags.Add("samples", &options.samples, "N", "Number of samples");
  flags.Add("first", &options.first, "N", "Index of the first sample to show");
  flags.Add("json", &options.json, "", "Print JSON");
  flags.Add("operators", &options.libraries, "FILE.so",
            "Library of a source that reads the dataset, or of a decoder; may "
            "be repeated");
  AddCacheDirFlag(flags, &options.cache_dir);
  int exit_code;
  if (!ParseOrLeave(flags, args, "head", out, &exit_code)) return exit_code;
  for (const auto& [name, value, min] :
       {std::tuple("--samples", options.samples, int64_t{1}),
        std::tuple("--first", options.first, int64_t{0})}) {
    if (value < min) {
      return Report("head",
                    UsageError(absl::InvalidArgumentError(absl::StrCat(
                        name, " is ", value, "; it must be at least ", min))));
    }
  }
  options.uri = flags.argument();
  return Report("head", Head(options, out));
}

}  // namespace millrace::data_tool
