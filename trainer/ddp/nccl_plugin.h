// The interface between millrace-train and libmillrace_nccl.so.
//
// NCCL's process group is code of libtorch_cuda.so, which a machine without a
// GPU does not have. So it is not linked into the program: it is a small shared
// library, opened when several ranks run on GPUs, after libtorch_cuda.so was
// opened globally (client/torch/cuda_runtime.h).
//
// The interface is one C function. It passes pointers to objects of libtorch,
// so both sides must be built from one source tree against one libtorch. The
// number in the function's name changes with every change here; a library of
// another version is then refused by name.
//
// Ownership: the caller owns the request and the reply, and the function keeps
// no pointer to them. It takes its own reference to the store and puts a new
// reference to the backend into the reply; the backend lives on the heap of the
// one C++ runtime that both sides share. The library is never closed, because
// threads and virtual functions of the backend are its code and
// libtorch_cuda's.
//
// No exception crosses the interface.

#ifndef MILLRACE_TRAINER_DDP_NCCL_PLUGIN_H_
#define MILLRACE_TRAINER_DDP_NCCL_PLUGIN_H_

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace millrace::ddp {

struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;  // the store of the job
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

// The function's name; the library exports nothing else.
inline constexpr char kMakeNcclBackend[] = "millrace_make_nccl_backend_v1";

}  // namespace millrace::ddp

// Connects this rank to all others, so it waits for them. Returns 0: the reply
// holds the backend; otherwise its error. One thread.
extern "C" int millrace_make_nccl_backend_v1(
    const millrace::ddp::NcclRequest* request, millrace::ddp::NcclReply* reply);

#endif  // MILLRACE_TRAINER_DDP_NCCL_PLUGIN_H_
