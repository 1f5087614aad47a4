#include "client/torch/cuda_runtime.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace millrace::device {

std::string LibtorchFolder() {
  void* library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return "";
  link_map* map = nullptr;
  std::string folder;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    std::error_code error;
    const std::filesystem::path real =
        std::filesystem::canonical(map->l_name, error);
    if (!error) folder = real.parent_path().string();
  }
  dlclose(library);
  return folder;
}

absl::Status LoadCudaRuntime() {
  // Only machines with an NVIDIA driver have this library.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
    return absl::NotFoundError("this machine has no NVIDIA driver");
  }
  const char* elsewhere = std::getenv("MILLRACE_TORCH_LIB");
  const std::string library = absl::StrCat(
      elsewhere != nullptr ? std::string(elsewhere) : LibtorchFolder(),
      "/libtorch_cuda.so");
  std::error_code error;
  if (!std::filesystem::exists(library, error)) {
    return absl::NotFoundError(
        absl::StrCat("this libtorch has no CUDA part at ", library,
                     "; set MILLRACE_TORCH_LIB to the folder of one that has"));
  }
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot load the CUDA part of libtorch: ", dlerror()));
  }
  return absl::OkStatus();
}

}  // namespace millrace::device
