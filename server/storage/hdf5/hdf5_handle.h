// An identifier of libhdf5 that is closed at the end of its scope, and the
// reason of libhdf5's last error.
//
// One thread: libhdf5 is not thread-safe. Only millrace-hdf5 links it.
//
//   const Hdf5Handle type(H5Dget_type(set), H5Tclose);
//   if (!type.ok()) return absl::DataLossError(LastHdf5Error());

#ifndef MILLRACE_SERVER_STORAGE_HDF5_HDF5_HANDLE_H_
#define MILLRACE_SERVER_STORAGE_HDF5_HDF5_HANDLE_H_

#include <hdf5/serial/hdf5.h>

#include <string>
#include <utility>

namespace millrace::storage {

class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Hdf5Handle() { Reset(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    Reset();
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
    return *this;
  }

  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  void Reset() {
    if (id_ >= 0) close_(id_);
    id_ = -1;
  }

  hid_t id_ = -1;
  Close close_ = nullptr;
};

// The innermost reason of the last error: a part of a sentence.
std::string LastHdf5Error();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_HDF5_HANDLE_H_
