// The names of the leaves of LitData samples, from the data_spec of index.json:
// the tree of dictionaries, lists and tuples as JSON, as torch.utils._pytree
// writes it.
//
// Pure function, safe from any thread.
//
//   // {"image": ..., "boxes": (..., ...)} -> image, boxes.0, boxes.1
//   MR_ASSIGN_OR_RETURN(auto leaves, ParseLitdataTree(data_spec, "data_spec"));

#ifndef MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_TREE_H_
#define MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_TREE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

struct TreeLeaf {
  std::string name;  // keys and places, joined by dots
  // The sample is a list or tuple with this element, or this leaf itself.
  bool unnamed = false;
};

// In the order of the columns. DataLoss: `json` is no tree, has more than
// kMaxColumns leaves, or is too deep; the message begins with `where`.
absl::StatusOr<std::vector<TreeLeaf>> ParseLitdataTree(
    absl::string_view json, const std::string& where);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_TREE_H_
