// The options of an LMDB dataset that another program wrote, as they stand
// behind the '?' of its URI.
//
//   lmdb:/data/train?label=prefix
//
// Pure functions.

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_OPTIONS_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/foreign_lmdb/key_pattern.h"

namespace millrace::storage {

struct ForeignOptions {
  // What the class index of a sample comes from.
  enum class LabelFrom {
    kNone,     // or from the value, where it is a Datum
    kPrefix,   // label=prefix: the key before its first '/', otherwise '_'
    kPattern,  // label=PATTERN with {class} (key_pattern.h)
    kFile,     // labels=FILE: lines of KEY<TAB>LABEL
    kKey,      // label_key=PATTERN: the value of another key
  };

  std::string database;  // db=NAME; empty: the unnamed one
  std::string layout;    // layout=NAME, as ValueLayout::Infer() takes it
  LabelFrom label_from = LabelFrom::kNone;
  std::optional<KeyPattern> pattern;  // of kPattern
  std::string labels_file;
  // label_key=BEFORE{key}BEHIND
  std::string before_key;
  std::string behind_key;

  // InvalidArgument: an unknown option, a wrong value, or options that exclude
  // each other; names it.
  static absl::StatusOr<ForeignOptions> Parse(const ExtentUri& uri);

  // The key with the label of `key`; of kKey.
  std::string LabelKeyOf(absl::string_view key) const;
  // Whether `key` is that of a label; of kKey.
  bool IsLabelKey(absl::string_view key) const;
};

// The class name of a key by kPrefix; empty: the key has none.
absl::string_view ClassPrefixOf(absl::string_view key);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_OPTIONS_H_
