#include "server/storage/litdata/litdata_tree.h"

#include <google/protobuf/struct.pb.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/chunks/column_rule.h"
#include "server/storage/chunks/index_json.h"

namespace millrace::storage {
namespace {

using google::protobuf::Value;

constexpr int kMaxDepth = 32;

absl::Status Damaged(const std::string& where, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(where, " is no tree of a sample: ", what));
}

// The keys of a dictionary, from the JSON in the context of its node.
// `context` may also be an object with dict_context (a defaultdict).
absl::StatusOr<std::vector<std::string>> KeysOf(const Value& context,
                                                const std::string& where) {
  Value parsed = context;
  if (context.kind_case() == Value::kStringValue) {
    MR_ASSIGN_OR_RETURN(parsed, ParseJson(context.string_value(), where));
  }
  if (parsed.kind_case() == Value::kStructValue) {
    const auto& members = parsed.struct_value().fields();
    const auto keys = members.find("dict_context");
    if (keys == members.end()) return Damaged(where, "no keys");
    const Value inner = keys->second;
    parsed = inner;
  }
  if (parsed.kind_case() != Value::kListValue) {
    return Damaged(where, "the keys are no list");
  }
  std::vector<std::string> keys;
  for (const Value& key : parsed.list_value().values()) {
    switch (key.kind_case()) {
      case Value::kStringValue:
        keys.push_back(key.string_value());
        break;
      case Value::kNumberValue:
        keys.push_back(absl::StrCat(key.number_value()));
        break;
      default:
        return Damaged(where, "a key is neither text nor number");
    }
  }
  return keys;
}

bool IsDictionary(absl::string_view type) {
  return type == "builtins.dict" || type == "collections.OrderedDict" ||
         type == "collections.defaultdict";
}

// Adds the leaves below `node`, whose own name is `name`.
absl::Status AddLeaves(const Value& node, const TreeLeaf& self, int depth,
                       const std::string& where,
                       std::vector<TreeLeaf>* leaves) {
  if (depth > kMaxDepth) return Damaged(where, "more than 32 levels");
  MR_ASSIGN_OR_RETURN(const JsonMembers members, JsonMembers::Of(node, where));
  MR_ASSIGN_OR_RETURN(const auto children, members.Values("children_spec"));
  if (members.Find("type") == nullptr) {
    if (!children.empty()) return Damaged(where, "a leaf with children");
    if (leaves->size() == kMaxColumns) return Damaged(where, "too many leaves");
    leaves->push_back(self);
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const std::string type, members.Text("type"));
  std::vector<std::string> keys;
  const bool named = IsDictionary(type);
  if (named) {
    const Value* context = members.Find("context");
    if (context == nullptr) return Damaged(where, "a dictionary without keys");
    MR_ASSIGN_OR_RETURN(keys, KeysOf(*context, where));
    if (keys.size() != children.size()) {
      return Damaged(where, absl::StrCat(keys.size(), " keys for ",
                                         children.size(), " values"));
    }
  }
  for (size_t i = 0; i < children.size(); ++i) {
    const std::string key = named ? keys[i] : absl::StrCat(i);
    TreeLeaf child;
    child.name = depth == 0 ? key : absl::StrCat(self.name, ".", key);
    child.unnamed = depth == 0 && !named;
    MR_RETURN_IF_ERROR(
        AddLeaves(*children[i], child, depth + 1, where, leaves));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TreeLeaf>> ParseLitdataTree(
    absl::string_view json, const std::string& where) {
  MR_ASSIGN_OR_RETURN(const Value document, ParseJson(json, where));
  // [protocol, tree]
  if (document.kind_case() != Value::kListValue ||
      document.list_value().values_size() != 2) {
    return Damaged(where, "it is no pair of protocol and tree");
  }
  const Value& protocol = document.list_value().values(0);
  if (protocol.number_value() != 1) return Damaged(where, "protocol is not 1");
  std::vector<TreeLeaf> leaves;
  // The name is for a sample that is a leaf itself.
  MR_RETURN_IF_ERROR(AddLeaves(document.list_value().values(1), {"0", true}, 0,
                               where, &leaves));
  return leaves;
}

}  // namespace millrace::storage
