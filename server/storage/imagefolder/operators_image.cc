#include "server/storage/imagefolder/operators_image.h"

#include <cstdint>

namespace millrace::storage {

bool IsOperatorsImage(const operators::Operators* operators,
                      absl::string_view start) {
  return operators != nullptr &&
         operators->SniffedBy({reinterpret_cast<const uint8_t*>(start.data()),
                               start.size()}) != nullptr;
}

}  // namespace millrace::storage
