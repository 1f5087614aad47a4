#include "trainer/ddp/replica_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace::ddp {
namespace {

// Max ranks that an error names.
constexpr size_t kMaxNamed = 8;

std::string RankList(const std::vector<size_t>& ranks) {
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t named = std::min(ranks.size(), kMaxNamed);
  for (size_t i = 0; i < named; ++i) {
    const bool last = i + 1 == ranks.size();
    absl::StrAppend(&list, i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (named < ranks.size()) {
    absl::StrAppend(&list, " and ", ranks.size() - named, " others");
  }
  return list;
}

}  // namespace

std::string DifferenceOfRanks(const std::vector<std::string>& names,
                              const std::vector<std::vector<int64_t>>& hashes) {
  std::vector<size_t> different;
  std::vector<bool> differs(names.size(), false);
  for (size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    different.push_back(rank);
    for (size_t i = 0; i < names.size(); ++i) {
      if (hashes[rank][i] != hashes[0][i]) differs[i] = true;
    }
  }
  if (different.empty()) return "";
  const auto first = std::find(differs.begin(), differs.end(), true);
  return absl::StrCat(RankList(different), " of ", hashes.size(),
                      different.size() == 1 ? " differs" : " differ",
                      " from rank 0, first in ",
                      names[static_cast<size_t>(first - differs.begin())], " (",
                      std::count(differs.begin(), differs.end(), true), " of ",
                      names.size(), " values differ)");
}

}  // namespace millrace::ddp
