// millrace-data inspect: describes a dataset from its metadata alone.

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/dtype.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/field_text.h"
#include "server/data_tool/report.h"
#include "server/data_tool/sample_sizes.h"
#include "server/operators/operator_ref.h"
#include "server/operators/operators.h"
#include "server/storage/dataset_files.h"
#include "server/storage/open_in_order.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

int64_t TotalBytes(const DatasetInfo& info) {
  int64_t bytes = 0;
  for (const ShardInfo& shard : info.shards()) bytes += shard.bytes();
  return bytes;
}

// Whether the fingerprint is that of the names, sizes and times of files.
bool IsListed(const DatasetInfo& info) {
  return storage::HasIndex(absl::StrCat(info.format(), ":")) &&
         info.shards(0).content_sum().empty();
}

// The file with the index that the dataset was opened by.
struct IndexFile {
  std::string path;
  bool content = false;  // it has the hash of the content
  std::optional<absl::Duration> age;
};

// Absent: there is none.
std::optional<IndexFile> IndexOf(const storage::RecordSource& source) {
  IndexFile index = {.path = source.index_file(),
                     .content = !IsListed(source.info())};
  if (index.path.empty()) return std::nullopt;
  struct stat file;
  if (stat(index.path.c_str(), &file) == 0) {
    index.age = std::max(absl::ZeroDuration(),
                         absl::Now() - absl::TimeFromTimespec(file.st_mtim));
  }
  return index;
}

// "3h12m old"
std::string AgeText(absl::Duration age) {
  const absl::Duration unit = age < absl::Minutes(1)  ? absl::Seconds(1)
                              : age < absl::Hours(48) ? absl::Minutes(1)
                                                      : absl::Hours(1);
  const absl::Duration whole = absl::Trunc(age, unit);
  return absl::StrCat(
      whole == absl::ZeroDuration() ? "0s" : absl::FormatDuration(whole),
      " old");
}

std::string FieldJson(const Field& field) {
  JsonObject json;
  json.Add("name", field.name()).Add("kind", KindName(field.kind()));
  if (field.kind() != FIELD_KIND_ENCODED_IMAGE) {
    json.Add("dtype", DTypeName(field.dtype()));
  }
  if (field.kind() == FIELD_KIND_TENSOR) json.Add("shape", field.shape());
  if (field.num_classes() > 0) {
    json.Add("num_classes", field.num_classes())
        .Add("class_names", field.class_names());
  }
  return json.Json();
}

std::string ColumnJson(const LeftOutColumn& column) {
  return JsonObject()
      .Add("name", column.name())
      .Add("reason", column.reason())
      .Json();
}

std::string ShardJson(const ShardInfo& shard) {
  return JsonObject()
      .Add("name", shard.name())
      .Add("first_sample", shard.first_sample())
      .Add("samples", shard.samples())
      .Add("bytes", shard.bytes())
      .Add("content_sum", shard.content_sum())
      .Json();
}

std::string InfoJson(absl::string_view uri, const storage::RecordSource& source,
                     const storage::DatasetFiles& files) {
  const DatasetInfo& info = source.info();
  JsonObject json;
  json.Add("uri", uri)
      .Add("format", info.format())
      .Add("samples", info.samples())
      .Add("bytes", TotalBytes(info))
      .Add("fingerprint", info.fingerprint());
  if (const auto index = IndexOf(source)) {
    JsonObject file;
    file.Add("file", index->path).Add("content", index->content);
    if (index->age.has_value()) {
      file.Add("age_seconds", absl::ToInt64Seconds(*index->age));
    }
    json.AddJson("index", file.Json());
  }
  if (const auto sizes = SampleSizes::Of(source)) {
    json.AddJson("sample_bytes", JsonObject()
                                     .Add("smallest", sizes->smallest)
                                     .Add("median", sizes->median)
                                     .Add("percentile_99", sizes->percentile_99)
                                     .Add("largest", sizes->largest)
                                     .Json());
  }
  if (info.has_reader()) {
    json.AddJson("reader",
                 JsonObject()
                     .Add("name", info.reader().name())
                     .Add("version", info.reader().version())
                     .Add("library_hash", info.reader().library_hash())
                     .Json());
  }
  if (const Field* label = ClassField(info)) {
    json.Add("num_classes", label->num_classes())
        .Add("classes", label->class_names());
  }
  return json.Add("train_preset", info.train_preset())
      .Add("eval_preset", info.eval_preset())
      .AddJson("fields", JsonList(info.schema().fields(), FieldJson))
      .AddJson("left_out", JsonList(info.left_out(), ColumnJson))
      .Add("prepared", info.prepared())
      .Add("folders", files.folders)
      .Add("warnings", files.Warnings())
      .AddJson("shards", JsonList(info.shards(), ShardJson))
      .Json();
}

