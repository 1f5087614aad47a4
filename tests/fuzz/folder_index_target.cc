// Fuzz target of the index of an image folder: whatever its file holds, parsing
// ends and stays inside the input, and an index that is taken has only paths
// below its folder.

#include <google/protobuf/stubs/logging.h>
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/storage/imagefolder/folder_index.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  // protobuf writes a line for each string that is no UTF-8.
  static const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  (void)quiet;
  const auto index =
      storage::DecodeFolderIndex({reinterpret_cast<const char*>(data), size});
  if (!index.ok()) return false;
  const storage::FolderFiles& files = index->files;
  MR_CHECK(files.size() >= 1);
  const auto classes = static_cast<int64_t>(files.classes().size());
  std::string before;
  for (int64_t i = 0; i < files.size(); ++i) {
    const std::string path = files.PathOf(i);
    MR_CHECK(path > before) << "the paths are not in order";
    MR_CHECK(!absl::StartsWith(path, "/") && !absl::StartsWith(path, ".") &&
             !absl::StrContains(path, "/."));
    MR_CHECK(files.LabelOf(i) >= 0 && files.LabelOf(i) < classes);
    before = path;
  }
  const auto again =
      storage::DecodeFolderIndex(storage::EncodeFolderIndex(*index));
  MR_CHECK(again.ok()) << again.status().message();
  MR_CHECK(storage::DescribeFolder(*again).SerializeAsString() ==
           storage::DescribeFolder(*index).SerializeAsString());
  return true;
}

void Repair(std::string& input) {
  constexpr size_t kPrefix = 24;
  if (input.size() < kPrefix) return;
  const uint64_t sum =
      XXH3_64bits(input.data() + kPrefix, input.size() - kPrefix);
  std::memcpy(input.data() + 16, &sum, sizeof(sum));
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const int classes : {1, 3}) {
    storage::FolderIndex index;
    index.folder = "/data/train";
    index.rules = 1;
    index.warnings = {"2 files left out"};
    index.folders = {{"", 1, 2, 3}, {"class0", 4, 5, 6}};
    for (int c = 0; c < classes; ++c) {
      storage::ListedFiles files;
      for (int i = 0; i < 4; ++i) {
        files.Add(absl::StrCat(i % 2 == 0 ? "deep/" : "", i, ".jpg"), 1000 + i,
                  1'700'000'000'000 + i);
      }
      MR_CHECK(index.files.AddClass(absl::StrCat("class", c), c, files).ok());
    }
    index.listing_sum = storage::HashToHex(index.files.ListingSum());
    seeds.push_back(storage::EncodeFolderIndex(index));
    index.content_sum = index.listing_sum;
    seeds.push_back(storage::EncodeFolderIndex(index));
  }
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = Repair};
  return target;
}

}  // namespace millrace
