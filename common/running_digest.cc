#include "common/running_digest.h"

#include "xxhash.h"

namespace millrace {

struct RunningDigest::State {
  XXH3_state_t xxh3;
};

RunningDigest::RunningDigest() : state_(std::make_unique<State>()) { Clear(); }
RunningDigest::~RunningDigest() = default;

void RunningDigest::Clear() { XXH3_64bits_reset(&state_->xxh3); }

void RunningDigest::Add(const void* bytes, size_t size) {
  XXH3_64bits_update(&state_->xxh3, bytes, size);
}

uint64_t RunningDigest::Value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

}  // namespace millrace
