#include "trainer/monitoring/device_load.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

namespace millrace::monitoring {
namespace {

// nvmlReturn_t and cudaError_t are enumerations; 0 is success.
struct Utilization {  // nvmlUtilization_t, in percent
  unsigned int gpu;
  unsigned int memory;
};
using InitFunction = int();
using ByPciFunction = int(const char* address, void** device);
using UtilizationFunction = int(void* device, Utilization* utilization);
using PciAddressFunction = int(char* address, int size, int device);

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

struct DeviceLoad::Library {
  ~Library() {
    if (shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
  void* handle = nullptr;
  InitFunction* shutdown = nullptr;  // once nvmlInit_v2 was called
  UtilizationFunction* utilization = nullptr;
};

DeviceLoad::DeviceLoad(std::unique_ptr<Library> library, void* device)
    : library_(std::move(library)), device_(device) {}

DeviceLoad::~DeviceLoad() = default;

std::unique_ptr<DeviceLoad> DeviceLoad::Open(int cuda_device,
                                             const std::string& name) {
  // libcudart.so is loaded in this process when libtorch has CUDA.
  auto* pci_address =
      Find<PciAddressFunction>(RTLD_DEFAULT, "cudaDeviceGetPCIBusId");
  char address[32] = "";
  if (pci_address == nullptr ||
      pci_address(address, sizeof(address), cuda_device) != 0) {
    return nullptr;
  }
  return OpenPci(address, name);
}

std::unique_ptr<DeviceLoad> DeviceLoad::OpenPci(const std::string& address,
                                                const std::string& name) {
  auto library = std::make_unique<Library>();
  library->handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return nullptr;
  auto* init = Find<InitFunction>(library->handle, "nvmlInit_v2");
  auto* shutdown = Find<InitFunction>(library->handle, "nvmlShutdown");
  auto* by_pci =
      Find<ByPciFunction>(library->handle, "nvmlDeviceGetHandleByPciBusId_v2");
  library->utilization = Find<UtilizationFunction>(
      library->handle, "nvmlDeviceGetUtilizationRates");
  if (init == nullptr || shutdown == nullptr || by_pci == nullptr ||
      library->utilization == nullptr || init() != 0) {
    return nullptr;
  }
  library->shutdown = shutdown;
  void* device = nullptr;
  if (by_pci(address.c_str(), &device) != 0) return nullptr;
  std::unique_ptr<DeviceLoad> load(new DeviceLoad(std::move(library), device));
  if (!load->Busy().has_value()) return nullptr;
  return load;
}

std::optional<double> DeviceLoad::Busy() const {
  Utilization utilization = {};
  if (library_->utilization(device_, &utilization) != 0) return std::nullopt;
  return std::clamp(utilization.gpu / 100.0, 0.0, 1.0);
}

}  // namespace millrace::monitoring
