// Stands for the driver's libnvidia-ml.so.1: one GPU at 0000:65:00.0 that is
// busy 37 % of the time; others are not known, and one has no such figure.

#include <cstring>

extern "C" {

static int started = 0;

int nvmlInit_v2() {
  ++started;
  return 0;
}

int nvmlShutdown() {
  --started;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  if (started == 0) return 1;  // NVML_ERROR_UNINITIALIZED
  static int known, without_figure;
  if (std::strcmp(address, "0000:65:00.0") == 0) {
    *device = &known;
  } else if (std::strcmp(address, "0000:66:00.0") == 0) {
    *device = &without_figure;
  } else {
    return 6;  // NVML_ERROR_NOT_FOUND
  }
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned int* rates) {
  void* known = nullptr;
  if (nvmlDeviceGetHandleByPciBusId_v2("0000:65:00.0", &known) != 0) return 1;
  if (device != known) return 3;  // NVML_ERROR_NOT_SUPPORTED
  rates[0] = 37;
  rates[1] = 99;
  return 0;
}

}  // extern "C"
