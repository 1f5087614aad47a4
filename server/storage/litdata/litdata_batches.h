// LitData chunks whose samples are compressed inside the file, one by one
// (compression_level "sample") or in batches ("batch", litdata's default), as
// unpackers: the raw bytes are the chunk that litdata writes without
// compression.
//
// A chunk with batches is, with all numbers little-endian,
//
//   "LDFZ01\0\0" | u16 1 | u16 flags | u32 N | u32 samples of a batch | u32 B
//   | u32 offset[N + 1] in the raw bytes of the samples
//   | B times: u32 first sample | u32 samples | u64 offset in the file
//     | u32 bytes | u32 raw bytes
//   | the batches, a zstd frame each
//
// and one with samples has the table of a raw chunk and a zstd frame for each
// sample.

#ifndef MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_BATCHES_H_
#define MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_BATCHES_H_

#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

const Unpacker& LitdataBatches();
const Unpacker& LitdataSamples();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_BATCHES_H_
