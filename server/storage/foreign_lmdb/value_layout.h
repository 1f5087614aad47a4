// ValueLayout knows how the values of a foreign LMDB environment become fields.
// The first record of a dataset decides, and every other one must agree.
//
// Immutable and thread-safe. Opens nothing.
//
//   MR_ASSIGN_OR_RETURN(auto layout, ValueLayout::Infer("", first_value));
//   MR_RETURN_IF_ERROR(layout.Split(value, &fields));

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_VALUE_LAYOUT_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_VALUE_LAYOUT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/foreign_lmdb/datum.h"

namespace millrace::storage {

class ValueLayout {
 public:
  enum class Kind {
    kDatumImage,   // Datum with an image file
    kDatumPixels,  // Datum with uint8 numbers
    kDatumFloats,  // Datum with float_data
    kImage,        // the value is an image file
    kBytes,        // any bytes
    kText,         // image-000000001 and label-000000001
  };

  // `name`: "datum", "image", "bytes" or "text"; empty: what `first` looks
  // like. InvalidArgument: another name. DataLoss: `first` is not of that
  // layout; a part of a sentence about the value.
  static absl::StatusOr<ValueLayout> Infer(absl::string_view name,
                                           absl::Span<const uint8_t> first);

  Kind kind() const { return kind_; }
  bool is_datum() const { return kind_ <= Kind::kDatumFloats; }

  // The fields without a label from a key: the number of classes of a Datum's
  // label is 0.
  const Schema& schema() const { return schema_; }

  // Sets the fields of `value`, without labels that come from a key and the
  // text of kText. `*label`: that of a Datum, otherwise unchanged. DataLoss:
  // the value is of another layout; a part of a sentence that begins with
  // "byte N of the value" or "the value".
  absl::Status Split(absl::Span<const uint8_t> value, RecordFields* fields,
                     int64_t* label) const;

  // Split() of a Datum without the fields, to look at its label.
  absl::Status CheckDatum(absl::Span<const uint8_t> value, Datum* datum) const;

  // For people: "Caffe's Datum with pixels of shape [3, 8, 8]".
  std::string ToString() const;

 private:
  explicit ValueLayout(Kind kind) : kind_(kind) {}

  static absl::StatusOr<ValueLayout> OfDatum(absl::Span<const uint8_t> first);
  void AddImage(bool tensor);

  Kind kind_;
  Datum shape_;  // of kDatumPixels and kDatumFloats: without the data
  uint64_t elements_ = 0;
  Schema schema_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_VALUE_LAYOUT_H_
