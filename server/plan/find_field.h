// The field of a dataset that has a name.
//
// Pure functions.

#ifndef MILLRACE_SERVER_PLAN_FIND_FIELD_H_
#define MILLRACE_SERVER_PLAN_FIND_FIELD_H_

#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::plan {

// Index in the schema; -1: no field has the name.
inline int FieldIndex(const DatasetInfo& info, absl::string_view name) {
  for (int i = 0; i < info.schema().fields_size(); ++i) {
    if (info.schema().fields(i).name() == name) return i;
  }
  return -1;
}

// Null: no field has the name.
inline const Field* FindField(const DatasetInfo& info, absl::string_view name) {
  const int index = FieldIndex(info, name);
  return index < 0 ? nullptr : &info.schema().fields(index);
}

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_FIND_FIELD_H_
