// DeviceLoad reads the load of a GPU from NVIDIA's management library (NVML):
// the percentage of the last sample period (a sixth of a second to one second,
// depending on the model) in which a kernel of any process ran. What it is not:
// a measure of how much of the GPU a kernel uses.
//
// One thread. Owns the opened library. The library comes with the driver and is
// opened at run time, so that it need not be linked or installed.
//
//   std::unique_ptr<DeviceLoad> load = DeviceLoad::Open(0);  // null: none
//   std::optional<double> busy = load->Busy();               // 0 to 1
//
// Types and names: NVML API Reference Manual, "Device Queries".

#ifndef MILLRACE_TRAINER_MONITORING_DEVICE_LOAD_H_
#define MILLRACE_TRAINER_MONITORING_DEVICE_LOAD_H_

#include <memory>
#include <optional>
#include <string>

namespace millrace::monitoring {

class DeviceLoad {
 public:
  // `cuda_device`: number of the process's CUDA device. NVML numbers devices
  // differently (CUDA_VISIBLE_DEVICES and the driver's order are between them),
  // so both are matched by PCI address. Null when NVML or CUDA's runtime is
  // missing, or NVML has no load for this device: a part of a GPU (MIG) has
  // none.
  static std::unique_ptr<DeviceLoad> Open(
      int cuda_device, const std::string& library = "libnvidia-ml.so.1");
  // The same for a PCI address such as "0000:65:00.0".
  static std::unique_ptr<DeviceLoad> OpenPci(const std::string& address,
                                             const std::string& library);
  ~DeviceLoad();
  DeviceLoad(const DeviceLoad&) = delete;
  DeviceLoad& operator=(const DeviceLoad&) = delete;

  // The current load; nothing when NVML has none. Takes microseconds.
  std::optional<double> Busy() const;

 private:
  struct Library;
  DeviceLoad(std::unique_ptr<Library> library, void* device);

  const std::unique_ptr<Library> library_;
  void* const device_;
};

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_DEVICE_LOAD_H_
