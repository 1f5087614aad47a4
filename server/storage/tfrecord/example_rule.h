// ExampleRule turns the payload of a TFRecord record, a tf.train.Example, into
// fields: each field is the values of one feature.
//
//   feature                            field
//   one byte string                    ENCODED_IMAGE or RAGGED uint8
//   one float, one integer             TENSOR float32, int64, a scalar
//   n floats, n integers               TENSOR float32, int64 [n]
//   floats, integers, named ragged     RAGGED float32, int64
//   the label                          class index: the integer, from 0 on
//
// A rule decides by the first record of a dataset (InferExampleRule) and then
// demands the same of each record. Features that are no field are skipped.
//
// Immutable, thread-safe. Fields are views of the record where its bytes are
// those of the field (byte strings, packed floats).

#ifndef MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_RULE_H_
#define MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_RULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/tfrecord/example_wire.h"

namespace millrace::storage {

class ExampleRule : public FieldRule {
 public:
  // `features[i]` is the feature of field i; `class_field` is -1 or the field
  // of the label, whose values begin at `first_label`. InvalidArgument: the
  // schema is none of the table above, or a feature is named twice.
  static absl::StatusOr<std::unique_ptr<ExampleRule>> Create(
      Schema schema, std::vector<std::string> features, int class_field,
      int64_t first_label);

  // The rule whose Encode() gave `encoded`. DataLoss: the bytes are none.
  static absl::StatusOr<std::unique_ptr<ExampleRule>> Restore(
      absl::string_view encoded);

  const Schema& schema() const override { return schema_; }
  int class_field() const override { return class_field_; }
  int64_t first_label() const { return first_label_; }
  // Name of the feature of field `i`.
  const std::string& feature(int i) const { return features_[i]; }

  // The schema and the features with their lengths before them.
  std::string Encode() const override;

  // `record` is an extent of TfrecordScanner: payload and checksum.
  absl::Status Split(absl::Span<const uint8_t> record,
                     const std::vector<bool>& used,
                     RecordFields* fields) const override;

 private:
  ExampleRule(Schema schema, std::vector<std::string> features, int class_field,
              int64_t first_label);

  // Sets field `i` from the map entry of its feature.
  absl::Status SetField(int i, absl::Span<const uint8_t> entry,
                        absl::Span<const uint8_t> payload,
                        RecordFields* fields) const;
  absl::Status SetLabel(int i, RecordFields* fields) const;
  // "field 'x' (feature 'y')"
  std::string FieldText(int i) const;

  const Schema schema_;
  const std::vector<std::string> features_;
  const int class_field_;
  const int64_t first_label_;
  std::vector<ListKind> kinds_;
  std::vector<int64_t> counts_;  // of values in each record; -1: any
  absl::flat_hash_map<std::string, int> fields_by_feature_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_RULE_H_
