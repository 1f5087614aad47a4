// Chunk files for tests: records, chunks and folders as the formats define
// them, and whole datasets as a format reads them.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_CHUNKS_CHUNK_TESTING_H_
#define MILLRACE_TESTS_SERVER_STORAGE_CHUNKS_CHUNK_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/extents/object_window.h"
#include "tests/server/storage/chunks/copying_window.h"
#include "tests/server/storage/unpack/unpack_testing.h"

namespace millrace::storage {

// Of texts that are string views, too.
MATCHER_P(Begins, text, "begins with " + ::testing::PrintToString(text)) {
  return absl::StartsWith(arg, text);
}
MATCHER_P(Ends, text, "ends with " + ::testing::PrintToString(text)) {
  return absl::EndsWith(arg, text);
}

template <typename Number>
std::string RawBytes(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

inline std::string TextOf(absl::Span<const uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

inline absl::Span<const uint8_t> SpanOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

template <typename Number>
Number NumberOf(absl::Span<const uint8_t> bytes) {
  Number number{};
  EXPECT_EQ(bytes.size(), sizeof(number));
  if (bytes.size() == sizeof(number)) {
    std::memcpy(&number, bytes.data(), sizeof(number));
  }
  return number;
}

// A record of columns whose sizes all vary.
inline std::string SizedRecord(const std::vector<std::string>& values) {
  std::string record;
  for (const std::string& value : values) {
    record += RawBytes(static_cast<uint32_t>(value.size()));
  }
  for (const std::string& value : values) record += value;
  return record;
}

// A chunk file of `records`, with `gap` behind the table.
inline std::string ChunkOf(const std::vector<std::string>& records,
                           const std::string& gap = "") {
  std::string chunk = RawBytes(static_cast<uint32_t>(records.size()));
  uint32_t offset =
      static_cast<uint32_t>(4 * (records.size() + 2) + gap.size());
  chunk += RawBytes(offset);
  for (const std::string& record : records) {
    chunk += RawBytes(offset += static_cast<uint32_t>(record.size()));
  }
  chunk += gap;
  for (const std::string& record : records) chunk += record;
  return chunk;
}

// The content of a file below the root of the repository.
inline std::string FileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  EXPECT_TRUE(out.flush().good()) << path;
}

// An empty folder.
inline std::string NewFolder() {
  static int number = 0;
  std::string folder = absl::StrCat(::testing::TempDir(), "/chunks", number++);
  EXPECT_EQ(mkdir(folder.c_str(), 0700), 0) << folder;
  return folder;
}

// The records of an object, as they are in it. Stops at an error.
inline absl::StatusOr<std::vector<std::string>> ScanRecords(
    const ExtentFormat& format, const FieldRule& rule, ObjectWindow& window) {
  std::vector<std::string> records;
  auto scanner = format.Scan(window, rule);
  if (!scanner.ok()) return scanner.status();
  while (true) {
    const auto record = (*scanner)->Next();
    if (!record.ok()) return record.status();
    if (!record->has_value()) return records;
    const auto bytes = window.At((*record)->offset, (*record)->bytes);
    if (!bytes.ok()) return bytes.status();
    records.push_back(TextOf(*bytes));
  }
}

// A dataset in memory: all samples of the objects of `path`.
struct ReadDataset {
  std::unique_ptr<FieldRule> rule;
  std::vector<std::vector<std::string>> samples;  // fields

  // Index of the field `name`.
  int FieldNamed(const std::string& name) const {
    for (int i = 0; i < rule->schema().fields_size(); ++i) {
      if (rule->schema().fields(i).name() == name) return i;
    }
    ADD_FAILURE() << "no field " << name;
    return 0;
  }
  const Field& field(const std::string& name) const {
    return rule->schema().fields(FieldNamed(name));
  }
  absl::Span<const uint8_t> value(size_t sample,
                                  const std::string& name) const {
    return SpanOf(samples[sample][FieldNamed(name)]);
  }
};

// The raw bytes of object `i`.
inline absl::StatusOr<std::string> RawObject(const ObjectList& list, size_t i) {
  std::string bytes = FileBytes(list.names[i]);
  if (!list.packed.any() || list.packed.objects[i].unpacker == nullptr) {
    return bytes;
  }
  return UnpackText(*list.packed.objects[i].unpacker, bytes);
}

inline absl::StatusOr<ReadDataset> ReadAll(const ExtentFormat& format,
                                           const std::string& path,
                                           const FormatOptions& options = {}) {
  ReadDataset all;
  const auto list = format.List(path, options);
  if (!list.ok()) return list.status();
  const auto first_object = RawObject(*list, 0);
  if (!first_object.ok()) return first_object.status();
  CopyingWindow first(*first_object);
  auto rule = format.NewRule(*list, options, first);
  if (!rule.ok()) return rule.status();
  all.rule = std::move(*rule);
  RecordFields fields(all.rule->schema().fields_size());
  for (size_t i = 0; i < list->names.size(); ++i) {
    const auto object = RawObject(*list, i);
    if (!object.ok()) return object.status();
    CopyingWindow window(*object);
    const auto records = ScanRecords(format, *all.rule, window);
    if (!records.ok()) return records.status();
    for (const std::string& record : *records) {
      fields.Clear();
      const absl::Status status = all.rule->Split(SpanOf(record), {}, &fields);
      if (!status.ok()) return status;
      std::vector<std::string>& sample = all.samples.emplace_back();
      for (const auto& field : fields.all()) sample.push_back(TextOf(field));
    }
  }
  return all;
}

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_CHUNKS_CHUNK_TESTING_H_
