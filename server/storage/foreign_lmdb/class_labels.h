// ClassLabels gives the samples of a foreign LMDB environment class indices by
// their keys: by the beginning of the key or a pattern, by a file, or by the
// value of another key. Labels are numbers, or names that are numbered in the
// end.
//
// One thread at a time, while the keys are indexed.
//
//   MR_ASSIGN_OR_RETURN(auto labels, ClassLabels::Create(options, uri));
//   for (...) MR_RETURN_IF_ERROR(labels.Add(key, text));
//   MR_ASSIGN_OR_RETURN(std::vector<int32_t> classes, labels.Finish(&field));

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_CLASS_LABELS_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_CLASS_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/foreign_lmdb/foreign_options.h"
#include "server/storage/foreign_lmdb/key_pattern.h"

namespace millrace::storage {

// Max names of classes that keys may give.
inline constexpr size_t kMaxKeyClasses = 65'536;

class ClassLabels {
 public:
  // Reads the files that the options name. `room` samples have memory.
  // InvalidArgument: a line of a file is wrong; names file and line.
  static absl::StatusOr<ClassLabels> Create(const ForeignOptions& options,
                                            const ExtentUri& uri, size_t room);

  // Adds the next sample. `label`: the value of its label key, for kKey.
  // DataLoss: it has no label, or one that is none; a part of a sentence.
  // InvalidArgument: the options do not fit.
  absl::Status Add(absl::string_view key, absl::string_view label);

  // The class indices of the samples; numbers and names of classes go to
  // `field`.
  absl::StatusOr<std::vector<int32_t>> Finish(Field* field);

 private:
  ClassLabels(const ForeignOptions& options, const ExtentUri& uri)
      : from_(options.label_from),
        pattern_(options.pattern),
        file_(options.labels_file),
        uri_(uri) {}

  absl::Status ReadLabels();
  // Labels are names.
  absl::Status StartNames();
  // The value of a label key: the first one decides between numbers and names.
  absl::Status AddValue(absl::string_view label);
  absl::Status AddNumber(absl::string_view label);
  absl::Status AddName(absl::string_view name);

  ForeignOptions::LabelFrom from_;
  std::optional<KeyPattern> pattern_;  // of kPattern
  std::string file_;
  ExtentUri uri_;
  // Of kFile: its text, and key and label of each line in the order of keys.
  std::unique_ptr<std::string> text_;
  std::vector<std::pair<absl::string_view, absl::string_view>> lines_;
  bool names_ = false;                                   // labels are names
  bool names_given_ = false;                             // by classes=FILE
  std::map<std::string, int32_t, std::less<>> numbers_;  // of names
  int64_t largest_ = -1;                                 // number
  std::vector<int32_t> classes_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_CLASS_LABELS_H_
