// A program that has proto/pipeline.proto in the machine's protobuf, as any
// program in C++ that uses our files, and then opens a client library that has
// the file, too.
//
//   protobuf_user LIBRARY ENDPOINT SPEC
//
// Prints "batches N digest HEX" of an epoch, the digest as worker.py of
// tools/one_process_run forms it.

#include <dlfcn.h>
#include <google/protobuf/text_format.h>
#include <zlib.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "client/c/millrace.h"
#include "proto/pipeline.pb.h"

namespace {

// What is called of the library. Plain data.
struct Client {
  decltype(&millrace_options_new) options_new;
  decltype(&millrace_options_set) options_set;
  decltype(&millrace_options_free) options_free;
  decltype(&millrace_loader_open) loader_open;
  decltype(&millrace_loader_next) loader_next;
  decltype(&millrace_loader_free) loader_free;
  decltype(&millrace_batch_get_info) batch_get_info;
  decltype(&millrace_batch_free) batch_free;
  decltype(&millrace_error_message) error_message;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr)
    std::fprintf(stderr, "no %s: %s\n", name, dlerror());
  return *function != nullptr;
}

bool FindAll(void* library, Client* client) {
  return Find(library, "millrace_options_new", &client->options_new) &&
         Find(library, "millrace_options_set", &client->options_set) &&
         Find(library, "millrace_options_free", &client->options_free) &&
         Find(library, "millrace_loader_open", &client->loader_open) &&
         Find(library, "millrace_loader_next", &client->loader_next) &&
         Find(library, "millrace_loader_free", &client->loader_free) &&
         Find(library, "millrace_batch_get_info", &client->batch_get_info) &&
         Find(library, "millrace_batch_free", &client->batch_free) &&
         Find(library, "millrace_error_message", &client->error_message);
}

}  // namespace

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
  Client client = {};
  if (!FindAll(library, &client)) return 1;

  millrace_error* error = nullptr;
  const auto fail = [&] {
    std::fprintf(stderr, "%s\n", client.error_message(error));
    return 1;
  };
  millrace_options* const options = client.options_new();
  if (client.options_set(options, "endpoint", argv[2], &error) != 0 ||
      client.options_set(options, "pipeline", argv[3], &error) != 0) {
    return fail();
  }
  millrace_loader* loader = nullptr;
  if (client.loader_open(options, &loader, &error) != 0) return fail();
  client.options_free(options);
  uint64_t batches = 0;
  uLong digest = 0;
  millrace_batch* batch = nullptr;
  millrace_status status = MILLRACE_STATUS_OK;
  while ((status = client.loader_next(loader, -1, &batch, &error)) ==
         MILLRACE_STATUS_OK) {
    millrace_batch_info info = {};
    info.struct_size = sizeof(info);
    if (client.batch_get_info(batch, &info, &error) != 0) return fail();
    digest = crc32_z(digest, static_cast<const Bytef*>(info.data), info.bytes);
    client.batch_free(batch);
    ++batches;
  }
  if (status != MILLRACE_STATUS_OUT_OF_RANGE) return fail();
  client.loader_free(loader);
  // The program's own messages still work.
  if (spec.batch_size() == 0 || spec.DebugString().empty()) return 1;
  std::printf("batches %" PRIu64 " digest %08lx\n", batches, digest);
  return 0;
}
