// What the fuzz targets of chunk files (MDS, LitData) share. An input is a
// text, with its length as u32 before it, and a chunk file: the text is
// index.json, and its files are of 0 bytes, such as /dev/null.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_TESTS_FUZZ_CHUNK_FUZZ_H_
#define MILLRACE_TESTS_FUZZ_CHUNK_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/storage/chunks/index_json.h"
#include "server/storage/extents/extent_format.h"

namespace millrace {

using ListChunks =
    absl::StatusOr<storage::ObjectList> (*)(const storage::IndexJson& index);

// Lists the index, makes the rule by the chunk file, and splits every record of
// the file. Returns whether a record was one. Ends the process on a broken
// promise.
bool RunChunkFuzz(const storage::ExtentFormat& format, ListChunks list,
                  const uint8_t* data, size_t size);

// An input of that form.
std::string ChunkFuzzInput(const std::string& index, const std::string& chunk);

// A chunk file with `gap` behind its table.
std::string ChunkFuzzFile(const std::vector<std::string>& records,
                          const std::string& gap);

// Writes a length that fits before the text again: random changes move the end
// of the text.
void RepairChunkFuzz(std::string& input);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_CHUNK_FUZZ_H_
