// A SampleReader over another whose large images are made smaller and stored as
// JPEG (`millrace-data pack --max_side`, `--quality`). The image is decoded as
// the pipeline's decode_image does (docs/images.md), resized with the
// pipeline's antialiased resize, and encoded.
//
// Several images are converted at the same time; samples come in the other's
// order, and their bytes do not depend on the threads. Belongs to one thread at
// a time.
//
//   MR_ASSIGN_OR_RETURN(auto shrinking,
//                       MakeShrinking(std::move(reader), {.max_side = 512}));
//   MR_RETURN_IF_ERROR(shrinking->Next(&sample));
//   std::cout << shrinking->Summary();

#ifndef MILLRACE_SERVER_DATA_TOOL_SHRINKING_READER_H_
#define MILLRACE_SERVER_DATA_TOOL_SHRINKING_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

struct ShrinkOptions {
  // The longer side of an image becomes at most this many pixels, the shorter
  // side in proportion. Images that fit stay as they are, byte for byte. 0: no
  // image changes its size, and every image is encoded again.
  int64_t max_side = 0;
  int quality = 90;      // of the JPEGs, 1 .. 100, libjpeg's
  uint32_t threads = 1;  // at least 1
  // What one of their decoders knows stays as it is. Null: there are none; else
  // they outlive the reader.
  const operators::Operators* operators = nullptr;
};

class ShrinkingReader : public SampleReader {
 public:
  // A sentence: how many images were encoded, their bytes before and after,
  // what stayed as it is, and what JPEG does not keep. Of the samples that
  // Next() has returned.
  virtual std::string Summary() const = 0;
};

// InvalidArgument (a usage error): the samples have no encoded image, or
// several, among which may be masks.
absl::StatusOr<std::unique_ptr<ShrinkingReader>> MakeShrinking(
    std::unique_ptr<SampleReader> reader, const ShrinkOptions& options);

// The line of DatasetInfo::prepared for these options.
std::string ShrinkLine(const ShrinkOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_SHRINKING_READER_H_
