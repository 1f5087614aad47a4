// Helpers of the storage tests: folders, files, synthetic datasets.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_STORAGE_TESTING_H_
#define MILLRACE_TESTS_SERVER_STORAGE_STORAGE_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/dataset_writer.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// A new empty folder, removed with all that is in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(absl::string_view name) const;
  // Names in the folder, hidden ones too, sorted.
  std::vector<std::string> Names() const;

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, absl::string_view bytes);

using Samples = std::vector<std::vector<std::string>>;

// image ENCODED_IMAGE, label of three named classes.
DatasetInfo ImageDataset(int64_t samples);
// `samples` of it: images are any bytes, from a few to some kilobytes.
Samples ImageSamples(int64_t samples);

// One field of every kind and type that all formats can hold.
DatasetInfo EveryKindDataset(int64_t samples);
Samples EveryKindSamples(int64_t samples);

template <typename T>
std::string Scalar(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

absl::StatusOr<DatasetInfo> Pack(absl::string_view uri, const DatasetInfo& info,
                                 const Samples& samples,
                                 const DatasetWriter::Options& options = {});

// All samples through one reader, in order.
absl::StatusOr<Samples> ReadAll(const RecordSource& source);

// The formats that this program was built with: "lmdb", "parquet".
std::vector<std::string> Schemes();

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_STORAGE_TESTING_H_
