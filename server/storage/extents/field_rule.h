// FieldRule turns the bytes of one record of a format (the extent that an index
// points to) into the fields of a schema: the members of a tar sample, the
// features of a tf.train.Example, the columns of an MDS sample.
//
// It opens nothing. Immutable and thread-safe; a RecordFields belongs to one
// thread at a time.
//
//   RecordFields fields(rule.schema().fields_size());
//   fields.Clear();
//   MR_RETURN_IF_ERROR(rule.Split(record, {}, &fields));
//   Use(fields.all()[0]);

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_FIELD_RULE_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_FIELD_RULE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// The fields of one record: views of the record's bytes, or memory of its own
// for what must be converted (a label that is text).
class RecordFields {
 public:
  explicit RecordFields(size_t count) : fields_(count), own_(count) {}

  // Forgets the fields; keeps memory for the next record.
  void Clear() { fields_.assign(fields_.size(), {}); }

  // Field `i` is `bytes`, which live as long as the record.
  void Set(size_t i, absl::Span<const uint8_t> bytes) { fields_[i] = bytes; }

  // Field `i` is `bytes` of memory for the caller to fill; valid until the next
  // Make() of the field.
  uint8_t* Make(size_t i, size_t bytes) {
    own_[i].resize(bytes);
    auto* const data = reinterpret_cast<uint8_t*>(own_[i].data());
    fields_[i] = {data, bytes};
    return data;
  }

  absl::Span<const absl::Span<const uint8_t>> all() const { return fields_; }

 private:
  std::vector<absl::Span<const uint8_t>> fields_;
  std::deque<std::string> own_;
};

class FieldRule {
 public:
  virtual ~FieldRule() = default;

  // The fields. A class index whose number of classes is not known yet has
  // num_classes 0; the index knows it later.
  virtual const Schema& schema() const = 0;

  // Field of the class index, an int64 scalar; -1: none.
  virtual int class_field() const = 0;

  // What a rule that is equal to this one is made of: stored in the index, and
  // parsed by ExtentFormat::RestoreRule(). Any bytes, deterministic.
  virtual std::string Encode() const = 0;

  // Sets the fields of `record`. `used`: a flag for each field of the schema;
  // others may stay empty and unchecked; empty: all fields.
  // DataLoss: the bytes are no such record; the message is a sentence that
  // begins with "byte N of the record" or "field 'NAME'", or is about the whole
  // record.
  virtual absl::Status Split(absl::Span<const uint8_t> record,
                             const std::vector<bool>& used,
                             RecordFields* fields) const = 0;

  // Name of the record for errors ("train/0001"); empty: it has none. Of any
  // bytes.
  virtual std::string NameOf(absl::Span<const uint8_t> record) const {
    static_cast<void>(record);
    return "";
  }
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_FIELD_RULE_H_
