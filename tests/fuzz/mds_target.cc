// Fuzz target of MDS: whatever index and shard hold, reading ends, stays inside
// both, and gives samples of the schema or an error.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/little_endian.h"
#include "server/storage/mds/mds_format.h"
#include "server/storage/mds/mds_index.h"
#include "tests/fuzz/chunk_fuzz.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  return RunChunkFuzz(storage::MdsFormat(), storage::ListMdsShards, data, size);
}

// The repair needs a text that ends with two braces.
std::string Index(const std::string& columns) {
  return absl::StrCat(R"({"shards": [{)", columns,
                      R"(, "compression": null, "format": "mds", "hashes": [],
      "raw_data": {"basename": "version", "bytes": 0, "hashes": {}}, "samples": 1,
      "version": 2, "zip_data": null}], "version": 2, "end": {}})");
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  const std::string photos =
      R"("column_names": ["image", "label"], "column_encodings": ["jpeg",
         "int"], "column_sizes": [null, 8])";
  std::string record;
  storage::AppendText("JPEG", &record);
  storage::AppendU64(3, &record);
  seeds.push_back(ChunkFuzzInput(
      Index(photos), ChunkFuzzFile({record, record}, "{" + photos + "}")));
  // Arrays with headers, texts, and a raw image of one pixel.
  const std::string arrays =
      R"("column_names": ["a", "b", "c", "d", "e"], "column_encodings":
         ["ndarray", "ndarray:int16", "ndarray:float32:1", "pil", "str_int"],
         "column_sizes": [null, null, 4, null, null])";
  const std::string a("\x08\x04\x02xy", 5);
  const std::string b("\x04\x01zz", 4);
  std::string d;
  storage::AppendU32(1, &d);
  storage::AppendU32(1, &d);
  storage::AppendText("L", &d);
  d += "p";
  record.clear();
  for (const std::string& value : {a, b, d, std::string("17")}) {
    storage::AppendU32(static_cast<uint32_t>(value.size()), &record);
  }
  record += a + b + "four" + d + "17";
  seeds.push_back(ChunkFuzzInput(Index(arrays), ChunkFuzzFile({record}, "")));
  return seeds;
}

std::vector<std::string> Words() {
  return {"ndarray:", "uint64", "float16", "str_float", "pkl",   "bytes",
          "json",     "null",   "png",     "class",     "target"};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = RepairChunkFuzz, .words = Words};
  return target;
}

}  // namespace millrace
