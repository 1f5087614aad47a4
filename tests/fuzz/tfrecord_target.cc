// Fuzz target of TFRecord files: the scanner and the rule of the first record
// over any bytes. Scanning ends, extents follow each other inside the file, the
// fields of a record have the sizes of its schema, and what protobuf's parser
// takes is taken.

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/logging.h"
#include "server/storage/sample_check.h"
#include "server/storage/tfrecord/crc32c.h"
#include "server/storage/tfrecord/tfrecord_format.h"
#include "server/storage/tfrecord/tfrecord_scanner.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace {
namespace {

using storage::AsBytes;

constexpr size_t kLengthBytes = 8;
constexpr size_t kChecksumBytes = 4;
constexpr size_t kHeaderBytes = kLengthBytes + kChecksumBytes;

// The first byte of the input chooses the options.
storage::FormatOptions OptionsOf(uint8_t choice) {
  storage::FormatOptions options;
  if ((choice & 1) != 0) options["ragged"] = "ids";
  if ((choice & 2) != 0) options["fields"] = "ids,text";
  if ((choice & 4) != 0) options["label"] = "label";
  if ((choice & 8) != 0) options["preset"] = "none";
  return options;
}

bool Run(const uint8_t* data, size_t size) {
  static const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  (void)quiet;
  if (size == 0) return false;
  const storage::ExtentFormat& format = storage::TfrecordFormat();
  const std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  storage::OwnedWindow window(file);
  const auto made = format.NewRule({}, OptionsOf(data[0]), window);
  if (!made.ok()) return false;
  const auto rule = format.RestoreRule((*made)->Encode());
  MR_CHECK(rule.ok()) << rule.status().message();
  MR_CHECK((*rule)->Encode() == (*made)->Encode());
  const auto check = storage::SampleCheck::Create((*rule)->schema());
  MR_CHECK(check.ok()) << check.status().message();
  const auto scanner = format.Scan(window, **rule);
  MR_CHECK(scanner.ok());
  storage::RecordFields fields((*rule)->schema().fields_size());
  uint64_t before = 0;
  int taken = 0;
  while (true) {
    const auto record = (*scanner)->Next();
    if (!record.ok()) {
      MR_CHECK(absl::StartsWith(record.status().message(), "byte "));
      return false;
    }
    if (!record->has_value()) return taken > 0;
    const storage::IndexedRecord& found = **record;
    MR_CHECK(found.offset == before + kHeaderBytes);
    MR_CHECK(found.bytes <= file.size() - found.offset);
    before = found.offset + found.bytes;
    const auto extent = AsBytes(file).subspan(found.offset, found.bytes);
    fields.Clear();
    const absl::Status split = (*rule)->Split(extent, {}, &fields);
    if (split.ok()) {
      MR_CHECK(check->Check(fields.all()).ok());
      ++taken;
    } else {
      // Of a wrong checksum no byte is known.
      MR_CHECK(absl::StartsWith(split.message(), "byte ") ||
               absl::StartsWith(split.message(), "field '") ||
               absl::StrContains(split.message(), "their checksum"))
          << split.message();
      storage::reference::Example example;
      MR_CHECK(
          !absl::StrContains(split.message(), "no tf.train.Example") ||
          !example.ParseFromArray(
              extent.data(), static_cast<int>(extent.size() - kChecksumBytes)))
          << split.message();
    }
  }
}

// The checksums, and lengths that fit.
void Repair(std::string& input) {
  size_t at = 1;
  while (at < input.size() &&
         input.size() - at >= kHeaderBytes + kChecksumBytes) {
    uint64_t length;
    std::memcpy(&length, input.data() + at, sizeof(length));
    const size_t room = input.size() - at - kHeaderBytes - kChecksumBytes;
    if (length > room) length = room;
    const auto put = [&](size_t where, uint32_t sum) {
      std::memcpy(input.data() + where, &sum, sizeof(sum));
    };
    std::memcpy(input.data() + at, &length, sizeof(length));
    const auto bytes = AsBytes(input);
    put(at + kLengthBytes,
        storage::MaskedCrc32c(bytes.subspan(at, kLengthBytes)));
    at += kHeaderBytes;
    put(at + length, storage::MaskedCrc32c(bytes.subspan(at, length)));
    at += length + kChecksumBytes;
  }
  input.resize(at < input.size() ? at : input.size());
}

std::vector<std::string> Seeds() {
  using storage::Floats;
  using storage::Ints;
  using storage::Strings;
  const auto record = [](int64_t i) {
    return storage::ExampleBytes(
        {{"ids", Ints({i, -i, 300 * i})},
         {"text", Strings({"text"})},
         {"label", Ints({i})},
         {"box", Floats({1, 2, 3})},
         {"image", Strings({std::string(storage::kJpegStart)})}});
  };
  const std::string photograph = storage::ExampleBytes(
      {{"image/encoded", Strings({std::string(storage::kJpegStart)})},
       {"image/class/label", Ints({1})}});
  const std::string file = storage::RecordFile({record(1), record(2)});
  return {std::string(1, '\0') + file, "\x01" + file, "\x06" + file,
          "\x08" + file,
          std::string(1, '\0') + storage::RecordFile({photograph, photograph})};
}

std::vector<std::string> Words() {
  return {"ids", "text", "label", "image/encoded", "image/class/label"};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = Repair, .words = Words};
  return target;
}

}  // namespace millrace