void PrintText(absl::string_view uri, const storage::RecordSource& source,
               const storage::DatasetFiles& files, std::ostream& out) {
  const DatasetInfo& info = source.info();
  out << Readable(uri) << "\n"
      << "format       " << info.format() << "\n"
      << "samples      " << info.samples() << "\n"
      << "size         " << SizeText(TotalBytes(info)) << " ("
      << TotalBytes(info) << " bytes)\n"
      << "fingerprint  " << info.fingerprint()
      << (IsListed(info)
              ? absl::StrCat(
                    " (of names, sizes and times; `millrace-data index ",
                    Readable(ShellWord(uri)), "` makes that of the content)")
              : "")
      << "\n";
  if (!files.files.empty())
    out << "files        " << Readable(files.Sentence()) << "\n";
  if (const auto index = IndexOf(source)) {
    out << "index        " << Readable(index->path) << " ("
        << (index->content ? "with" : "without") << " the hash of the content"
        << (index->age.has_value() ? ", " + AgeText(*index->age) : "") << ")\n";
  }
  if (const auto sizes = SampleSizes::Of(source)) {
    const auto text = [](uint64_t bytes) {
      return SizeText(static_cast<int64_t>(bytes));
    };
    out << "sample sizes " << text(sizes->smallest) << " to "
        << text(sizes->largest) << ", median " << text(sizes->median)
        << ", 99 % have at most " << text(sizes->percentile_99) << "\n";
  }
  if (info.has_reader()) {
    out << "reader       " << Readable(operators::FormatOperator(info.reader()))
        << "\n";
  }
  if (!info.train_preset().empty()) {
    out << "presets      " << info.train_preset() << " (training), "
        << info.eval_preset() << " (evaluation)\n";
  }
  if (!info.prepared().empty()) out << "prepared by pack\n";
  for (const std::string& line : info.prepared()) {
    out << "  " << Readable(line) << "\n";
  }
  out << "fields\n";
  for (const Field& field : info.schema().fields()) {
    out << "  " << Readable(field.name()) << ": " << FieldTypeText(field);
    if (field.num_classes() > 0) {
      constexpr int kMaxListed = 20;
      out << ", " << CountText(field.num_classes(), "class", "classes");
      for (int i = 0; i < field.class_names_size() && i < kMaxListed; ++i) {
        out << (i == 0 ? ": " : ", ") << Readable(field.class_names(i));
      }
      if (field.class_names_size() > kMaxListed) out << ", ...";
    }
    out << "\n";
  }
  if (!info.left_out().empty()) out << "columns left out\n";
  for (const LeftOutColumn& column : info.left_out()) {
    out << "  " << (column.name().empty() ? "''" : Readable(column.name()))
        << ": " << Readable(column.reason()) << "\n";
  }
  out << "shards\n";
  for (const ShardInfo& shard : info.shards()) {
    out << "  " << Readable(shard.name()) << ": samples "
        << shard.first_sample() << " to "
        << shard.first_sample() + shard.samples() - 1 << ", " << shard.bytes()
        << " bytes\n";
  }
}

}  // namespace

int RunInspect(const std::vector<std::string>& args, std::ostream& out) {
  bool json = false;
  std::vector<std::string> libraries;
  std::string cache_dir;
  program::FlagSet flags(
      {.command = "millrace-data inspect",
       .summary = "Describes a dataset: samples, fields, classes, fingerprint, "
                  "shards. Reads only the metadata, and for the fingerprint of "
                  "other programs' Parquet and Arrow files up to 256 MiB of "
                  "small columns; lists the files of an image folder. "
                  "`millrace-data verify` reads everything.",
       .argument = "URI",
       .examples = {"millrace-data inspect parquet:/data/photos"}});
  flags.Add("json", &json, "", "Print JSON");
  flags.Add("operators", &libraries, "FILE.so",
            "Library of a source that reads the dataset; may be repeated");
  AddCacheDirFlag(flags, &cache_dir);
  int exit_code;
  if (!ParseOrLeave(flags, args, "inspect", out, &exit_code)) return exit_code;
  const std::string& uri = flags.argument();
  const auto operators = UsageError(operators::Operators::Load(libraries));
  if (!operators.ok()) return Report("inspect", operators.status());
  const auto source = storage::OpenInOrder(
      uri, {.cache_dir = cache_dir, .operators = operators->get()});
  if (!source.ok()) return Report("inspect", source.status());
  const absl::StatusOr<storage::DatasetFiles> files =
      storage::FindDatasetFiles(uri);
  if (!files.ok()) return Report("inspect", files.status());
  if (json) {
    out << InfoJson(uri, **source, *files) << "\n";
  } else {
    PrintText(uri, **source, *files, out);
  }
  Warn("inspect", files->Warnings());
  return program::kExitOk;
}

}  // namespace millrace::data_tool
