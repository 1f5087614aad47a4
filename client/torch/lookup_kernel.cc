#include "client/torch/lookup_kernel.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::device {
namespace {

constexpr char kPtx[] =
#include "client/torch/lookup_kernel_ptx.inc"
    ;

constexpr uint64_t kPerThread = 4;
constexpr uint64_t kThreads = 256;  // of a block
// Far more than a batch has, and no sum in the kernel overflows.
constexpr uint64_t kMaxElements32 = uint64_t{1} << 31;

absl::Status Check(int result, absl::string_view what) {
  if (result == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, " failed with error ", result, " of the driver"));
}

template <typename Function>
absl::Status FindIn(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the NVIDIA driver has no ", name));
}

}  // namespace

absl::StatusOr<CudaDriver> CudaDriver::Find() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL);
  if (library == nullptr) {
    return absl::NotFoundError("this machine has no NVIDIA driver");
  }
  CudaDriver driver;
  MR_RETURN_IF_ERROR(
      FindIn(library, "cuModuleLoadData", &driver.cuModuleLoadData));
  MR_RETURN_IF_ERROR(
      FindIn(library, "cuModuleGetFunction", &driver.cuModuleGetFunction));
  MR_RETURN_IF_ERROR(FindIn(library, "cuLaunchKernel", &driver.cuLaunchKernel));
  return driver;
}

absl::string_view LookupKernel::Ptx() { return kPtx; }

absl::StatusOr<LookupKernel> LookupKernel::Load(const CudaDriver& driver) {
  LookupKernel kernel(driver);
  void* module = nullptr;
  MR_RETURN_IF_ERROR(
      Check(driver.cuModuleLoadData(&module, kPtx), "cuModuleLoadData"));
  MR_RETURN_IF_ERROR(
      Check(driver.cuModuleGetFunction(&kernel.by_2_, module, "lookup2"),
            "cuModuleGetFunction"));
  MR_RETURN_IF_ERROR(
      Check(driver.cuModuleGetFunction(&kernel.by_4_, module, "lookup4"),
            "cuModuleGetFunction"));
  MR_RETURN_IF_ERROR(
      Check(driver.cuModuleGetFunction(&kernel.by_8_, module, "lookup8"),
            "cuModuleGetFunction"));
  return kernel;
}

bool LookupKernel::Fits(const Work& work) {
  const auto aligned = [](const uint8_t* data, uint64_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
  };
  return work.elements <= kMaxElements32 && work.channels > 0 && work.run > 0 &&
         work.channels <= kMaxElements32 / 256 && work.run <= kMaxElements32 &&
         (work.result_bytes == 2 || work.result_bytes == 4 ||
          work.result_bytes == 8) &&
         aligned(work.source, kPerThread) &&
         aligned(work.target, kPerThread * work.result_bytes) &&
         aligned(work.tables, work.result_bytes);
}

absl::Status LookupKernel::Launch(void* stream, const Work& work) const {
  if (work.elements == 0) return absl::OkStatus();
  // The types that the kernel declares.
  const void* source = work.source;
  void* target = work.target;
  const void* tables = work.tables;
  auto elements = static_cast<uint32_t>(work.elements);
  auto channels = static_cast<uint32_t>(work.channels);
  auto run = static_cast<uint32_t>(work.run);
  void* parameters[] = {&source, &target, &tables, &elements, &channels, &run};
  const uint64_t per_block = kPerThread * kThreads;
  const auto blocks =
      static_cast<unsigned>((work.elements + per_block - 1) / per_block);
  void* const function = work.result_bytes == 2   ? by_2_
                         : work.result_bytes == 4 ? by_4_
                                                  : by_8_;
  return Check(
      driver_.cuLaunchKernel(function, blocks, 1, 1, kThreads, 1, 1,
                             /*shared_bytes=*/0, stream, parameters, nullptr),
      "cuLaunchKernel");
}

}  // namespace millrace::device
