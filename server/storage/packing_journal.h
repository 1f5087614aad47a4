// PackingJournal is the list of the shards that a packing has finished, in a
// file of the folder in which the packing writes. The next packing with the
// same flags and input keeps these shards (DatasetWriter::Options::resume).
//
// It knows nothing of the shards' files. Every line is on the disk when Add()
// returns; a line that was cut off by a crash is no line. Belongs to one thread
// at a time.
//
//   PackingJournal::Content content;
//   if (PackingJournal::Read(folder, &content)) Keep(content.shards);
//   MR_ASSIGN_OR_RETURN(auto journal, PackingJournal::Start(folder, content));
//   MR_RETURN_IF_ERROR(journal->Add(shard));

#ifndef MILLRACE_SERVER_STORAGE_PACKING_JOURNAL_H_
#define MILLRACE_SERVER_STORAGE_PACKING_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/content_hash.h"

namespace millrace::storage {

class PackingJournal {
 public:
  // Its name within the folder, one of a temporary file.
  static constexpr absl::string_view kName = ".journal.tmp";

  struct Shard {
    int64_t samples = 0;
    int64_t bytes = 0;  // of the file, before its metadata
    Hash128 content;    // sum of the packed samples' hashes
    Hash128 input;      // sum of the hashes of the samples that were read
  };
  struct Content {
    Hash128 flags;  // of what the flags of the packing decide
    Hash128 input;  // of the description of its input
    std::vector<Shard> shards;
    // All shards are finished and get their names.
    bool placing = false;
  };

  // False: there is no journal in `folder`, or one that cannot be used.
  static bool Read(const std::string& folder, Content* content);

  // Writes a journal with `content` in place of one that is there. Errors as
  // FileError() makes them.
  static absl::StatusOr<std::unique_ptr<PackingJournal>> Start(
      const std::string& folder, const Content& content);

  ~PackingJournal();
  PackingJournal(const PackingJournal&) = delete;
  PackingJournal& operator=(const PackingJournal&) = delete;

  absl::Status Add(const Shard& shard);
  absl::Status AddPlacing();

 private:
  PackingJournal(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Append(absl::string_view lines);

  const std::string path_;
  const int fd_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PACKING_JOURNAL_H_
