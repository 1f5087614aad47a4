#include "tests/trainer/monitoring/event_reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>

#include "trainer/monitoring/crc32c.h"

namespace millrace::testing {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;

CodedInputStream Open(const std::string& bytes) {
  return CodedInputStream(reinterpret_cast<const uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
}

std::string Bytes(CodedInputStream& in) {
  uint32_t size = 0;
  std::string bytes;
  if (in.ReadVarint32(&size)) in.ReadString(&bytes, static_cast<int>(size));
  return bytes;
}

void ParseValue(const std::string& bytes, ReadEvent* event) {
  CodedInputStream in = Open(bytes);
  std::string tag;
  float value = 0;
  while (const uint32_t field = in.ReadTag()) {
    if (field == (1 << 3 | 2)) {
      tag = Bytes(in);
    } else if (field == (2 << 3 | 5)) {
      uint32_t bits = 0;
      in.ReadLittleEndian32(&bits);
      std::memcpy(&value, &bits, sizeof(value));
    } else {
      WireFormatLite::SkipField(&in, field);
    }
  }
  event->scalars[tag] = value;
}

ReadEvent ParseEvent(const std::string& bytes) {
  CodedInputStream in = Open(bytes);
  ReadEvent event;
  while (const uint32_t field = in.ReadTag()) {
    switch (field) {
      case 1 << 3 | 1: {
        uint64_t bits = 0;
        in.ReadLittleEndian64(&bits);
        std::memcpy(&event.wall_time, &bits, sizeof(bits));
        break;
      }
      case 2 << 3 | 0: {
        uint64_t step = 0;
        in.ReadVarint64(&step);
        event.step = static_cast<int64_t>(step);
        break;
      }
      case 3 << 3 | 2:
        event.file_version = Bytes(in);
        break;
      case 5 << 3 | 2: {
        const std::string summary = Bytes(in);
        CodedInputStream values = Open(summary);
        while (const uint32_t value = values.ReadTag()) {
          if (value == (1 << 3 | 2)) {
            ParseValue(Bytes(values), &event);
          } else {
            WireFormatLite::SkipField(&values, value);
          }
        }
        break;
      }
      case 7 << 3 | 2:
        event.starts_session = Bytes(in) == "\x08\x01";
        break;
      default:
        WireFormatLite::SkipField(&in, field);
    }
  }
  return event;
}

uint64_t Number(const std::string& bytes, size_t at, int size) {
  uint64_t number = 0;
  for (int i = size; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return number;
}

}  // namespace

EventContent ReadEvents(const std::string& bytes) {
  EventContent content;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t left = bytes.size() - at;
    if (left < 12) {
      content.error = "cut in a length";
      return content;
    }
    const std::string head = bytes.substr(at, 8);
    if (Number(bytes, at + 8, 4) !=
        monitoring::MaskCrc32c(monitoring::Crc32c(head))) {
      content.error = "checksum of a length";
      return content;
    }
    const uint64_t size = Number(bytes, at, 8);
    if (left < 16 || size > left - 16) {
      content.error = "cut in an event";
      return content;
    }
    const std::string event = bytes.substr(at + 12, size);
    if (Number(bytes, at + 12 + size, 4) !=
        monitoring::MaskCrc32c(monitoring::Crc32c(event))) {
      content.error = "checksum of an event";
      return content;
    }
    content.events.push_back(ParseEvent(event));
    at += 16 + size;
  }
  return content;
}

std::map<int64_t, float> Series(const EventContent& content,
                                const std::string& tag) {
  std::map<int64_t, float> series;
  for (const ReadEvent& event : content.events) {
    const auto found = event.scalars.find(tag);
    if (found != event.scalars.end()) series[event.step] = found->second;
  }
  return series;
}

}  // namespace millrace::testing
