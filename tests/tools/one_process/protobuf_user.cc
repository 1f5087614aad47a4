// A program that has proto/pipeline.proto in the machine's protobuf, and then
// opens a client library that has the file, too.
//
//   protobuf_user LIBRARY ENDPOINT SPEC
//
// Prints "batches N digest HEX" of an epoch, the digest as worker.py of
// tools/one_process_run forms it.

#include <dlfcn.h>
#include <google/protobuf/text_format.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "proto/pipeline.pb.h"
#include "tests/tools/one_process/client_shim.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: protobuf_user LIBRARY ENDPOINT SPEC\n");
    return 2;
  }
  millrace::v1::PipelineSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(argv[3], &spec)) return 2;

  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto open = reinterpret_cast<decltype(&millrace_shim_open)>(
      dlsym(library, "millrace_shim_open"));
  const auto next = reinterpret_cast<decltype(&millrace_shim_next)>(
      dlsym(library, "millrace_shim_next"));
  const auto close = reinterpret_cast<decltype(&millrace_shim_close)>(
      dlsym(library, "millrace_shim_close"));
  if (open == nullptr || next == nullptr || close == nullptr) {
    std::fprintf(stderr, "%s has no millrace_shim_*\n", argv[1]);
    return 1;
  }

  char error[4096] = "";
  millrace_shim_loader* const loader =
      open(argv[2], argv[3], 1, error, sizeof(error));
  if (loader == nullptr) {
    std::fprintf(stderr, "open: %s\n", error);
    return 1;
  }
  uint64_t batches = 0;
  uint64_t epoch_digest = 0;
  uint64_t bytes = 0;
  uint64_t digest = 0;
  int code = 0;
  while ((code = next(loader, &bytes, &digest, error, sizeof(error))) == 1) {
    ++batches;
    epoch_digest = epoch_digest * 31 + digest + bytes;
  }
  close(loader);
  if (code != 0) {
    std::fprintf(stderr, "next: %s\n", error);
    return 1;
  }
  // The program's own messages still work.
  if (spec.batch_size() == 0 || spec.DebugString().empty()) return 1;
  std::printf("batches %" PRIu64 " digest %016" PRIx64 "\n", batches,
              epoch_digest);
  return 0;
}
