// A source of which no answer is the default of RecordSource, and the check
// that another source gives them all: for sources that stand for another one.
// One of them lost the names of the files, and errors of datasets named none.
//
//   auto base = std::make_shared<OddSource>();
//   ExpectForwards(AddedSource("name", base), *base);

#ifndef MILLRACE_TESTS_SERVER_STORAGE_ODD_SOURCE_H_
#define MILLRACE_TESTS_SERVER_STORAGE_ODD_SOURCE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/names.h"
#include "server/storage/record_source.h"
#include "server/storage/sample_files.h"

namespace millrace::storage {

class OddSource final : public RecordSource, public SampleFiles {
 public:
  OddSource() { info_.set_fingerprint("f00d"); }

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override {
    return std::make_unique<OddReader>();
  }
  absl::Status CheckFields(const std::vector<bool>& used) const override {
    return absl::FailedPreconditionError(absl::StrCat("fields ", used.size()));
  }
  absl::Status CheckFieldsWithin(const std::vector<bool>& used,
                                 uint64_t cache_bytes) const override {
    return absl::FailedPreconditionError(
        absl::StrCat("fields ", used.size(), " within ", cache_bytes));
  }
  ReadWait read_wait() const override { return ReadWait::kPages; }
  const SampleFiles* sample_files() const override { return this; }
  absl::Status CheckFiles() const override {
    return absl::UnavailableError("files");
  }
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override {
    return absl::UnavailableError(absl::StrCat("files of ", samples.size()));
  }
  uint32_t max_concurrent_reads() const override { return 7; }
  uint64_t metadata_bytes() const override { return 70; }
  uint64_t unused_bytes() const override { return 700; }

  std::string FileOf(int64_t index) const override {
    return absl::StrCat("file-", index);
  }
  uint64_t BytesOf(int64_t index, const std::vector<bool>&) const override {
    return static_cast<uint64_t>(index);
  }
  std::string FilesIdentity() const override { return "odd"; }
  std::string index_file() const override { return "odd.index"; }

 private:
  class OddReader final : public RecordReader {
   public:
    absl::Status Read(
        int64_t index,
        absl::FunctionRef<absl::Status(const EncodedSample&)>) override {
      return absl::DataLossError(absl::StrCat("sample ", index));
    }
  };

  DatasetInfo info_;
};

// `fields`: whether CheckFields() is that of `base`, too.
inline void ExpectForwards(const RecordSource& source, const OddSource& base,
                           bool fields = true) {
  EXPECT_EQ(&source.info(), &base.info());
  const auto reader = source.NewReader();
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(
      (*reader)->Read(3, [](const EncodedSample&) { return absl::OkStatus(); }),
      absl::DataLossError("sample 3"));
  const std::vector<bool> used = {true, false};
  if (fields) {
    EXPECT_EQ(source.CheckFields(used), base.CheckFields(used));
  }
  EXPECT_EQ(source.CheckFieldsWithin(used, 9), base.CheckFieldsWithin(used, 9));
  EXPECT_EQ(source.read_wait(), base.read_wait());
  EXPECT_EQ(source.BytesOf(5, used), base.BytesOf(5, used));
  EXPECT_EQ(source.sample_files(), base.sample_files());
  EXPECT_EQ(source.FilesIdentity(), base.FilesIdentity());
  EXPECT_EQ(source.index_file(), base.index_file());
  EXPECT_EQ(source.CheckFiles(), base.CheckFiles());
  EXPECT_EQ(source.CheckFilesOf({1, 2}), base.CheckFilesOf({1, 2}));
  EXPECT_EQ(source.max_concurrent_reads(), base.max_concurrent_reads());
  EXPECT_EQ(source.metadata_bytes(), base.metadata_bytes());
  EXPECT_EQ(source.unused_bytes(), base.unused_bytes());
}

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_ODD_SOURCE_H_
