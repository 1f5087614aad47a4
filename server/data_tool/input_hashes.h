// InputHashes hashes each sample of a SampleReader on its way, for the writer
// that compares the input of an interrupted packing with that of the next one
// (DatasetWriter::Confirm()). The readers above it convert the samples and read
// ahead; the hashes wait until Take().
//
// Belongs to one thread at a time. Outlives the reader that Over() returns.
//
//   InputHashes hashes;
//   auto reader = hashes.Over(std::move(input));
//   MR_RETURN_IF_ERROR(hashes.Skip(kept, confirm));
//   ... reader->Next(&sample) ...
//   writer->Append(sample.fields, sample.origin, hashes.Take());

#ifndef MILLRACE_SERVER_DATA_TOOL_INPUT_HASHES_H_
#define MILLRACE_SERVER_DATA_TOOL_INPUT_HASHES_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/data_tool/sample_reader.h"
#include "server/storage/content_hash.h"

namespace millrace::data_tool {

// The hash of sample `index` with its origin.
storage::Hash128 HashInput(int64_t index, const SampleReader::Sample& sample);

class InputHashes {
 public:
  InputHashes() = default;
  InputHashes(const InputHashes&) = delete;
  InputHashes& operator=(const InputHashes&) = delete;

  // Called once.
  std::unique_ptr<SampleReader> Over(std::unique_ptr<SampleReader> reader);

  // Reads the first `count` samples and gives `see` their hashes, before Next()
  // is called: the reader begins behind them, and its description has the
  // number of the others. Errors of the reader and of `see`.
  absl::Status Skip(int64_t count,
                    absl::FunctionRef<absl::Status(storage::Hash128)> see);

  // The hash of the next sample, in order; it has been read.
  storage::Hash128 Take();

 private:
  class Reader;
  Reader* reader_ = nullptr;  // owned by the caller of Over()
  std::deque<storage::Hash128> hashes_;
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_INPUT_HASHES_H_
