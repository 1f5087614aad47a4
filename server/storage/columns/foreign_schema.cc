#include "server/storage/columns/foreign_schema.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/logging.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

// Max bytes of a column name in a message.
constexpr size_t kMaxNameBytes = 200;

std::string LeftOutText(const DatasetInfo& info) {
  std::string text;
  for (const LeftOutColumn& column : info.left_out()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "'", column.name(), "' (",
                    column.reason(), ")");
  }
  return text;
}

}  // namespace

void AddLeftOut(absl::string_view name, std::string reason, DatasetInfo* info) {
  LeftOutColumn* const out = info->add_left_out();
  out->set_name(CleanText(name, kMaxNameBytes));
  out->set_reason(std::move(reason));
}

std::string WhySharedName(int columns) {
  return absl::StrCat(columns,
                      " columns have this name: give each its own name");
}

namespace {

// Of two schemas that differ; "it ..." is the one with `fields`.
std::string FirstDifference(const Schema& schema, const Schema& first) {
  for (int i = 0; i < schema.fields_size(); ++i) {
    const Field& field = schema.fields(i);
    const std::string name =
        absl::StrCat("'", CleanText(field.name(), kMaxNameBytes), "'");
    if (i >= first.fields_size()) return absl::StrCat("it also has ", name);
    if (field.name() != first.fields(i).name()) {
      return absl::StrCat("it has ", name, " in place of '",
                          CleanText(first.fields(i).name(), kMaxNameBytes),
                          "'");
    }
    if (field.SerializeAsString() != first.fields(i).SerializeAsString()) {
      return absl::StrCat(name, " has another type or other classes");
    }
  }
  return absl::StrCat(
      "it lacks '",
      CleanText(first.fields(schema.fields_size()).name(), kMaxNameBytes), "'");
}

}  // namespace

absl::Status AppendForeignFile(const ForeignFile& file, DatasetInfo* of_file,
                               DatasetInfo* info) {
  if (info->shards().empty()) {
    if (of_file->schema().fields().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path, " has no readable column",
          of_file->left_out().empty() ? "" : ": ", LeftOutText(*of_file)));
    }
    if (!of_file->left_out().empty()) {
      MR_LOG(INFO) << file.path
                   << ": columns left out: " << LeftOutText(*of_file);
    }
    info->mutable_schema()->Swap(of_file->mutable_schema());
    info->mutable_left_out()->Swap(of_file->mutable_left_out());
  } else if (of_file->schema().SerializeAsString() !=
             info->schema().SerializeAsString()) {
    return absl::DataLossError(absl::StrCat(
        file.path, " has another schema than ", info->shards(0).name(), ": ",
        FirstDifference(of_file->schema(), info->schema()),
        "; the shards of a dataset must have the same columns, types and "
        "classes"));
  }
  ShardInfo* const entry = info->add_shards();
  entry->set_name(ShardInfoName(file.path));
  entry->set_first_sample(info->samples());
  entry->set_samples(file.rows);
  entry->set_bytes(file.bytes);
  info->set_samples(info->samples() + file.rows);
  return absl::OkStatus();
}

absl::Status CheckHasRows(absl::string_view path, const DatasetInfo& info) {
  if (info.samples() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " has no rows"));
}

}  // namespace millrace::storage
