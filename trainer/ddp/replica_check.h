// Compares values that must be equal on all ranks of a job: hashes of named
// values, as every rank computed them. Pure functions.

#ifndef MILLRACE_TRAINER_DDP_REPLICA_CHECK_H_
#define MILLRACE_TRAINER_DDP_REPLICA_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::ddp {

// "ranks 1 and 3 of 4 differ from rank 0, first in fc1.weight (3 of 6 values
// differ)". Empty: all ranks agree. `hashes[rank]` has one hash per name.
std::string DifferenceOfRanks(const std::vector<std::string>& names,
                              const std::vector<std::vector<int64_t>>& hashes);

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_REPLICA_CHECK_H_
