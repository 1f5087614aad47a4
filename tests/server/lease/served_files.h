// Datasets of files in a server with leases, without the engine: what the
// engine would serve is a map, and samples are read from it.
//
//   ServedFiles served(folder / "cache");
//   LeasedDatasets datasets(served.options());
//   ... datasets.Acquire({uri, ""}) ...
//   EXPECT_TRUE(served.Read(name, 0).ok());

#ifndef MILLRACE_TESTS_SERVER_LEASE_SERVED_FILES_H_
#define MILLRACE_TESTS_SERVER_LEASE_SERVED_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/lease/leased_datasets.h"
#include "server/storage/open.h"
#include "server/storage/record_source.h"

namespace millrace::lease {

// Not thread-safe.
class ServedFiles {
 public:
  explicit ServedFiles(std::string cache_dir)
      : cache_dir_(std::move(cache_dir)) {}

  // Valid as long as this object.
  LeasedDatasets::Options options() {
    return {.open = [this](const std::string& uri,
                           bool) -> absl::StatusOr<LeasedDatasets::Source> {
              auto source =
                  storage::OpenRecordSource(uri, {.cache_dir = cache_dir_});
              if (!source.ok()) return source.status();
              return LeasedDatasets::Source(*std::move(source));
            },
            .add =
                [this](const std::string& name, LeasedDatasets::Source source) {
                  served_[name] = std::move(source);
                  return absl::OkStatus();
                },
            .remove = [this](const std::string& name) { served_.erase(name); }};
  }

  absl::Status Read(const std::string& name, int64_t sample) {
    const auto reader = served_.at(name)->NewReader();
    return (*reader)->Read(
        sample, [](const storage::EncodedSample&) { return absl::OkStatus(); });
  }

 private:
  const std::string cache_dir_;
  std::map<std::string, LeasedDatasets::Source> served_;
};

}  // namespace millrace::lease

#endif  // MILLRACE_TESTS_SERVER_LEASE_SERVED_FILES_H_
