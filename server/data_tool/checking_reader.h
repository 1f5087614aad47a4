// A SampleReader over another whose images are decoded on the way, as
// ImageCheck decodes them, to find damaged ones. For a packing that goes on
// with the shards of an interrupted one: the images of the kept samples have
// been checked then, so the others are checked when they are read, not before.
//
// Several images are checked at the same time; samples come in the other's
// order. Belongs to one thread at a time.
//
//   reader = MakeChecking(std::move(reader), AvailableCpus(), nullptr);

#ifndef MILLRACE_SERVER_DATA_TOOL_CHECKING_READER_H_
#define MILLRACE_SERVER_DATA_TOOL_CHECKING_READER_H_

#include <cstdint>
#include <memory>

#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

// Checks the fields of kind ENCODED_IMAGE; Next() returns DataLoss for a sample
// with an image that does not decode. `threads` is at least 1. `operators` as
// for ImageCheck; they outlive the reader.
std::unique_ptr<SampleReader> MakeChecking(
    std::unique_ptr<SampleReader> reader, uint32_t threads,
    const operators::Operators* operators);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_CHECKING_READER_H_
