#include "server/storage/chunks/index_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

TEST(IndexJsonTest, MembersHaveTheirTypes) {
  const std::string folder = NewFolder();
  WriteFile(folder + "/index.json",
            R"({"text": "a", "count": 7, "null": null, "list": ["a", "b"],
                "counts": [1, null], "half": 1.5, "below": -1,
                "objects": [{"n": 1}, {"n": "x"}]})");
  for (const std::string& path : {folder, folder + "/index.json"}) {
    const auto index = ReadIndexJson(path);
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(index->folder(), folder);
    const auto members = index->Members();
    ASSERT_TRUE(members.ok());
    EXPECT_EQ(*members->Text("text"), "a");
    EXPECT_EQ(*members->Count("count"), 7u);
    EXPECT_EQ(members->Find("null"), nullptr);
    EXPECT_EQ(members->Find("missing"), nullptr);
    EXPECT_EQ(members->Texts("list")->size(), 2u);
    EXPECT_EQ(*members->CountsOrNull("counts"), (std::vector<uint64_t>{1, 0}));
    EXPECT_THAT(members->Text("missing").status().message(),
                Ends("/index.json: missing is missing"));
    EXPECT_THAT(members->Text("null").status().message(),
                Ends("null is missing"));
    EXPECT_THAT(members->Text("count").status().message(),
                Ends("count is no text"));
    for (const char* key : {"half", "below", "text", "list"}) {
      EXPECT_TRUE(absl::IsDataLoss(members->Count(key).status())) << key;
    }
    EXPECT_FALSE(members->Texts("counts").ok());
    EXPECT_FALSE(members->CountsOrNull("list").ok());
    EXPECT_FALSE(members->Objects("list").ok());
    EXPECT_FALSE(members->Object("text").ok());
    const auto objects = members->Objects("objects");
    ASSERT_TRUE(objects.ok());
    EXPECT_EQ(*(*objects)[0].Count("n"), 1u);
    EXPECT_THAT((*objects)[1].Count("n").status().message(),
                Ends("/index.json: objects[1].n is no whole number"));
  }
}

TEST(IndexJsonTest, AFileThatIsNoJsonIsDamaged) {
  const std::string folder = NewFolder();
  for (const std::string& text :
       {std::string("{\"a\": [1, 2"), std::string("\xFF\xFE{}"),
        std::string("{\"a\": tru}"), std::string(20'000, '[')}) {
    WriteFile(folder + "/index.json", text);
    const auto index = ReadIndexJson(folder);
    EXPECT_TRUE(absl::IsDataLoss(index.status())) << index.status();
    EXPECT_THAT(index.status().message(),
                HasSubstr("/index.json is no JSON: "));
  }
  WriteFile(folder + "/index.json", "[1]");
  const auto list = ReadIndexJson(folder);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->Members().status().message(),
              Ends("/index.json is no JSON object"));
}

TEST(IndexJsonTest, AMissingIndexNamesTheFoldersThatHaveOne) {
  const std::string folder = NewFolder();
  EXPECT_TRUE(absl::IsNotFound(ReadIndexJson(folder).status()));
  for (const char* split : {"/val", "/train"}) {
    ASSERT_EQ(mkdir((folder + split).c_str(), 0700), 0);
    WriteFile(folder + split + "/index.json", "{}");
  }
  EXPECT_THAT(ReadIndexJson(folder).status().message(),
              HasSubstr("name one of them: train, val"));
  EXPECT_TRUE(
      absl::IsInvalidArgument(ReadIndexJson(folder + "/shard.mds").status()));
}

TEST(IndexJsonTest, ChunksAreFilesOfTheFolderWithTheirSize) {
  const std::string folder = NewFolder();
  WriteFile(folder + "/a.bin", "12345");
  EXPECT_EQ(*FindChunk(folder, "a.bin", {5}, "bytes"), folder + "/a.bin");
  EXPECT_TRUE(FindChunk(folder, "a.bin", {3, 5}, "bytes").ok());
  const auto other = FindChunk(folder, "a.bin", {6, 7}, "bytes");
  EXPECT_TRUE(absl::IsDataLoss(other.status()));
  EXPECT_THAT(other.status().message(),
              HasSubstr("/a.bin has 5 bytes, and by bytes it has 6"));
  const auto missing = FindChunk(folder, "b.bin", {5}, "bytes");
  EXPECT_TRUE(absl::IsDataLoss(missing.status()));
  EXPECT_THAT(missing.status().message(),
              HasSubstr("b.bin of bytes is missing"));
  for (const char* name : {"", "/etc/passwd", "../a.bin", "x/../../a.bin"}) {
    EXPECT_TRUE(absl::IsDataLoss(FindChunk(folder, name, {5}, "n").status()))
        << name;
  }
}

}  // namespace
}  // namespace millrace::storage
