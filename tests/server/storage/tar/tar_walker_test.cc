// Members of archives: every way to write a name and a size, and every way to
// be damaged.

#include "server/storage/tar/tar_walker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/extents/memory_window.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const uint8_t> AsSpan(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// "PATH=DATA" of each member.
absl::StatusOr<std::vector<std::string>> Walk(
    const std::string& archive, TarWalker::End end = TarWalker::End::kMarked) {
  MemoryWindow window(AsSpan(archive));
  TarWalker walker(window, end);
  std::vector<std::string> members;
  for (;;) {
    const absl::StatusOr<bool> more = walker.Next();
    if (!more.ok()) return more.status();
    if (!*more) return members;
    EXPECT_LT(walker.header_offset(), walker.data_offset());
    members.push_back(absl::StrCat(
        walker.folder(), walker.name(), "=",
        archive.substr(walker.data_offset(), walker.data_bytes())));
  }
}

std::string Message(const std::string& archive,
                    TarWalker::End end = TarWalker::End::kMarked) {
  const auto members = Walk(archive, end);
  return members.ok() ? "" : std::string(members.status().message());
}

TEST(TarWalkerTest, NamesAndSizes) {
  const std::string long_name = std::string(150, 'n') + "/long.jpg";
  const std::string archive = absl::StrCat(
      TarMemberBytes("a.jpg", "first"), TarMemberBytes("dir/b.cls", "2"),
      TarMemberBytes("c.txt", "", '0', "some/prefix"),
      TarMemberBytes("sub/d.txt", "dd", '0', "some/prefix"),
      TarMemberBytes("././@LongLink", long_name + '\0', 'L'),
      TarMemberBytes("cut", "gnu"),
      TarMemberBytes("././@LongLink", "the target of a link", 'K'),
      TarMemberBytes("k.jpg", "kk"), PaxBytes("path", "pax/" + long_name),
      TarMemberBytes("cut", "pax"), PaxBytes("size", "3"),
      TarHeader("p.jpg", '0', "00000000000"), TarPadded("abc"),
      TarHeader("q.jpg", '\0',
                absl::string_view("\x80\0\0\0\0\0\0\0\0\0\0\x04", 12)),
      TarPadded("base"), TarHeader("r.jpg", '7', "  4 "), TarPadded("oct4"),
      PaxBytes("mtime", "1.5", 'g'), TarMemberBytes("s.jpg", "last"), TarEnd());
  const auto members = Walk(archive);
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_THAT(*members,
              ElementsAre("a.jpg=first", "dir/b.cls=2", "some/prefix/c.txt=",
                          "some/prefix/sub/d.txt=dd", long_name + "=gnu",
                          "k.jpg=kk", "pax/" + long_name + "=pax", "p.jpg=abc",
                          "q.jpg=base", "r.jpg=oct4", "s.jpg=last"));
}

TEST(TarWalkerTest, FoldersDevicesAndLabelsAreSkipped) {
  const auto members = Walk(absl::StrCat(
      TarMemberBytes("label", "", 'V'), TarMemberBytes("dir/", "", '5'),
      TarMemberBytes("old/", ""), TarHeader("pipe", '6', "00000001000"),
      TarMemberBytes("a.jpg", "a"), TarEnd()));
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_THAT(*members, ElementsAre("a.jpg=a"));
  EXPECT_THAT(*Walk(TarEnd()), ElementsAre());
}

TEST(TarWalkerTest, ThePartOfAnArchiveHasNoEndMark) {
  std::string part =
      absl::StrCat(TarMemberBytes("a.jpg", "a"), TarMemberBytes("a.cls", "1"));
  part.resize(part.size() - 511);
  EXPECT_THAT(*Walk(part, TarWalker::End::kOpen),
              ElementsAre("a.jpg=a", "a.cls=1"));
  EXPECT_THAT(Message(part), HasSubstr("no end mark: it was cut off"));
  EXPECT_THAT(Message(part + TarEnd(), TarWalker::End::kOpen),
              HasSubstr("byte"));
}

