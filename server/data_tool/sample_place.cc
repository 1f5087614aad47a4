#include "server/data_tool/sample_place.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/storage/sample_files.h"

namespace millrace::data_tool {

int ShardOf(const DatasetInfo& info, int64_t sample) {
  const auto& shards = info.shards();
  const auto after =
      std::upper_bound(shards.begin(), shards.end(), sample,
                       [](int64_t index, const ShardInfo& shard) {
                         return index < shard.first_sample();
                       });
  return static_cast<int>(after - shards.begin()) - 1;
}

std::string PlaceOf(const storage::RecordSource& source, int64_t sample) {
  if (const storage::SampleFiles* const files = source.sample_files()) {
    return absl::StrCat("file ", files->FileOf(sample));
  }
  const ShardInfo& shard = source.info().shards(ShardOf(source.info(), sample));
  return absl::StrCat("shard ", shard.name(), ", row ",
                      sample - shard.first_sample());
}

}  // namespace millrace::data_tool
