#include "server/storage/hdf5/hdf5_handle.h"

namespace millrace::storage {

std::string LastHdf5Error() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned number, const H5E_error2_t* error, void* data) -> herr_t {
        if (number == 0 && error->desc != nullptr) {
          *static_cast<std::string*>(data) = error->desc;
        }
        return 0;
      },
      &reason);
  return reason.empty() ? "libhdf5 gives no reason" : reason;
}

}  // namespace millrace::storage
