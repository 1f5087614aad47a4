// The features of a tf.train.Example on the wire: which there are, and the
// values of each, as protobuf's own parser finds them (of two features with one
// name the last counts, parts of a feature are merged, unknown fields are
// skipped). Copies nothing.
//
//   Example  { Features features = 1; }
//   Features { map<string, Feature> feature = 1; }
//   Feature  { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2;
//                           Int64List int64_list = 3; } }
//   each list { repeated TYPE value = 1; }   numbers packed or not
//
// Pure functions, safe from any thread. All views are of the caller's bytes.
//
//   const uint8_t* damage;
//   if (!ForEachFeature(payload, &damage, [&](auto name, auto entry) { ... }))
//   {
//     return Damaged(damage - payload.data());
//   }
//   FeatureValues values;
//   if (!FindValues(entry, &damage, &values)) ...

#ifndef MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_WIRE_H_
#define MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_WIRE_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace::storage {

// The numbers are those of the lists in a Feature.
enum class ListKind : uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// "byte string", "float", "integer": for sentences. kNone: "value".
absl::string_view ListKindText(ListKind kind);

// The values of one feature.
struct FeatureValues {
  ListKind kind = ListKind::kNone;
  uint64_t count = 0;
  // kBytes: the last value. kFloat: all values, if they lie one behind another,
  // little-endian; otherwise empty.
  absl::Span<const uint8_t> view;
  // Start of the first list that counts: a list of another kind replaces those
  // before it.
  const uint8_t* from = nullptr;
};

// Calls `visit` with the name and the encoded map entry of each feature, in the
// order of the bytes; names may repeat. False: `example` is damaged, at
// `*damage`.
bool ForEachFeature(
    absl::Span<const uint8_t> example, const uint8_t** damage,
    absl::FunctionRef<void(absl::string_view, absl::Span<const uint8_t>)>
        visit);

// The values of the feature that lies in `entry`. False as above.
bool FindValues(absl::Span<const uint8_t> entry, const uint8_t** damage,
                FeatureValues* values);

// Write all values of a kFloat (4 bytes each) or kInt64 (8 bytes each) to
// `out`, which has room for `values.count`. `values` are of FindValues(entry).
// False as above; then a part of `out` is written.
bool CopyFloats(absl::Span<const uint8_t> entry, const FeatureValues& values,
                const uint8_t** damage, uint8_t* out);
bool CopyInt64s(absl::Span<const uint8_t> entry, const FeatureValues& values,
                const uint8_t** damage, uint8_t* out);

// Whether a message that is a well-formed Example is more probably a
// tf.train.SequenceExample, which has feature_lists as its second field.
bool HasFeatureLists(absl::Span<const uint8_t> example);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_WIRE_H_
