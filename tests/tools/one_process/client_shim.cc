#include "tests/tools/one_process/client_shim.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "proto/spec_text.h"

struct millrace_shim_loader {
  std::unique_ptr<millrace::HostLoader> loader;
};

namespace millrace::testing {
namespace {

void WriteError(const absl::Status& status, char* error, uint64_t error_size) {
  if (error_size == 0) return;
  const std::string text = status.ToString();
  const uint64_t size = std::min<uint64_t>(text.size(), error_size - 1);
  std::memcpy(error, text.data(), size);
  error[size] = 0;
}

}  // namespace
}  // namespace millrace::testing

extern "C" {

millrace_shim_loader* millrace_shim_open(const char* endpoint,
                                         const char* spec_text, uint64_t epochs,
                                         char* error, uint64_t error_size) {
  auto spec = millrace::ParseSpecText(spec_text, "the spec");
  if (!spec.ok()) {
    millrace::testing::WriteError(spec.status(), error, error_size);
    return nullptr;
  }
  millrace::HostLoaderOptions options;
  options.endpoint = endpoint;
  options.spec = *std::move(spec);
  options.epochs = epochs;
  auto loader = millrace::receive::OpenHostLoader(options);
  if (!loader.ok()) {
    millrace::testing::WriteError(loader.status(), error, error_size);
    return nullptr;
  }
  return new millrace_shim_loader{*std::move(loader)};
}

int millrace_shim_next(millrace_shim_loader* loader, uint64_t* bytes,
                       uint64_t* digest, char* error, uint64_t error_size) {
  const auto batch = loader->loader->Next();
  if (absl::IsOutOfRange(batch.status())) return 0;
  if (!batch.ok()) {
    millrace::testing::WriteError(batch.status(), error, error_size);
    return -1;
  }
  *bytes = batch->payload.size();
  *digest = XXH3_64bits(batch->payload.data(), batch->payload.size());
  return 1;
}

void millrace_shim_close(millrace_shim_loader* loader) { delete loader; }

}  // extern "C"
