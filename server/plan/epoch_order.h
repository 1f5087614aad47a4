// EpochOrder is the order of one epoch: position -> logical index in O(1),
// with no state, no shuffle buffer and no memory that grows with N.
//
// GLOBAL      a permutation of [0, N) keyed by (seed, epoch, N).
// SEQUENTIAL  position = index.
// BLOCK       blocks of `block_size` indices are permuted; each run of
//             `window_blocks` of them in the new order is a window, and the
//             samples inside a window are permuted. A sample stays within its
//             window, so a reader needs window_blocks blocks at a time.
//
// The domain is [0, N) of the cut, not of the dataset (server/plan/subset.h).
// Immutable, thread-safe.
//
//   const EpochOrder order(spec.shuffle(), spec.seed(), epoch, n);
//   const uint64_t j = order.At(position);

#ifndef MILLRACE_SERVER_PLAN_EPOCH_ORDER_H_
#define MILLRACE_SERVER_PLAN_EPOCH_ORDER_H_

#include <cstdint>

#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/fast_divide.h"
#include "server/plan/keys.h"
#include "server/plan/permutation.h"

namespace millrace::plan {

class EpochOrder {
 public:
  // `shuffle` is resolved (server/plan/resolve.h), n >= 1.
  EpochOrder(const Shuffle& shuffle, uint64_t seed, uint64_t epoch, uint64_t n);

  // `position` < n.
  uint64_t At(uint64_t position) const {
    switch (mode_) {
      case Shuffle::GLOBAL:
        return permutation_.At(position);
      case Shuffle::BLOCK:
        return BlockAt(position);
      default:
        return position;
    }
  }

 private:
  uint64_t BlockAt(uint64_t position) const;
  // First position of the block at `place` in the permuted block order.
  uint64_t StartOfPlace(uint64_t place) const;
  uint64_t PlaceOfPosition(uint64_t position) const;

  const Shuffle::Mode mode_;
  const uint64_t n_;
  const uint64_t block_size_;
  const uint64_t window_blocks_;
  const uint64_t blocks_;
  const FastDivide by_block_size_;
  const FastDivide by_window_blocks_;
  const KeyHash window_key_;       // of windows, after seed, epoch and n
  const Permutation permutation_;  // of samples (GLOBAL) or of blocks (BLOCK)
  // BLOCK: the place and the size of the last block, which may be shorter.
  uint64_t short_place_ = 0;
  uint64_t short_size_ = 0;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_EPOCH_ORDER_H_
