// SampleKeys visits the samples of a foreign LMDB environment in the bytewise
// order of their keys, and skips the keys that belong to samples (labels) or
// count them.
//
// One thread at a time. Does not own environment and options.
//
//   SampleKeys keys(environment, options, /*text=*/false);
//   SampleKeys::Sample sample;
//   MR_ASSIGN_OR_RETURN(bool more, keys.Next(&sample));

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_SAMPLE_KEYS_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_SAMPLE_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/foreign_lmdb/environment.h"
#include "server/storage/foreign_lmdb/foreign_options.h"
#include "server/storage/lmdb/lmdb_cursor.h"
#include "server/storage/lmdb/lmdb_tree.h"

namespace millrace::storage {

class SampleKeys {
 public:
  struct Sample {
    absl::string_view key;  // valid until the next call
    LmdbPlace place;        // of the value
    LmdbPlace text;         // of the text that belongs to it
    // The value of its label key; valid as long as the environment.
    absl::Span<const uint8_t> label;
  };

  // `text`: the layout of images with texts.
  SampleKeys(const Environment& environment, const ForeignOptions& options,
             bool text)
      : environment_(environment),
        options_(options),
        text_(text),
        cursor_(environment.NewCursor()),
        texts_(environment.NewCursor()) {}

  // False: no more. DataLoss: a page is damaged, a label or a text is missing,
  // or the number of samples is wrong; names the file and the key.
  // InvalidArgument: the environment contains a named database.
  // Unavailable: the file has changed.
  absl::StatusOr<bool> Next(Sample* sample);

 private:
  absl::Status FindLabel(Sample* sample);
  absl::Status FindText(Sample* sample);
  absl::Status CheckCount() const;

  const Environment& environment_;
  const ForeignOptions& options_;
  const bool text_;
  LmdbCursor cursor_;
  LmdbCursor texts_;  // of a layout with texts: at the labels
  LmdbTree::Position position_;
  int64_t seen_ = 0;
};

// Whether the environment has images with texts: the keys num-samples and
// image-000000001.
bool HasTexts(const Environment& environment);

// "environment: the record 'KEY' " for errors.
absl::Status AtKey(const absl::Status& status, const Environment& environment,
                   absl::string_view key);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_SAMPLE_KEYS_H_
