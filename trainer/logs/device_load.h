// DeviceLoad asks NVIDIA's management library (NVML) how busy a GPU is: the
// percentage of the last sample period (a sixth of a second to one second, by
// the model) in which a kernel ran on it, by whichever process. What it is not:
// a measure of how much of the GPU a kernel uses.
//
// One thread. Owns the opened library. The library comes with the driver and is
// opened at run time, so that nothing has to be linked or installed.
//
//   std::unique_ptr<DeviceLoad> load = DeviceLoad::Open(0);  // null: none
//   std::optional<double> busy = load->Busy();               // 0 to 1
//
// Types and names: NVML API Reference Manual, "Device Queries".

#ifndef MILLRACE_TRAINER_LOGS_DEVICE_LOAD_H_
#define MILLRACE_TRAINER_LOGS_DEVICE_LOAD_H_

#include <memory>
#include <optional>
#include <string>

namespace millrace {

class DeviceLoad {
 public:
  // Of the process's CUDA device of that number, which is not NVML's number:
  // CUDA_VISIBLE_DEVICES and the driver's order lie between. They agree on the
  // PCI address, which CUDA's runtime is asked for. Null when either is not
  // there or says nothing of this device: a part of a GPU (MIG) has no such
  // figure.
  static std::unique_ptr<DeviceLoad> Open(
      int cuda_device, const std::string& library = "libnvidia-ml.so.1");
  // Of a PCI address such as "0000:65:00.0".
  static std::unique_ptr<DeviceLoad> OpenPci(const std::string& address,
                                             const std::string& library);
  ~DeviceLoad();
  DeviceLoad(const DeviceLoad&) = delete;
  DeviceLoad& operator=(const DeviceLoad&) = delete;

  // Of now; nothing when NVML does not say. Takes microseconds.
  std::optional<double> Busy() const;

 private:
  struct Library;
  DeviceLoad(std::unique_ptr<Library> library, void* device);

  const std::unique_ptr<Library> library_;
  void* const device_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOGS_DEVICE_LOAD_H_
