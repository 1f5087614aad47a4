// Names of datasets that a server has chosen. Two folders of images may have
// one fingerprint, so that their plans are equal, and yet be read one by one:
// the second one that is open gets the name of the first with a number behind
// it. Plans do not depend on the number.
//
// Pure functions, safe from any thread.
//
//   NumberedName("data-0123456789abcdef", 2)  ->  "data-0123456789abcdef~2"
//   PlainName("data-0123456789abcdef~2")      ->  "data-0123456789abcdef"

#ifndef MILLRACE_PROTO_DATASET_NAME_H_
#define MILLRACE_PROTO_DATASET_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

// No name that a person chooses contains it (server/config.h).
inline constexpr char kNumberMark = '~';

// The name itself for number 1.
inline std::string NumberedName(absl::string_view name, uint64_t number) {
  return number == 1 ? std::string(name)
                     : absl::StrCat(name, std::string(1, kNumberMark), number);
}

inline absl::string_view PlainName(absl::string_view name) {
  return name.substr(0, name.find(kNumberMark));
}

}  // namespace millrace

#endif  // MILLRACE_PROTO_DATASET_NAME_H_
