// Fuzz target of LMDB environments of other programs: the cursor over any
// bytes, and the values as the first of them looks. The visit ends, keys rise,
// values lie inside the file, and the fields of a value have the sizes of its
// schema.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/logging.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/foreign_lmdb/value_layout.h"
#include "server/storage/lmdb/lmdb_cursor.h"
#include "server/storage/lmdb/lmdb_header.h"
#include "server/storage/lmdb/lmdb_tree.h"
#include "server/storage/sample_check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/storage/foreign_lmdb/environment_testing.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace {
namespace {

using storage::LmdbCursor;
using storage::LmdbTree;

// Splits the value as the first one looks.
class Values {
 public:
  void Take(absl::Span<const uint8_t> value) {
    if (!layout_.has_value()) {
      const auto inferred = storage::ValueLayout::Infer("", value);
      MR_CHECK(inferred.ok()) << inferred.status().message();
      layout_ = *inferred;
      const auto check = storage::SampleCheck::Create(layout_->schema());
      MR_CHECK(check.ok()) << check.status().message();
      check_ = *check;
    }
    storage::RecordFields fields(layout_->schema().fields_size());
    int64_t label = 0;
    const absl::Status status = layout_->Split(value, &fields, &label);
    if (!status.ok()) {
      MR_CHECK(absl::StartsWith(status.message(), "byte ") ||
               absl::StartsWith(status.message(), "the value "))
          << status.message();
      return;
    }
    // The reader sets the label.
    MR_CHECK(check_->Check(fields.all(), {0}).ok());
  }

 private:
  std::optional<storage::ValueLayout> layout_;
  std::optional<storage::SampleCheck> check_;
};

bool Run(const uint8_t* data, size_t size) {
  const absl::Span<const uint8_t> file(data, size);
  const auto header = storage::ParseLmdbHeader(
      file.first(std::min<size_t>(size, storage::kLmdbHeaderBytes)), size);
  if (!header.ok()) return false;
  const LmdbTree tree(file, *header);
  LmdbCursor cursor(file, *header);
  LmdbCursor::Entry entry;
  LmdbCursor::Result result;
  Values values;
  std::string before;
  uint64_t seen = 0;
  while ((result = cursor.Next(&entry)) == LmdbCursor::Result::kEntry) {
    MR_CHECK(entry.key > before);
    before = std::string(entry.key);
    ++seen;
    absl::Span<const uint8_t> value;
    if (entry.database.has_value() ||
        tree.At(entry.place, &value) != LmdbTree::Result::kFound) {
      continue;
    }
    MR_CHECK(value.data() >= data && value.size() <= size &&
             value.data() - data <= static_cast<int64_t>(size - value.size()));
    values.Take(value);
  }
  MR_CHECK(result != LmdbCursor::Result::kEnd || seen == header->entries);
  return result == LmdbCursor::Result::kEnd && seen > 0;
}

std::vector<std::string> Seeds() {
  const storage::TempFolder folder;
  std::vector<std::string> seeds;
  const auto add = [&](const storage::Entries& entries,
                       const storage::EnvironmentOptions& options = {}) {
    const std::string path = folder / absl::StrCat(seeds.size());
    storage::WriteEnvironment(path, entries, options);
    seeds.push_back(storage::ReadFile(path));
  };
  const auto datum = [](int label) {
    return storage::DatumBytes({.channels = 1,
                                .height = 2,
                                .width = 2,
                                .data = "1234",
                                .label = label});
  };
  const auto floats = [](bool packed) {
    return storage::DatumBytes({.channels = 1,
                                .height = 1,
                                .width = 2,
                                .floats = {1, 2},
                                .packed = packed});
  };
  add({{"a", datum(1)}, {"b", datum(2)}});
  add({{"a", floats(true)}, {"b", floats(false)}});
  add({{"a", storage::LikePng(std::string(5000, 'x'))}, {"b", ""}});
  add({{"a", "1"}}, {.database = "named"});
  storage::Entries many;
  for (int i = 0; i < 200; ++i) {
    many.emplace_back(absl::StrCat(std::string(40, 'k'), 1000 + i), "value");
  }
  add(many);
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = nullptr, .words = nullptr};
  return target;
}

}  // namespace millrace
