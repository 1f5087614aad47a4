// The schemes of the datasets that a server opens by itself, for those that
// look at a URI before it is opened, and for sentences. A new format adds its
// line here.
//
// Pure functions, safe from any thread.
//
//   HasScheme("tar:/data/0.tar")  ->  true
//   "write " + SchemesText("PATH")

#ifndef MILLRACE_SERVER_STORAGE_SCHEMES_H_
#define MILLRACE_SERVER_STORAGE_SCHEMES_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

struct Scheme {
  absl::string_view name;
  // Its readers hold files or records in memory for reads
  // (OpenSourceOptions::read_budget).
  bool reads_files = false;
  // `millrace-data index` makes its index.
  bool has_index = false;
};

inline constexpr Scheme kSchemes[] = {
    {.name = "lmdb"},
    {.name = "parquet"},
    {.name = "arrow"},
    {.name = "imagefolder", .reads_files = true, .has_index = true},
    {.name = "tar", .reads_files = true, .has_index = true},
    {.name = "tfrecord", .reads_files = true, .has_index = true},
    {.name = "mds", .reads_files = true, .has_index = true},
    {.name = "litdata", .reads_files = true, .has_index = true},
    {.name = "csv", .reads_files = true, .has_index = true},
    {.name = "hdf5", .reads_files = true},
};

// The scheme that `uri` begins with; null: none of these.
inline const Scheme* SchemeOf(absl::string_view uri) {
  const size_t colon = uri.find(':');
  if (colon == uri.npos) return nullptr;
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == uri.substr(0, colon)) return &scheme;
  }
  return nullptr;
}

inline bool HasScheme(absl::string_view uri) {
  return SchemeOf(uri) != nullptr;
}

inline bool ReadsFiles(absl::string_view uri) {
  const Scheme* const scheme = SchemeOf(uri);
  return scheme != nullptr && scheme->reads_files;
}

inline bool HasIndex(absl::string_view uri) {
  const Scheme* const scheme = SchemeOf(uri);
  return scheme != nullptr && scheme->has_index;
}

// "lmdb:PATH, parquet:PATH, ... or hdf5:PATH"; `before` stands before each one.
inline std::string SchemesText(absl::string_view path,
                               absl::string_view before = "") {
  std::string text;
  const size_t count = sizeof(kSchemes) / sizeof(kSchemes[0]);
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppend(&text,
                    i == 0           ? ""
                    : i + 1 == count ? " or "
                                     : ", ",
                    before, kSchemes[i].name, ":", path);
  }
  return text;
}

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SCHEMES_H_
