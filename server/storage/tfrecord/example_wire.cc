#include "server/storage/tfrecord/example_wire.h"

#include <algorithm>
#include <cstring>

#include "server/storage/wire_reader.h"

namespace millrace::storage {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr uint32_t kFeaturesField = 1;      // of Example
constexpr uint32_t kFeatureListsField = 2;  // of SequenceExample
constexpr uint32_t kEntryField = 1;         // of Features
constexpr uint32_t kKeyField = 1;           // of a map entry
constexpr uint32_t kFeatureField = 2;       // of a map entry
constexpr uint32_t kValueField = 1;         // of each list

bool Check(const WireReader& reader, const uint8_t** damage) {
  if (!reader.ok()) *damage = reader.position();
  return reader.ok();
}

// Calls `visit` with each list of the feature in `entry`, in the order of the
// bytes, until it returns false.
bool ForEachList(Bytes entry, const uint8_t** damage,
                 absl::FunctionRef<bool(ListKind, Bytes)> visit) {
  WireReader reader(entry);
  WireField field;
  while (reader.Next(&field)) {
    if (!field.Is(kFeatureField, WireKind::kBytes)) continue;
    WireReader feature(field.bytes);
    WireField list;
    while (feature.Next(&list)) {
      if (list.type != WireKind::kBytes || list.number > 3) continue;
      if (!visit(static_cast<ListKind>(list.number), list.bytes)) return false;
    }
    if (!Check(feature, damage)) return false;
  }
  return Check(reader, damage);
}

// Varints in a packed list.
uint64_t CountVarints(Bytes packed) {
  return std::count_if(packed.begin(), packed.end(),
                       [](uint8_t byte) { return byte < 0x80; });
}

bool AddBytesList(Bytes list, const uint8_t** damage, FeatureValues* values) {
  WireReader reader(list);
  WireField field;
  while (reader.Next(&field)) {
    if (!field.Is(kValueField, WireKind::kBytes)) continue;
    ++values->count;
    values->view = field.bytes;
  }
  return Check(reader, damage);
}

// Of a FloatList: one value, or a packed list.
bool HasFloats(const WireField& field) {
  return field.Is(kValueField, WireKind::kFixed32) ||
         field.Is(kValueField, WireKind::kBytes);
}

bool AddFloatList(Bytes list, const uint8_t** damage, FeatureValues* values) {
  WireReader reader(list);
  WireField field;
  while (reader.Next(&field)) {
    if (!HasFloats(field)) continue;
    if (field.bytes.size() % sizeof(float) != 0) {
      *damage = field.bytes.data();
      return false;
    }
    if (field.bytes.empty()) continue;
    values->view = values->count == 0 ? field.bytes : Bytes();
    values->count += field.bytes.size() / sizeof(float);
  }
  return Check(reader, damage);
}

bool AddInt64List(Bytes list, const uint8_t** damage, FeatureValues* values) {
  WireReader reader(list);
  WireField field;
  while (reader.Next(&field)) {
    if (field.Is(kValueField, WireKind::kVarint)) {
      ++values->count;
    } else if (field.Is(kValueField, WireKind::kBytes)) {
      if (!field.bytes.empty() && field.bytes.back() >= 0x80) {
        *damage = &field.bytes.back();
        return false;
      }
      values->count += CountVarints(field.bytes);
    }
  }
  return Check(reader, damage);
}

}  // namespace

absl::string_view ListKindText(ListKind kind) {
  switch (kind) {
    case ListKind::kNone:
      return "value";
    case ListKind::kBytes:
      return "byte string";
    case ListKind::kFloat:
      return "float";
    case ListKind::kInt64:
      return "integer";
  }
  return "";
}

bool ForEachFeature(Bytes example, const uint8_t** damage,
                    absl::FunctionRef<void(absl::string_view, Bytes)> visit) {
  WireReader reader(example);
  WireField features;
  while (reader.Next(&features)) {
    if (!features.Is(kFeaturesField, WireKind::kBytes)) continue;
    WireReader map(features.bytes);
    WireField entry;
    while (map.Next(&entry)) {
      if (!entry.Is(kEntryField, WireKind::kBytes)) continue;
      absl::string_view name;
      WireReader pair(entry.bytes);
      WireField part;
      while (pair.Next(&part)) {
        if (!part.Is(kKeyField, WireKind::kBytes)) continue;
        name = {reinterpret_cast<const char*>(part.bytes.data()),
                part.bytes.size()};
      }
      if (!Check(pair, damage)) return false;
      visit(name, entry.bytes);
    }
    if (!Check(map, damage)) return false;
  }
  return Check(reader, damage);
}

bool FindValues(Bytes entry, const uint8_t** damage, FeatureValues* values) {
  *values = {};
  return ForEachList(entry, damage, [&](ListKind kind, Bytes list) {
    if (kind != values->kind) *values = {.kind = kind, .from = list.data()};
    switch (kind) {
      case ListKind::kBytes:
        return AddBytesList(list, damage, values);
      case ListKind::kFloat:
        return AddFloatList(list, damage, values);
      case ListKind::kInt64:
        return AddInt64List(list, damage, values);
      case ListKind::kNone:
        break;
    }
    return true;
  });
}

bool CopyFloats(Bytes entry, const FeatureValues& values,
                const uint8_t** damage, uint8_t* out) {
  return ForEachList(entry, damage, [&](ListKind, Bytes list) {
    if (list.data() < values.from) return true;
    WireReader reader(list);
    WireField field;
    while (reader.Next(&field)) {
      if (!HasFloats(field) || field.bytes.empty()) continue;
      std::memcpy(out, field.bytes.data(), field.bytes.size());
      out += field.bytes.size();
    }
    return Check(reader, damage);
  });
}

bool CopyInt64s(Bytes entry, const FeatureValues& values,
                const uint8_t** damage, uint8_t* out) {
  const auto put = [&out](uint64_t value) {
    std::memcpy(out, &value, sizeof(value));
    out += sizeof(value);
  };
  return ForEachList(entry, damage, [&](ListKind, Bytes list) {
    if (list.data() < values.from) return true;
    WireReader reader(list);
    WireField field;
    while (reader.Next(&field)) {
      if (field.Is(kValueField, WireKind::kVarint)) {
        put(field.varint);
      } else if (field.Is(kValueField, WireKind::kBytes)) {
        WireReader packed(field.bytes);
        uint64_t value;
        while (packed.NextVarint(&value)) put(value);
        if (!Check(packed, damage)) return false;
      }
    }
    return Check(reader, damage);
  });
}

bool HasFeatureLists(Bytes example) {
  WireReader reader(example);
  WireField field;
  bool lists = false;
  while (reader.Next(&field)) {
    // Of another message, such as a tensor's.
    if (field.number == kFeaturesField && field.type != WireKind::kBytes) {
      return false;
    }
    lists = lists || field.Is(kFeatureListsField, WireKind::kBytes);
  }
  return lists;
}

}  // namespace millrace::storage
