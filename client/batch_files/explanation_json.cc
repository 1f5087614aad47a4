#include "client/batch_files/explanation_json.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"

namespace millrace::batch_files {
namespace {

std::string RowJson(const ExplainedRow& row) {
  JsonObject one;
  one.Add("row", row.row());
  one.Add("position", row.position());
  one.Add("sample", row.sample());
  if (row.sample() < 0) return one.Json();  // padding
  one.Add("source", row.source());
  one.Add("dataset", row.dataset());
  if (!row.shard().empty()) {
    one.Add("shard", row.shard()).Add("shard_row", row.shard_row());
  }
  one.Add("key", absl::StrFormat("%016x", row.key()));
  if (row.left_empty()) one.Add("left_empty", true);
  if (!row.replaced().empty()) one.Add("replaced", row.replaced());
  return one.AddJson("drawn", DrawnJson(row.drawn())).Json();
}

}  // namespace

std::string DrawnJson(const google::protobuf::RepeatedPtrField<Drawn>& list) {
  return JsonList(list, [](const Drawn& drawn) {
    JsonObject one;
    one.Add("place", drawn.place()).Add("transform", drawn.transform());
    if (!drawn.field().empty()) one.Add("field", drawn.field());
    return one.Add("drawn", drawn.what()).Json();
  });
}

std::string ExplainedRowsJson(const ExplainBatchResponse& explained) {
  return absl::StrCat(
      "[\n  ",
      absl::StrJoin(explained.explained(), ",\n  ",
                    [](std::string* out, const ExplainedRow& row) {
                      absl::StrAppend(out, RowJson(row));
                    }),
      "]");
}

}  // namespace millrace::batch_files
