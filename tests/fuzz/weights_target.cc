// Fuzz target of files of weights: safetensors, torch.save's archives, and the
// pickles in them alone, which an archive's checksums would keep changes from.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/logging.h"
#include "proto/dtype.h"
#include "tests/fuzz/fuzz_target.h"
#include "trainer/weights/pickle.h"
#include "trainer/weights/safetensors.h"
#include "trainer/weights/torch_file.h"
#include "trainer/weights/zip_archive.h"

namespace millrace {
namespace {

std::string FileBytes(const std::string& name) {
  std::ifstream in(absl::StrCat("tests/testdata/trainer/weights/", name),
                   std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  MR_CHECK(!bytes.empty()) << name;
  return bytes;
}

// Every element lies in the bytes: the last one is touched.
bool Check(const absl::StatusOr<std::vector<weights::StoredTensor>>& tensors) {
  if (!tensors.ok()) {
    MR_CHECK(!tensors.status().message().empty());
    return false;
  }
  for (const weights::StoredTensor& tensor : *tensors) {
    const uint64_t size = ElementBytes(tensor.dtype);
    MR_CHECK(size > 0);
    MR_CHECK(tensor.shape.size() == tensor.strides.size());
    uint64_t last = 0;
    bool empty = false;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      MR_CHECK(tensor.shape[i] >= 0 && tensor.strides[i] >= 0);
      empty = empty || tensor.shape[i] == 0;
      if (!empty) {
        last += static_cast<uint64_t>(tensor.shape[i] - 1) *
                static_cast<uint64_t>(tensor.strides[i]);
      }
    }
    if (empty) continue;
    MR_CHECK((last + 1) * size <= tensor.bytes.size());
    volatile char touched = tensor.bytes.back();
    (void)touched;
  }
  return true;
}

bool Run(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (absl::StartsWith(bytes, "\x80")) {
    const bool pickle = weights::Pickle::Parse(bytes).ok();
    // A storage of 16 float32 and its neighbours.
    const std::string storage(64, '\x3f');
    const bool weights = Check(weights::ParseTorchFile(weights::ToZip(
        {{"archive/data.pkl", bytes},
         {"archive/data/0", storage},
         {"archive/data/1", storage},
         {"archive/data/2", absl::string_view(storage).substr(0, 7)}})));
    MR_CHECK(pickle || !weights);
    return pickle;
  }
  return Check(absl::StartsWith(bytes, "PK")
                   ? weights::ParseTorchFile(bytes)
                   : weights::ParseSafetensors(bytes));
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {
      FileBytes("module.safetensors"), FileBytes("types.safetensors"),
      FileBytes("module.pt"), FileBytes("types.pt")};
  for (const char* name :
       {"module.pt", "types.pt", "training.pt", "protocol_4.pt"}) {
    const std::string file = FileBytes(name);
    const auto entries = weights::ParseZip(file);
    MR_CHECK(entries.ok()) << entries.status();
    for (const weights::ZipEntry& entry : *entries) {
      if (absl::EndsWith(entry.name, "/data.pkl")) {
        seeds.emplace_back(entry.data);
      }
    }
  }
  return seeds;
}

std::vector<std::string> Words() {
  return {"dtype",        "shape",  "data_offsets", "__metadata__",
          "F32",          "BF16",   "torch._utils", "_rebuild_tensor_v2",
          "FloatStorage", "storage"};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds, .words = Words};
  return target;
}

}  // namespace millrace
