// An index of a few samples for tests.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_EXTENTS_INDEX_SAMPLES_H_
#define MILLRACE_TESTS_SERVER_STORAGE_EXTENTS_INDEX_SAMPLES_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "proto/names.h"
#include "server/storage/extents/extent_index.h"
#include "server/storage/extents/file_rule.h"

namespace millrace::storage {

struct MadeIndex {
  ExtentIndexHead head;
  ExtentColumns columns;

  Hash128 ListingSum() const {
    return head.files()
               ? FileListingSum(head, columns)
               : ExtentListingSum(head, columns.offsets, columns.bytes);
  }
  std::string Encode() {
    head.set_listing_sum(HashToHex(ListingSum()));
    return EncodeExtentIndex(head, columns);
  }
};

// Three objects with 3, 0 and 2 samples; image, label and text. `content`: with
// labels, lengths and sums.
inline MadeIndex MakeIndex(bool content) {
  MadeIndex made;
  made.head.set_format("tar");
  made.head.set_path("/data/{0..2}.tar");
  made.head.set_options("label_offset=0\n");
  made.head.set_rule("the rule");
  const int64_t counts[] = {3, 0, 2};
  for (int j = 0; j < 3; ++j) {
    ExtentIndexObject& object = *made.head.add_objects();
    object.set_name("/data/" + std::to_string(j) + ".tar");
    SetIdentity({.bytes = 10'000,
                 .modified_nanos = 7 + j,
                 .changed_nanos = 8 + j,
                 .inode = 9},
                &object);
    object.set_samples(counts[j]);
  }
  Field& image = *made.head.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& label = *made.head.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  Field& text = *made.head.mutable_schema()->add_fields();
  text.set_name("text");
  text.set_kind(FIELD_KIND_RAGGED);
  text.set_dtype(DTYPE_UINT8);
  made.columns.offsets = {0, 100, 2000, 512, 4096};
  made.columns.bytes = {100, 700, 8000, 3, 0};
  if (!content) return made;
  made.head.mutable_schema()->mutable_fields(1)->set_num_classes(5);
  ExtentIndexValues& labels = *made.head.add_values();
  labels.set_field(1);
  labels.set_bytes(8);
  std::string& values = made.columns.values.emplace_back();
  for (const int64_t value : {4, 0, 1, 2, 3}) {
    values.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  made.head.add_lengths(2);
  made.columns.lengths.push_back({1, 2, 3, 0, 5});
  made.head.set_content_sum(std::string(32, 'a'));
  for (ExtentIndexObject& object : *made.head.mutable_objects()) {
    object.set_content_sum(std::string(32, 'b'));
  }
  return made;
}

// A table of three files: image, label and boxes of different numbers.
inline MadeIndex MakeFileIndex() {
  MadeIndex made;
  made.head.set_format("csv");
  made.head.set_path("/data/labels.csv");
  made.head.set_files(true);
  for (const char* name : {"/data/labels.csv", "/data/names.txt"}) {
    ExtentIndexObject& object = *made.head.add_objects();
    object.set_name(name);
    SetIdentity({.bytes = 50,
                 .modified_nanos = 7,
                 .changed_nanos = 8,
                 .inode = 9,
                 .tag = ""},
                &object);
  }
  made.head.mutable_objects(0)->set_samples(3);
  Field& image = *made.head.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& label = *made.head.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(5);
  Field& boxes = *made.head.mutable_schema()->add_fields();
  boxes.set_name("boxes");
  boxes.set_kind(FIELD_KIND_RAGGED);
  boxes.set_dtype(DTYPE_FLOAT32);
  made.head.set_rule(FileRule(made.head.schema(), 1).Encode());
  ExtentColumns& columns = made.columns;
  columns.bytes = {100, 7000, 3};
  columns.modified_nanos = {1, 2, 3};
  columns.changed_nanos = {4, 5, 6};
  columns.inodes = {7, 8, 9};
  columns.names = "a.jpg/else/b.jpgc";
  columns.name_ends = {5, 16, 17};
  ExtentIndexValues& labels = *made.head.add_values();
  labels.set_field(1);
  labels.set_bytes(8);
  std::string& values = columns.values.emplace_back();
  for (const int64_t value : {4, 0, 1}) {
    values.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  made.head.add_values()->set_field(2);
  columns.values.push_back("0123456789abcdef");
  columns.value_ends = {{}, {0, 12, 16}};
  return made;
}

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_EXTENTS_INDEX_SAMPLES_H_
