// millrace-data over shards that are served without packing: what inspect says
// of their index, and that neither verify nor index loses the content hash.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace::data_tool {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ShardCommandsTest : public ::testing::Test {
 protected:
  ShardCommandsTest() { Write("second"); }

  // Three samples: one of 1 byte, `text`, and one of 1,000 bytes.
  void Write(const std::string& text) {
    storage::WriteFile(
        shard_, storage::TarMemberBytes("a.txt", "1") +
                    storage::TarMemberBytes("b.txt", text) +
                    storage::TarMemberBytes("c.txt", std::string(1000, 'c')) +
                    storage::TarEnd());
  }
  std::string Uri() const { return "tar:" + shard_; }
  std::string Cache() const { return "--cache_dir=" + folder_ / "cache"; }

  storage::TempFolder folder_;
  const std::string shard_ = folder_ / "0.tar";
};

TEST_F(ShardCommandsTest, InspectNamesTheIndexAndTheSizes) {
  const Result listed = Call({"inspect", Uri(), Cache()});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out,
              ContainsRegex("index        .*/cache/tar-.*[.]mrindex \\(without "
                            "the hash of the content, [0-9]+s old\\)"));
  ASSERT_EQ(Call({"index", Uri(), Cache()}).code, 0);
  const Result indexed = Call({"inspect", Uri(), Cache()});
  EXPECT_THAT(indexed.out,
              AllOf(HasSubstr("(with the hash of the content, "),
                    HasSubstr("sample sizes 1 B to 1.0 kB, median 6 B, 99 % "
                              "have at most 1.0 kB\n")));
  const Result json = Call({"inspect", "--json", Uri(), Cache()});
  EXPECT_THAT(
      json.out,
      AllOf(ContainsRegex("\"index\": [{]\"file\": \".*[.]mrindex\", "
                          "\"content\": true, \"age_seconds\": [0-9]+[}]"),
            HasSubstr("\"sample_bytes\": {\"smallest\": 1, \"median\": 6, "
                      "\"percentile_99\": 1000, \"largest\": 1000}")));
  const Result off = Call({"inspect", Uri(), "--cache_dir=off"});
  EXPECT_THAT(off.out, Not(HasSubstr("index        ")));
}

// The first `verify` made an index without the hash, and the second one said
// that all was whole.
TEST_F(ShardCommandsTest, VerifyComparesWithWhatIndexHasRead) {
  ASSERT_EQ(Call({"index", Uri(), Cache()}).code, 0);
  const std::string fingerprint =
      Call({"index", "--headers_only", Uri(), Cache()}).out;
  EXPECT_THAT(fingerprint, HasSubstr("has the content hash already; kept"));
  Write("SECOND");
  for (int i = 0; i < 2; ++i) {
    const Result changed = Call({"verify", Uri(), Cache()});
    EXPECT_EQ(changed.code, program::kExitFailed);
    EXPECT_THAT(changed.err, HasSubstr("the content of shard 0.tar is not what "
                                       "`millrace-data index` has read"));
  }
  // The content again, at another time.
  Write("second");
  const Result same = Call({"verify", Uri(), Cache()});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("and as they were indexed"));
  // Another number of samples.
  storage::WriteFile(shard_,
                     storage::TarMemberBytes("a.txt", "1") + storage::TarEnd());
  const Result fewer = Call({"verify", Uri(), Cache()});
  EXPECT_EQ(fewer.code, program::kExitFailed);
  EXPECT_THAT(fewer.err,
              AllOf(HasSubstr("is not what `millrace-data index` has read"),
                    HasSubstr("3 records in 1 file, and there are 1 record in "
                              "1 file")));
}

TEST_F(ShardCommandsTest, HeadersAloneWarnOfALostContentHash) {
  ASSERT_EQ(Call({"index", Uri(), Cache()}).code, 0);
  Write("another text");
  const Result headers = Call({"index", "--headers_only", Uri(), Cache()});
  EXPECT_EQ(headers.code, 0) << headers.err;
  EXPECT_THAT(headers.err, HasSubstr("the fingerprint of the content is not "
                                     "known any more"));
  EXPECT_THAT(headers.out, HasSubstr("(of names, sizes and times)"));
}

}  // namespace
}  // namespace millrace::data_tool
