#include "server/storage/parquet/parquet_paths.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/utf8.h"

namespace millrace::storage {
namespace {

// What Hive writes for a null.
constexpr absl::string_view kNull = "__HIVE_DEFAULT_PARTITION__";

// Max number of classes of a key, and max bytes of a name in a message.
constexpr size_t kMaxClasses = 65'536;
constexpr size_t kMaxNameBytes = 200;

// Writers escape characters that a name of a folder cannot have: a%20b.
std::string Unescape(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2])) {
      out += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
      continue;
    }
    out += text[i];
  }
  return out;
}

struct Part {
  std::string key;
  std::string value;
};

std::vector<Part> PartsOf(absl::string_view base, const std::string& file) {
  std::vector<Part> parts;
  for (const std::string& name : PartitionsOf(base, file)) {
    const size_t equals = name.find('=');
    parts.push_back({.key = Unescape(name.substr(0, equals)),
                     .value = Unescape(name.substr(equals + 1))});
  }
  return parts;
}

std::vector<std::string> KeysOf(const std::vector<Part>& parts) {
  std::vector<std::string> keys;
  for (const Part& part : parts) keys.push_back(part.key);
  return keys;
}

std::string KeysText(const std::vector<Part>& parts) {
  return parts.empty()
             ? "none"
             : CleanText(absl::StrJoin(KeysOf(parts), ", "), kMaxNameBytes);
}

absl::Status Refused(const std::string& file, absl::string_view key,
                     absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": the value of '", CleanText(key, kMaxNameBytes),
                   "' in the name of its folder ", why));
}

// Adds the field of `key`, whose value in each file is in `texts`.
absl::Status AddField(const std::string& key,
                      const std::vector<std::string>& texts,
                      const ShardPaths& shards, Partitions* partitions) {
  Field field;
  field.set_name(key);
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(DTYPE_INT64);
  std::vector<int64_t> numbers(texts.size());
  bool all_numbers = true;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == kNull || texts[i].empty()) {
      return Refused(shards.files[i], key,
                     "is missing: move the file out of the folder, or write "
                     "the dataset again with a value");
    }
    if (!IsUtf8(texts[i]) || !IsUtf8(key)) {
      return Refused(shards.files[i], key, "is not UTF-8: rename the folder");
    }
    all_numbers &= absl::SimpleAtoi(texts[i], &numbers[i]);
  }
  if (!all_numbers) {
    const std::set<std::string> names(texts.begin(), texts.end());
    if (names.size() > kMaxClasses) {
      return absl::InvalidArgumentError(
          absl::StrCat("the folders of ", shards.base, " have ", names.size(),
                       " values of '", CleanText(key, kMaxNameBytes),
                       "', and a field may "
                       "have ",
                       kMaxClasses, " classes: name fewer files"));
    }
    std::map<absl::string_view, int64_t> classes;
    for (const std::string& name : names) {
      classes.emplace(name, static_cast<int64_t>(classes.size()));
      field.add_class_names(name);
    }
    field.set_num_classes(static_cast<int64_t>(classes.size()));
    for (size_t i = 0; i < texts.size(); ++i) numbers[i] = classes.at(texts[i]);
  }
  partitions->fields.push_back(std::move(field));
  for (size_t i = 0; i < numbers.size(); ++i) {
    partitions->values[i].push_back(numbers[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ShardPaths> FindParquetFiles(absl::string_view path) {
  return FindShards(path, ".parquet", {.start = "PAR1", .partitions = true});
}

absl::StatusOr<Partitions> ReadPartitions(
    const ShardPaths& shards, const std::set<std::string>& columns) {
  Partitions partitions;
  partitions.values.resize(shards.files.size());
  std::vector<std::vector<Part>> parts;
  for (const std::string& file : shards.files) {
    parts.push_back(PartsOf(shards.base, file));
    if (KeysOf(parts.back()) != KeysOf(parts.front())) {
      return absl::InvalidArgumentError(absl::StrCat(
          file, " is in folders with the keys ", KeysText(parts.back()),
          ", and ", shards.files.front(), " with ", KeysText(parts.front()),
          ": the files of a dataset need the same keys, because each is a "
          "field; name the files of one kind by a glob"));
    }
  }
  std::set<std::string> seen = columns;
  for (size_t k = 0; k < parts.front().size(); ++k) {
    const std::string& key = parts.front()[k].key;
    if (!seen.insert(key).second) continue;
    std::vector<std::string> texts;
    for (const std::vector<Part>& of_file : parts) {
      texts.push_back(of_file[k].value);
    }
    MR_RETURN_IF_ERROR(AddField(key, texts, shards, &partitions));
  }
  return partitions;
}

}  // namespace millrace::storage
