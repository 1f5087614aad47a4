// A SampleReader over another whose JPEGs are rewritten on the way so that they
// are cheaper to decode, without changing a pixel (server/decode/
// seekable_jpeg.h). What cannot be rewritten stays as it is and is counted.
//
// Several images are rewritten at the same time, on threads of its own; samples
// come in the other's order all the same, and their bytes do not depend on the
// threads. Belongs to one thread at a time. A few samples a thread are held in
// memory.
//
//   auto seekable = MakeSeekable(*std::move(reader), AvailableCpus(), nullptr);
//   MR_RETURN_IF_ERROR(seekable->Next(&sample));
//   std::cout << seekable->Summary();

#ifndef MILLRACE_SERVER_DATA_TOOL_SEEKABLE_READER_H_
#define MILLRACE_SERVER_DATA_TOOL_SEEKABLE_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

class SeekableReader : public SampleReader {
 public:
  // A sentence: how many were rewritten, their bytes before and after, what
  // stayed as it is and why. Of the samples that Next() has returned.
  virtual std::string Summary() const = 0;
};

// Rewrites the fields of kind ENCODED_IMAGE; `threads` is at least 1. What a
// decoder of `operators` knows stays as it is, for it may read what rewriting
// drops. Null: there are none; else they outlive the reader.
std::unique_ptr<SeekableReader> MakeSeekable(
    std::unique_ptr<SampleReader> reader, uint32_t threads,
    const operators::Operators* operators);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_SEEKABLE_READER_H_
