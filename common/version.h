// The version of this release, as the programs print it.

#ifndef MILLRACE_COMMON_VERSION_H_
#define MILLRACE_COMMON_VERSION_H_

namespace millrace {

inline constexpr char kMillraceVersion[] = "0.1.0";

}  // namespace millrace

#endif  // MILLRACE_COMMON_VERSION_H_
