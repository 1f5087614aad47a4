#include "tests/fuzz/chunk_fuzz.h"

#include <google/protobuf/stubs/logging.h>

#include <cstring>
#include <memory>

#include "absl/strings/string_view.h"
#include "common/logging.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/little_endian.h"
#include "server/storage/sample_check.h"
#include "tests/server/storage/chunks/copying_window.h"

namespace millrace {
namespace {

constexpr size_t kNumber = sizeof(uint32_t);

// What Scan() and Split() promise of any file.
bool SplitAll(const storage::ExtentFormat& format,
              const storage::FieldRule& rule, const std::string& chunk) {
  const auto check = storage::SampleCheck::Create(rule.schema());
  MR_CHECK(check.ok()) << check.status().message();
  storage::CopyingWindow window(chunk);
  const auto scanner = format.Scan(window, rule);
  if (!scanner.ok()) return false;
  storage::RecordFields fields(rule.schema().fields_size());
  uint64_t end = 0;
  bool split = false;
  for (;;) {
    const auto record = (*scanner)->Next();
    if (!record.ok() || !record->has_value()) return split;
    MR_CHECK((*record)->offset >= end) << "records overlap";
    end = (*record)->offset + (*record)->bytes;
    MR_CHECK(end <= window.size()) << "a record leaves the file";
    const auto bytes = window.At((*record)->offset, (*record)->bytes);
    MR_CHECK(bytes.ok());
    fields.Clear();
    if (!rule.Split(*bytes, {}, &fields).ok()) continue;
    const absl::Status good = check->Check(fields.all());
    MR_CHECK(good.ok()) << good.message();
    split = true;
  }
}

}  // namespace

bool RunChunkFuzz(const storage::ExtentFormat& format, ListChunks list,
                  const uint8_t* data, size_t size) {
  // protobuf writes a line for each string that is no UTF-8.
  static const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  (void)quiet;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  // Bytes that call themselves a rule.
  if (const auto rule = format.RestoreRule(input); rule.ok()) {
    MR_CHECK(format.RestoreRule((*rule)->Encode()).ok());
  }
  if (size < kNumber) return false;
  const uint32_t length = storage::LoadU32(data);
  if (length > size - kNumber) return false;
  auto document =
      storage::ParseJson(input.substr(kNumber, length), "the index");
  if (!document.ok()) return false;
  // Of the seeds, "version" is a regular, empty file of this folder.
  const auto objects =
      list(storage::IndexJson("/proc/index.json", std::move(document).value()));
  if (!objects.ok()) return false;
  const std::string chunk(input.substr(kNumber + length));
  storage::CopyingWindow first(chunk);
  const auto rule = format.NewRule(*objects, {}, first);
  if (!rule.ok()) return false;
  const auto same = format.RestoreRule((*rule)->Encode());
  MR_CHECK(same.ok()) << same.status().message();
  MR_CHECK((*same)->Encode() == (*rule)->Encode());
  return SplitAll(format, **same, chunk);
}

std::string ChunkFuzzInput(const std::string& index, const std::string& chunk) {
  std::string input;
  storage::AppendText(index, &input);
  return input + chunk;
}

std::string ChunkFuzzFile(const std::vector<std::string>& records,
                          const std::string& gap) {
  std::string chunk;
  const auto count = static_cast<uint32_t>(records.size());
  storage::AppendU32(count, &chunk);
  auto offset = static_cast<uint32_t>(kNumber * (count + 2) + gap.size());
  storage::AppendU32(offset, &chunk);
  for (const std::string& record : records) {
    offset += static_cast<uint32_t>(record.size());
    storage::AppendU32(offset, &chunk);
  }
  chunk += gap;
  for (const std::string& record : records) chunk += record;
  return chunk;
}

void RepairChunkFuzz(std::string& input) {
  // The text ends with the last brace that closes it.
  const size_t end = input.rfind("}}");
  if (input.size() < kNumber || end == std::string::npos || end < kNumber) {
    return;
  }
  const auto length = static_cast<uint32_t>(end + 2 - kNumber);
  std::memcpy(input.data(), &length, sizeof(length));
}

}  // namespace millrace