TEST(TarWalkerTest, WhatIsRefused) {
  const auto with = [](const std::string& member) {
    return Message(
        absl::StrCat(TarMemberBytes("a.jpg", "a"), member, TarEnd()));
  };
  EXPECT_THAT(with(TarMemberBytes("b.jpg", "", '2')),
              HasSubstr("byte 1024: member 'b.jpg' is a link"));
  EXPECT_THAT(with(TarMemberBytes("b.jpg", "", '1')),
              HasSubstr("--hard-dereference"));
  EXPECT_THAT(with(TarMemberBytes("b.jpg", "x", 'S')), HasSubstr("is sparse"));
  EXPECT_THAT(with(PaxBytes("GNU.sparse.major", "1")), HasSubstr("is sparse"));
  EXPECT_THAT(with(TarMemberBytes("b.jpg", "x", 'M')),
              HasSubstr("continues another archive"));
  EXPECT_THAT(with(absl::StrCat(TarEnd(), TarMemberBytes("b.jpg", "x"))),
              HasSubstr("byte 1536: data follow the end mark"));
}

TEST(TarWalkerTest, DamagedHeaders) {
  const std::string good = TarMemberBytes("a.jpg", "a");
  EXPECT_THAT(Message("garbage"), HasSubstr("byte 0: the object ends"));
  EXPECT_THAT(Message(std::string(600, 'g')),
              HasSubstr("byte 0: there is no tar header"));
  std::string flipped = good;
  flipped[3] = 'x';
  EXPECT_THAT(Message(flipped + TarEnd()),
              HasSubstr("its checksum is wrong (name 'a.jxg')"));
  EXPECT_THAT(Message(TarHeader("a.jpg", '0', "00000000009") + TarEnd()),
              HasSubstr("the size of member 'a.jpg' ('00000000009\\x00') is "
                        "no octal number"));
  EXPECT_THAT(Message(TarHeader("a.jpg", '0', "") + TarEnd()),
              HasSubstr("is no octal number"));
  for (const absl::string_view size :
       {absl::string_view("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                          12),
        absl::string_view("\x80\0\0\xFF\0\0\0\0\0\0\0\0", 12)}) {
    EXPECT_THAT(Message(TarHeader("a.jpg", '0', size) + TarEnd()),
                HasSubstr("is no octal number"));
  }
  for (const absl::string_view size :
       {absl::string_view("77777777777"),
        absl::string_view("\x80\0\0\0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12)}) {
    EXPECT_THAT(Message(TarHeader("a.jpg", '0', size) + TarEnd()),
                HasSubstr("end after the archive"));
  }
  EXPECT_THAT(Message(PaxBytes("size", "99999999999999") +
                      TarMemberBytes("a.jpg", "") + TarEnd()),
              HasSubstr("end after the archive"));
  EXPECT_THAT(Message(PaxBytes("size", "x") + good + TarEnd()),
              HasSubstr("a record of a pax header is damaged"));
  for (const std::string record : {"5", "99 a=b\n", "5 a=b\n", "3 a\n",
                                   "0 a=b\n", "6 ab b\n", "-1 a=b\n"}) {
    EXPECT_THAT(Message(TarMemberBytes("pax", record, 'x') + good + TarEnd()),
                HasSubstr("a record of a pax header is damaged"))
        << record;
  }
  EXPECT_THAT(Message(PaxBytes("path", "a.jpg") + TarEnd()),
              HasSubstr("the header of a member is missing"));
  EXPECT_THAT(Message(PaxBytes("path", "a.jpg")), HasSubstr("cut off"));
  EXPECT_THAT(Message(TarHeader("././@LongLink", 'L', "00010000000") +
                      std::string(2 << 20, 'x')),
              HasSubstr("is too large"));
}

// No prefix of an archive passes for a whole one.
TEST(TarWalkerTest, EveryCutIsSeen) {
  const std::string archive = absl::StrCat(
      TarMemberBytes("a.jpg", std::string(700, 'a')),
      PaxBytes("path", "p/b.jpg"), TarMemberBytes("cut", "b"), TarEnd());
  for (size_t size = 1; size + 512 < archive.size(); ++size) {
    EXPECT_THAT(Message(archive.substr(0, size)), HasSubstr("byte ")) << size;
  }
  // One block of zeros is enough.
  EXPECT_TRUE(Walk(archive.substr(0, archive.size() - 512)).ok());
}

TEST(TarWalkerTest, KeysAndExtensions) {
  absl::string_view key;
  absl::string_view extension;
  ASSERT_TRUE(SplitMemberName("0001.seg.png", &key, &extension));
  EXPECT_EQ(key, "0001");
  EXPECT_EQ(extension, "seg.png");
  for (const absl::string_view name :
       {"README", ".hidden", "._1.jpg", "1.", "__meta.json__", ""}) {
    EXPECT_FALSE(SplitMemberName(name, &key, &extension)) << name;
  }
}

}  // namespace
}  // namespace millrace::storage
