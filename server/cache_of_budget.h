// CacheOfBudget is a source with the cache size of another memory budget than
// the server's. Pipelines are opened over it to try that budget; no sample is
// read.
//
// Thread-safe as RecordSource says.
//
//   catalog["photos"] = std::make_shared<CacheOfBudget>(source, 64 << 20);

#ifndef MILLRACE_SERVER_CACHE_OF_BUDGET_H_
#define MILLRACE_SERVER_CACHE_OF_BUDGET_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/storage/forwarding_source.h"

namespace millrace::server {

class CacheOfBudget final : public storage::ForwardingSource {
 public:
  CacheOfBudget(std::shared_ptr<const storage::RecordSource> source,
                uint64_t cache_bytes)
      : ForwardingSource(std::move(source)), cache_bytes_(cache_bytes) {}

  absl::Status CheckFields(const std::vector<bool>& used) const override {
    return CheckFieldsWithin(used, cache_bytes_);
  }

 private:
  const uint64_t cache_bytes_;
};

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_CACHE_OF_BUDGET_H_
