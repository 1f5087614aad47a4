// Writes small HDF5 files by libhdf5's C interface, for what h5py does not
// write.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_HDF5_HDF5_WRITER_H_
#define MILLRACE_TESTS_SERVER_STORAGE_HDF5_HDF5_WRITER_H_

#include <gtest/gtest.h>
#include <hdf5/serial/hdf5.h>

#include <functional>
#include <string>
#include <vector>

namespace millrace::storage {

class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::string& path, hid_t access = H5P_DEFAULT)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access)) {
    EXPECT_GE(file_, 0);
  }
  ~Hdf5Writer() { Close(); }
  Hdf5Writer(const Hdf5Writer&) = delete;

  void Close() {
    if (file_ >= 0) {
      EXPECT_GE(H5Fclose(file_), 0);
    }
    file_ = -1;
  }
  hid_t file() const { return file_; }

  struct Layout {
    std::vector<hsize_t> chunk;       // empty: contiguous
    std::function<void(hid_t)> more;  // properties
  };

  // A dataset of `dims`; `data` is of the type in the order of the machine, or
  // null: nothing is written.
  void Add(const std::string& name, hid_t type, hid_t memory_type,
           const std::vector<hsize_t>& dims, const void* data,
           const Layout& layout = {}) {
    const hid_t space =
        H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (!layout.chunk.empty()) {
      H5Pset_chunk(properties, static_cast<int>(layout.chunk.size()),
                   layout.chunk.data());
    }
    if (layout.more) layout.more(properties);
    const hid_t set = H5Dcreate2(file_, name.c_str(), type, space, H5P_DEFAULT,
                                 properties, H5P_DEFAULT);
    EXPECT_GE(set, 0) << name;
    if (data != nullptr) {
      EXPECT_GE(H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
                0)
          << name;
    }
    H5Dclose(set);
    H5Pclose(properties);
    H5Sclose(space);
  }

 private:
  hid_t file_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_HDF5_HDF5_WRITER_H_
