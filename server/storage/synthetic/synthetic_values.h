// The numbers of synthetic tensors: element e of a tensor with key k is a
// function of (k, e) alone. The same bytes on every machine.
//
// Pure function, safe from any thread.
//
//   FillSynthetic(DTYPE_UINT8, 0, key, absl::MakeSpan(row));

#ifndef MILLRACE_SERVER_STORAGE_SYNTHETIC_SYNTHETIC_VALUES_H_
#define MILLRACE_SERVER_STORAGE_SYNTHETIC_SYNTHETIC_VALUES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::storage {

// Word `i` of the sequence of `key`: SplitMix64 (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", OOPSLA 2014).
inline uint64_t SyntheticWord(uint64_t key, uint64_t i) {
  uint64_t x = key + (i + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Fills `out`, whole elements of `dtype`. Integers: every value of the type, or
// 0 .. num_classes - 1 when that is above 0 and the type holds it. Bool: 0 or
// 1. Floating point: multiples of 1/256 in [0, 1).
void FillSynthetic(DType dtype, int64_t num_classes, uint64_t key,
                   absl::Span<uint8_t> out);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SYNTHETIC_SYNTHETIC_VALUES_H_
