#include "server/storage/litdata/litdata_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/storage/chunks/column_rule.h"
#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;

constexpr char kLeaf[] =
    R"({"type": null, "context": null, "children_spec": []})";

std::string Node(const std::string& type, const std::string& context,
                 const std::string& children) {
  return absl::StrCat(R"({"type": ")", type, R"(", "context": )", context,
                      R"(, "children_spec": [)", children, "]}");
}

// "NAME", with a "?" in front where the leaf is unnamed.
std::vector<std::string> Names(const std::string& tree) {
  const auto leaves = ParseLitdataTree("[1, " + tree + "]", "data_spec");
  if (!leaves.ok()) return {std::string(leaves.status().message())};
  std::vector<std::string> names;
  for (const TreeLeaf& leaf : *leaves) {
    names.push_back(absl::StrCat(leaf.unnamed ? "?" : "", leaf.name));
  }
  return names;
}

const std::string kTwo = absl::StrCat(kLeaf, ", ", kLeaf);

TEST(LitdataTreeTest, NamesAreKeysAndPlaces) {
  EXPECT_THAT(Names(Node("builtins.dict", R"("[\"image\", \"label\"]")", kTwo)),
              ElementsAre("image", "label"));
  EXPECT_THAT(Names(Node("builtins.tuple", R"("null")", kTwo)),
              ElementsAre("?0", "?1"));
  EXPECT_THAT(Names(Node("builtins.list", R"("null")", kTwo)),
              ElementsAre("?0", "?1"));
  EXPECT_THAT(Names(kLeaf), ElementsAre("?0"));
  EXPECT_THAT(
      Names(Node("builtins.dict", R"("[\"a\", 7]")",
                 absl::StrCat(Node("builtins.tuple", R"("null")", kTwo), ", ",
                              Node("collections.OrderedDict",
                                   R"("[\"x\", \"y\"]")", kTwo)))),
      ElementsAre("a.0", "a.1", "7.x", "7.y"));
  EXPECT_THAT(Names(Node("collections.defaultdict",
                         R"({"default_factory_module": "builtins",
                             "default_factory_name": "int",
                             "dict_context": ["a", "b"]})",
                         kTwo)),
              ElementsAre("a", "b"));
}

TEST(LitdataTreeTest, ATreeThatIsNoneIsDamage) {
  for (const std::string& tree :
       {std::string("7"), Node("builtins.dict", R"("[\"a\"]")", kTwo),
        Node("builtins.dict", R"("{}")", kTwo),
        Node("builtins.dict", R"("[[], 1]")", kTwo),
        Node("builtins.dict", R"("no JSON")", kTwo),
        Node("builtins.dict", "null", kTwo),
        std::string(R"({"type": null, "context": null, "children_spec": [7]})"),
        std::string(R"({"type": "builtins.list", "context": null})")}) {
    const auto leaves = ParseLitdataTree("[1, " + tree + "]", "the spec");
    EXPECT_TRUE(absl::IsDataLoss(leaves.status())) << tree;
    EXPECT_THAT(leaves.status().message(), Begins("the spec")) << tree;
  }
  for (const char* document : {"", "{}", "[1]", "[2, null]"}) {
    EXPECT_TRUE(
        absl::IsDataLoss(ParseLitdataTree(document, "the spec").status()))
        << document;
  }
}

TEST(LitdataTreeTest, DepthAndLeavesAreBounded) {
  std::string deep = kLeaf;
  for (int i = 0; i < 40; ++i) deep = Node("builtins.list", "null", deep);
  EXPECT_THAT(Names(deep), ElementsAre(Begins("data_spec is no")));
  std::string wide = kLeaf;
  for (size_t i = 0; i < kMaxColumns; ++i) absl::StrAppend(&wide, ", ", kLeaf);
  EXPECT_THAT(Names(Node("builtins.list", "null", wide)),
              ElementsAre("data_spec is no tree of a sample: too many leaves"));
}

}  // namespace
}  // namespace millrace::storage
