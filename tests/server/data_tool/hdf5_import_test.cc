// millrace-data on HDF5 files: pack, diff, inspect, head, verify and index.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::data_tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Uri(absl::string_view rest) {
  return absl::StrCat("hdf5:tests/testdata/hdf5/", rest);
}

class Hdf5ImportTest : public ::testing::Test {
 protected:
  Result Pack(const std::string& input, absl::string_view name,
              std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"pack", "--input=" + input,
                                     "--output=" + Output(name),
                                     "--cache_dir=off"};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }
  std::string Output(absl::string_view name) const {
    return absl::StrCat("lmdb:", folder_ / absl::StrCat(name, ".lmdb"));
  }
  std::string Fingerprint(absl::string_view name) {
    const auto source = storage::OpenRecordSource(Output(name), {});
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? (*source)->info().fingerprint() : "";
  }

  const storage::TempFolder folder_;
};

TEST_F(Hdf5ImportTest, PackedTablesAreTheSameWhateverTheirChunksAre) {
  std::set<std::string> fingerprints;
  for (const char* name : {"pixels", "chunks", "gzip", "lzf", "scaled"}) {
    const std::string input = Uri(absl::StrCat(name, ".h5"));
    const Result packed = Pack(input, name);
    ASSERT_EQ(packed.code, 0) << packed.err;
    EXPECT_EQ(packed.err, "");
    fingerprints.insert(Fingerprint(name));
    const Result same = Call({"diff", input, Output(name), "--cache_dir=off"});
    EXPECT_EQ(same.code, 0) << same.out << same.err;
  }
  EXPECT_EQ(fingerprints.size(), 1u);
  const Result differ =
      Call({"diff", Uri("gzip.h5?label_offset=1"), Output("pixels")});
  EXPECT_EQ(differ.code, 1) << differ.out;
  const Result parquet =
      Call({"pack", "--input=" + Uri("gzip.h5"),
            "--output=parquet:" + folder_ / "table.parquet", "--shards=1"});
  EXPECT_EQ(parquet.code, 0) << parquet.err;
  EXPECT_THAT(parquet.out, HasSubstr(*fingerprints.begin()));
}

TEST_F(Hdf5ImportTest, JpegsArePackedAndDecoded) {
  const Result packed = Pack(Uri("photos.h5"), "photos");
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_THAT(packed.out, AllOf(HasSubstr("packed 8 samples"),
                                HasSubstr("every image was decoded")));
  const Result verified = Call({"verify", Uri("photos.h5")});
  EXPECT_EQ(verified.code, 0) << verified.err;
}

TEST_F(Hdf5ImportTest, DatasetsThatAreNoFieldsAreNamed) {
  const Result packed = Pack(Uri("every.h5"), "every");
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_THAT(
      packed.err,
      AllOf(HasSubstr("column bad.compound left out: the dataset has a "
                      "compound type of 2 members"),
            HasSubstr("column bad.virtual left out: the dataset is a virtual "
                      "dataset")));
  const Result shown = Call({"inspect", Uri("every.h5")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("bad.compound"), HasSubstr("label"),
                    Not(HasSubstr("millrace-data index")), HasSubstr("hdf5")));
}

TEST_F(Hdf5ImportTest, HeadShowsCompressedRows) {
  const Result head =
      Call({"head", "--samples=2", Uri("gzip.h5"), "--cache_dir=off"});
  EXPECT_EQ(head.code, 0) << head.err;
  EXPECT_THAT(head.out, AllOf(HasSubstr("boxes"), HasSubstr("1.5")));
}

TEST_F(Hdf5ImportTest, WhatCannotBeReadIsRefused) {
  const Result index = Call({"index", Uri("pixels.h5")});
  EXPECT_EQ(index.code, 2) << index.err;
  EXPECT_THAT(index.err, HasSubstr("hdf5: needs no index"));
  const Result mixed = Pack(Uri("groups.h5"), "groups");
  EXPECT_EQ(mixed.code, 2) << mixed.err;
  EXPECT_THAT(mixed.err, HasSubstr("different numbers of rows"));
  storage::WriteFile(folder_ / "no.h5", "no HDF5");
  const Result damaged = Pack("hdf5:" + folder_ / "no.h5", "no");
  EXPECT_EQ(damaged.code, 1) << damaged.err;
  EXPECT_THAT(damaged.err, HasSubstr("it is not an HDF5 file"));
}

}  // namespace
}  // namespace millrace::data_tool
