// The numbers of HDF5 that Millrace reads: which of Millrace's types they are,
// and the type that libhdf5 converts them to (the same numbers in the order of
// the machine).
//
// One thread. Does not own the type that it is given.
//
//   const std::optional<NumberType> number = NumberTypeOf(type);

#ifndef MILLRACE_SERVER_STORAGE_HDF5_NUMBER_TYPE_H_
#define MILLRACE_SERVER_STORAGE_HDF5_NUMBER_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/storage/chunks/stored_type.h"
#include "server/storage/hdf5/hdf5_handle.h"

namespace millrace::storage {

struct NumberType {
  StoredType stored = StoredType::kBytes;
  Hdf5Handle memory;
  bool swapped = false;  // the file has the other order of bytes
  // Of an enumeration of 0, 1, ...
  std::vector<std::string> value_names;
};

// nullopt: the type is no number, or one without a type of Millrace (integers
// of 24 bits, floats of 80 bits).
std::optional<NumberType> NumberTypeOf(hid_t type);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_NUMBER_TYPE_H_
