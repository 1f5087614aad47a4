#include "trainer/weights/match.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace millrace::weights {
namespace {

constexpr size_t kShown = 4;  // max names for each kind of mistake

// The first few names and the number of the others.
std::string Listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kShown);
  std::string out = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (names.size() > shown) {
    absl::StrAppend(&out, " and ", names.size() - shown, " more");
  }
  return out;
}

std::string Shape(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The layer itself or a tensor in it.
bool IsIn(absl::string_view name, absl::string_view layer) {
  return absl::ConsumePrefix(&name, layer) && (name.empty() || name[0] == '.');
}

// The prefix of a wrapper that all names of `file` share.
size_t WrapperPrefix(const std::vector<NamedShape>& file) {
  size_t length = 0;
  while (!file.empty()) {
    bool longer = false;
    for (const absl::string_view prefix : {"module.", "_orig_mod."}) {
      const bool all =
          std::all_of(file.begin(), file.end(), [&](const NamedShape& tensor) {
            return absl::StartsWith(
                absl::string_view(tensor.name).substr(length), prefix);
          });
      if (!all) continue;
      length += prefix.size();
      longer = true;
    }
    if (!longer) break;
  }
  return length;
}

}  // namespace

absl::StatusOr<std::vector<std::optional<size_t>>> MatchWeights(
    const std::vector<NamedShape>& model, const std::vector<NamedShape>& file,
    const std::vector<std::string>& leave_out) {
  absl::flat_hash_set<std::string> unused(leave_out.begin(), leave_out.end());
  const auto left_out = [&](absl::string_view name) {
    bool out = false;
    for (const std::string& layer : leave_out) {
      if (!IsIn(name, layer)) continue;
      unused.erase(layer);
      out = true;
    }
    return out;
  };
  // A model may itself have a child named "module".
  const bool wrapped_model = WrapperPrefix(model) > 0;
  const size_t prefix = wrapped_model ? 0 : WrapperPrefix(file);
  absl::flat_hash_map<absl::string_view, size_t> places;
  for (size_t i = 0; i < file.size(); ++i) {
    const auto name = absl::string_view(file[i].name).substr(prefix);
    if (!left_out(name)) places.emplace(name, i);
  }

  std::vector<std::optional<size_t>> matched(model.size());
  std::vector<std::string> missing, unexpected, shapes, types;
  for (size_t i = 0; i < model.size(); ++i) {
    const NamedShape& wanted = model[i];
    if (left_out(wanted.name)) continue;
    const auto found = places.find(wanted.name);
    if (found == places.end()) {
      if (!absl::EndsWith(wanted.name, "num_batches_tracked")) {
        missing.push_back(wanted.name);
      }
      continue;
    }
    const NamedShape& given = file[found->second];
    if (given.shape != wanted.shape) {
      shapes.push_back(absl::StrCat(wanted.name, " is ", Shape(given.shape),
                                    " in the file and ", Shape(wanted.shape),
                                    " in the model"));
    } else if (given.floating != wanted.floating) {
      types.push_back(wanted.name);
    }
    matched[i] = found->second;
    places.erase(found);
  }
  for (size_t i = 0; i < file.size(); ++i) {
    const auto name = absl::string_view(file[i].name).substr(prefix);
    const auto left = places.find(name);
    if (left != places.end() && left->second == i) {
      unexpected.emplace_back(name);
    }
  }

  std::vector<std::string> mistakes;
  const auto add = [&mistakes](const std::vector<std::string>& names,
                               absl::string_view one, absl::string_view many) {
    if (names.empty()) return;
    mistakes.push_back(absl::StrCat(names.size(), " ",
                                    names.size() == 1 ? one : many, " (",
                                    Listed(names), ")"));
  };
  add(shapes, "tensor has another shape", "tensors have another shape");
  add(types, "tensor has another kind of numbers",
      "tensors have another kind of numbers");
  add(missing, "tensor of the model is not in the file",
      "tensors of the model are not in the file");
  add(unexpected, "tensor of the file is not in the model",
      "tensors of the file are not in the model");
  if (!mistakes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(mistakes, "; "),
                     ". Choose the --model that wrote the file, or leave "
                     "layers out with --init_weights_without=NAME,NAME"));
  }
  if (!unused.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--init_weights_without=", *unused.begin(),
        " names no layer of the model or the file; names look like ",
        model.empty() ? std::string("fc") : model.back().name));
  }
  return matched;
}

}  // namespace millrace::weights
