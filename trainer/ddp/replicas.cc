#include "trainer/ddp/replicas.h"

#include <ATen/Functions.h>
#include <xxhash.h>

#include <algorithm>
#include <exception>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/ddp/replica_check.h"
#include "trainer/torch_error.h"

namespace millrace::ddp {
namespace {

int64_t HashOf(const torch::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  const torch::Tensor values = tensor.detach().cpu().contiguous();
  return static_cast<int64_t>(XXH3_64bits(values.data_ptr(), values.nbytes()));
}

// The numbers of every rank, in the order of the ranks. A collective call: each
// rank fills its row of a matrix of zeros, and the sum has all rows. Rows must
// have the same length on all ranks.
absl::StatusOr<std::vector<std::vector<int64_t>>> Gather(
    const std::vector<int64_t>& mine, Communicator& ranks) {
  const auto world = static_cast<int64_t>(ranks.world_size());
  const auto width = static_cast<int64_t>(mine.size());
  torch::Tensor all = at::zeros({world, width}, torch::kInt64);
  auto* values = all.data_ptr<int64_t>();
  std::copy(mine.begin(), mine.end(), values + ranks.rank() * width);
  MR_RETURN_IF_ERROR(ranks.Sum(all));
  values = all.data_ptr<int64_t>();
  std::vector<std::vector<int64_t>> rows;
  for (int64_t rank = 0; rank < world; ++rank) {
    rows.emplace_back(values + rank * width, values + (rank + 1) * width);
  }
  return rows;
}

}  // namespace

absl::Status VerifyReplicas(
    const torch::nn::Module& model,
    const std::vector<std::pair<std::string, int64_t>>& numbers,
    Communicator& ranks, absl::string_view when) {
  if (ranks.world_size() == 1) return absl::OkStatus();
  std::vector<std::string> names;
  std::vector<int64_t> hashes;
  for (const auto& [name, number] : numbers) {
    names.push_back(name);
    hashes.push_back(number);
  }
  try {
    for (const auto& entry : model.named_parameters()) {
      names.push_back(entry.key());
      hashes.push_back(HashOf(entry.value()));
    }
    for (const auto& entry : model.named_buffers()) {
      names.push_back(entry.key());
      hashes.push_back(HashOf(entry.value()));
    }
  } catch (const std::exception& error) {
    return trainer::FromTorch(error, "comparing the ranks' models");
  }
  // Names are hashed too, because ranks may have different models. Usually all
  // are equal, so one number per rank is exchanged first.
  int64_t together = static_cast<int64_t>(
      XXH3_64bits(hashes.data(), hashes.size() * sizeof(int64_t)));
  for (const std::string& name : names) {
    together = static_cast<int64_t>(XXH3_64bits_withSeed(
        name.data(), name.size(), static_cast<XXH64_hash_t>(together)));
  }
  MR_ASSIGN_OR_RETURN(
      const auto shortly,
      Gather({together, static_cast<int64_t>(names.size())}, ranks));
  std::string difference =
      DifferenceOfRanks({"the model", "the number of its values"}, shortly);
  if (difference.empty()) return absl::OkStatus();
  // All ranks have the same rows of the first Gather(), so all make the same
  // decision about the second one.
  bool as_many = true;
  for (const auto& row : shortly) as_many = as_many && row[1] == shortly[0][1];
  if (as_many) {
    MR_ASSIGN_OR_RETURN(const auto all, Gather(hashes, ranks));
    // Empty: only names differ, and the first difference is reported.
    if (const std::string where = DifferenceOfRanks(names, all);
        !where.empty()) {
      difference = where;
    }
  }
  return absl::AbortedError(absl::StrCat(
      when, ": ", difference,
      "; the ranks must be of one release on machines of one kind and start "
      "from the same --resume file. If they do, test the memory of the "
      "machines that differ, and resume from the last checkpoint"));
}

}  // namespace millrace::ddp
