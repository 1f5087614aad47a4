// Fuzz target of LitData: whatever index and chunk hold, reading ends, stays
// inside both, and gives samples of the schema or an error.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/storage/litdata/litdata_format.h"
#include "server/storage/litdata/litdata_index.h"
#include "server/storage/little_endian.h"
#include "tests/fuzz/chunk_fuzz.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  return RunChunkFuzz(storage::LitdataFormat(), storage::ListLitdataChunks,
                      data, size);
}

// Of samples with these leaves in a node of `type` with `context`. The repair
// needs a text that ends with two braces.
std::string Index(const std::string& type, const std::string& context,
                  const std::vector<std::string>& formats) {
  const std::vector<std::string> leaves(
      formats.size(),
      R"({\"type\": null, \"context\": null, \"children_spec\": []})");
  return absl::StrCat(
      R"({"chunks": [{"chunk_bytes": 0, "chunk_size": 1, "dim": null,
          "filename": "version"}], "config": {"compression": null,
          "encryption": null, "data_format": [")",
      absl::StrJoin(formats, "\", \""), R"("],
          "data_spec": "[1, {\"type\": \")",
      type, R"(\", \"context\": )", context, R"(, \"children_spec\": [)",
      absl::StrJoin(leaves, ", "), "]}]\"}}");
}

std::string Record(const std::vector<std::string>& values) {
  std::string record;
  for (const std::string& value : values) {
    storage::AppendU32(static_cast<uint32_t>(value.size()), &record);
  }
  return record + absl::StrJoin(values, "");
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  const std::string number("\3\0\0\0\0\0\0\0", 8);
  seeds.push_back(ChunkFuzzInput(
      Index("builtins.dict", R"(\"[\\\"image\\\", \\\"label\\\"]\")",
            {"jpeg", "int"}),
      ChunkFuzzFile({Record({"JPEG", number}), Record({"", number})}, "")));
  const std::string tensor("\0\0\0\x0B\0\0\0\1\0\0\0\2xy", 14);
  std::string numpy;
  for (const uint32_t word : {5, 1, 1}) storage::AppendU32(word, &numpy);
  numpy += "zz";
  seeds.push_back(ChunkFuzzInput(
      Index("builtins.tuple", "null",
            {"tensor", "numpy", "no_header_tensor:1", "bool", "str"}),
      ChunkFuzzFile({Record({tensor, numpy, "four", "\1", "text"})}, "")));
  return seeds;
}

std::vector<std::string> Words() {
  return {"collections.OrderedDict",
          "no_header_numpy:",
          "pil",
          "float",
          "image:png",
          "pickle",
          "PyTreeLoader",
          "children_spec"};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = RepairChunkFuzz, .words = Words};
  return target;
}

}  // namespace millrace
