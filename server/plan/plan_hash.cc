#include "server/plan/plan_hash.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/strings/escaping.h"
#include "proto/dataset_name.h"

namespace millrace::plan {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AppendVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void AppendFixed64(uint64_t value, std::string& out) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> 8 * i));
}

void AppendBytes(absl::string_view bytes, std::string& out) {
  AppendVarint(bytes.size(), out);
  out.append(bytes.data(), bytes.size());
}

void AppendMessage(const Message& message, std::string& out);

// Appends a value; `index` is -1 for a singular field. Integers of every width
// and enums are encoded as the 8 bytes of their int64/uint64, floats as those
// of their double.
void AppendValue(const Message& message, const FieldDescriptor* field,
                 int index, std::string& out) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  // The value by the reflection's method for a singular or a repeated field.
  const auto get = [&](auto of_one, auto of_repeated) {
    return one ? (r.*of_one)(message, field)
               : (r.*of_repeated)(message, field, index);
  };
  const auto real = [&out](double value) {
    AppendFixed64(std::bit_cast<uint64_t>(value == 0 ? 0.0 : value), out);
  };
  using R = Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return AppendFixed64(int64_t{get(&R::GetInt32, &R::GetRepeatedInt32)},
                           out);
    case FieldDescriptor::CPPTYPE_INT64:
      return AppendFixed64(get(&R::GetInt64, &R::GetRepeatedInt64), out);
    case FieldDescriptor::CPPTYPE_UINT32:
      return AppendFixed64(get(&R::GetUInt32, &R::GetRepeatedUInt32), out);
    case FieldDescriptor::CPPTYPE_UINT64:
      return AppendFixed64(get(&R::GetUInt64, &R::GetRepeatedUInt64), out);
    case FieldDescriptor::CPPTYPE_BOOL:
      return AppendFixed64(get(&R::GetBool, &R::GetRepeatedBool), out);
    case FieldDescriptor::CPPTYPE_ENUM:
      return AppendFixed64(
          int64_t{get(&R::GetEnumValue, &R::GetRepeatedEnumValue)}, out);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return real(get(&R::GetDouble, &R::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return real(get(&R::GetFloat, &R::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_STRING:
      return AppendBytes(one ? r.GetString(message, field)
                             : r.GetRepeatedString(message, field, index),
                         out);
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      std::string inner;
      AppendMessage(one ? r.GetMessage(message, field)
                        : r.GetRepeatedMessage(message, field, index),
                    inner);
      return AppendBytes(inner, out);
    }
  }
}

// True for a value without information: zero, false, "", an empty message.
bool IsDefault(absl::string_view encoded) {
  return std::all_of(encoded.begin(), encoded.end(),
                     [](char c) { return c == 0; });
}

void AppendMessage(const Message& message, std::string& out) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);  // fields that are set, by number
  std::string value;
  for (const FieldDescriptor* field : fields) {
    value.clear();
    if (field->is_repeated()) {
      const int size = reflection.FieldSize(message, field);
      AppendVarint(size, value);
      for (int i = 0; i < size; ++i) AppendValue(message, field, i, value);
    } else {
      AppendValue(message, field, -1, value);
      // It matters which member of a oneof is set, even if the member is empty.
      // The same holds for an optional scalar with the value zero.
      const bool says_more =
          field->containing_oneof() != nullptr ||
          (field->has_presence() &&
           field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE);
      if (!says_more && IsDefault(value)) continue;
    }
    AppendVarint(field->number(), out);
    out += value;
  }
}

// Canonical form: the high byte first.
std::string Hash128(absl::string_view text) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data(), text.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest),
                     sizeof(canonical.digest));
}

}  // namespace

std::string CanonicalEncoding(const PipelineSpec& resolved) {
  // Without what changes no batch: the compression is the wire's, and a number
  // in a name tells datasets of one server apart.
  PipelineSpec batches = resolved;
  batches.clear_compression();
  for (Source& source : *batches.mutable_sources()) {
    source.set_dataset(std::string(PlainName(source.dataset())));
  }
  std::string encoding;
  AppendMessage(batches, encoding);
  return encoding;
}

bool DecodesImages(const PipelineSpec& resolved) {
  return std::any_of(
      resolved.transforms().begin(), resolved.transforms().end(),
      [](const Transform& transform) { return transform.has_decode_image(); });
}

std::string PlanHash(const PipelineSpec& resolved,
                     absl::string_view fingerprint, uint32_t content_revision,
                     absl::string_view decoder_digest) {
  std::string text;
  AppendBytes("millrace plan", text);
  AppendFixed64(content_revision, text);
  AppendBytes(fingerprint, text);
  AppendBytes(CanonicalEncoding(resolved), text);
  if (!decoder_digest.empty() && DecodesImages(resolved)) {
    AppendBytes(decoder_digest, text);
  }
  return Hash128(text);
}

std::string JoinFingerprints(absl::Span<const std::string> fingerprints) {
  if (fingerprints.size() == 1) return fingerprints[0];
  std::string text;
  AppendBytes("millrace sources", text);
  AppendVarint(fingerprints.size(), text);
  for (const std::string& fingerprint : fingerprints) {
    AppendBytes(fingerprint, text);
  }
  return absl::BytesToHexString(Hash128(text));
}

}  // namespace millrace::plan
