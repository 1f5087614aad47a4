#include "trainer/ddp/nccl_plugin.h"

#include <chrono>
#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <type_traits>

namespace {

c10::intrusive_ptr<c10d::Backend> Make(
    const millrace::ddp::NcclRequest& request) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(request.timeout_ms);
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      request.store, request.rank, request.size, options);
  // Connects now and not with the first gradients, so that faults of GPUs or
  // the network appear before training.
  const at::Device device(at::kCUDA,
                          static_cast<c10::DeviceIndex>(request.device));
  nccl->setBoundDeviceId(device);
  nccl->eagerConnectSingleDevice(device);
  return nccl;
}

}  // namespace

static_assert(std::is_same_v<decltype(millrace_make_nccl_backend_v1),
                             millrace::ddp::MakeNcclBackend>);

int millrace_make_nccl_backend_v1(const millrace::ddp::NcclRequest* request,
                                  millrace::ddp::NcclReply* reply) {
  // No exception may cross the C interface.
  try {
    reply->backend = Make(*request);
    return 0;
  } catch (const c10::Error& error) {
    reply->error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    reply->error = error.what();
  } catch (...) {
    reply->error = "an exception of unknown type";
  }
  return 1;
}
