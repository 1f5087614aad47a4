// The border between millrace-train and libmillrace_nccl.so.
//
// NCCL's process group is code of libtorch_cuda.so, which a machine without a
// GPU does not have. So it is not linked into the program: it is a small shared
// library of its own, opened when several ranks run on GPUs, after
// libtorch_cuda.so has been opened for everybody (client/torch/cuda_runtime.h).
//
// The border is one C function. What crosses it are pointers to objects of
// libtorch, so both sides must be built from one source tree against one
// libtorch; the number in the function's name changes whenever anything here
// does, and a library of another version is then refused by name.
//
// Ownership: the request and the reply belong to the caller, and the function
// keeps no pointer to them. It takes a reference of its own to the store, and
// puts a new reference to the backend into the reply; the backend lives on the
// heap of the one C++ runtime that both sides share. The library is never
// closed, because threads and virtual functions of the backend are its code and
// libtorch_cuda's.
//
// No exception crosses the border.

#ifndef MILLRACE_TRAINER_DDP_NCCL_PLUGIN_H_
#define MILLRACE_TRAINER_DDP_NCCL_PLUGIN_H_

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace millrace {

struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;  // where the ranks meet
  int32_t rank = 0;
  int32_t size = 0;
  int32_t device = 0;      // index of this rank's GPU
  int64_t timeout_ms = 0;  // of a collective call
};

struct NcclReply {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::string error;  // when the function fails
};

using MakeNcclBackend = int(const NcclRequest* request, NcclReply* reply);

// The name of the function, which the library exports and nothing else.
inline constexpr char kMakeNcclBackend[] = "millrace_make_nccl_backend_v1";

}  // namespace millrace

// Connects this rank to all the others, so it waits for them. Zero: the reply
// holds the backend; else it says what went wrong. One thread.
extern "C" int millrace_make_nccl_backend_v1(
    const millrace::NcclRequest* request, millrace::NcclReply* reply);

#endif  // MILLRACE_TRAINER_DDP_NCCL_PLUGIN_H_
