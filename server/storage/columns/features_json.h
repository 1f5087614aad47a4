// The `huggingface` metadata of Parquet and Arrow files: which columns are
// images and which are class labels with which names. Pure functions over text.

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_FEATURES_JSON_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_FEATURES_JSON_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// {"info": {"features": {...}}} for the fields of `schema`.
std::string FeaturesJson(const Schema& schema);

struct ClassLabelFeature {
  int64_t num_classes = 0;
  std::vector<std::string> names;  // empty: not known
};

// The columns that `json` calls a ClassLabel. `json` is the `huggingface`
// metadata of a file or a dataset_info.json. InvalidArgument: no such JSON.
absl::StatusOr<std::map<std::string, ClassLabelFeature>> ParseClassLabels(
    absl::string_view json);

// What `json` says of other columns. InvalidArgument: no such JSON.
struct ColumnFeatures {
  // Shapes of Array2D to Array5D; an extent that is not fixed is -1.
  std::map<std::string, std::vector<int64_t>> arrays;
  // Audio, Video, Pdf: structs with a child `bytes` that are no image.
  std::set<std::string> media;
};
absl::StatusOr<ColumnFeatures> ParseColumnFeatures(absl::string_view json);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_FEATURES_JSON_H_
