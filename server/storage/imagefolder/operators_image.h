// Files that are images for the decoders of operators, whatever their names
// are.
//
// Safe from any thread.

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_OPERATORS_IMAGE_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_OPERATORS_IMAGE_H_

#include "absl/strings/string_view.h"
#include "server/operators/operators.h"

namespace millrace::storage {

// Whether a decoder of `operators` accepts a file with this start. Null: none.
bool IsOperatorsImage(const operators::Operators* operators,
                      absl::string_view start);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_OPERATORS_IMAGE_H_
