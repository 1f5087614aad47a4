// Fuzz target of Arrow's IPC files: the input is a whole file. Opening and
// reading end, values have the sizes of the schema, and no access leaves the
// file.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/storage/arrow/arrow_source.h"
#include "server/storage/sample_check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace {
namespace {

// Rows of an input that are read: an input may claim any number.
constexpr int64_t kMaxRows = 64;

bool Run(const uint8_t* data, size_t size) {
  static const auto* const folder = new storage::TempFolder();
  const std::string path = *folder / "input.arrow";
  storage::WriteFile(path, {reinterpret_cast<const char*>(data), size});
  const auto source = storage::OpenArrowSource(
      {.files = {path}, .one_file = true}, {.cache_bytes = 1 << 20});
  if (!source.ok()) {
    MR_CHECK(!source.status().message().empty());
    return false;
  }
  const DatasetInfo& info = (*source)->info();
  MR_CHECK(info.samples() > 0);
  const auto check = storage::SampleCheck::Create(info.schema());
  MR_CHECK(check.ok()) << check.status().message();
  const auto reader = (*source)->NewReader();
  MR_CHECK(reader.ok());
  uint64_t sum = 0;
  int64_t read = 0;
  for (int field = 0; field < info.schema().fields_size(); ++field) {
    std::vector<bool> used(info.schema().fields_size());
    used[field] = true;
    if (!(*reader)->UseFields(used).ok()) continue;
    for (int64_t i = 0; i < info.samples() && i < kMaxRows; ++i) {
      // The last rows, too.
      const int64_t row = i % 2 == 0 ? i : info.samples() - i;
      const absl::Status status =
          (*reader)->Read(row, [&](const storage::EncodedSample& sample) {
            MR_CHECK(check->Check(sample.fields, {field}).ok());
            for (const uint8_t byte : sample.fields[field]) sum += byte;
            ++read;
            return absl::OkStatus();
          });
      MR_CHECK(status.ok() || !status.message().empty());
    }
  }
  // Keeps the reads of the bytes.
  MR_CHECK(sum != UINT64_MAX);
  return read > 0;
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const char* const name :
       {"stream.arrow", "pandas.feather", "zstd.feather", "polars.arrow",
        "polars_stream.arrow", "saved/data-00000-of-00002.arrow"}) {
    seeds.push_back(
        storage::ReadFile(absl::StrCat("tests/testdata/arrow/", name)));
  }
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
