// Opens a shared library of Millrace when it is needed: a library that links
// packages that most machines lack (NCCL, Cairo). The library has one C
// function, whose name contains the version of the interface.
//
// What it is not: not for libraries of users (server/operators/operators.h).
//
// Safe from any thread. A library that was opened stays open.
//
//   MR_ASSIGN_OR_RETURN(void* function,
//                       OpenPlugIn(plug_in, PlugInPaths(plug_in.file)));
//   reinterpret_cast<Draw*>(function)(&request, &reply);

#ifndef MILLRACE_COMMON_PLUG_IN_H_
#define MILLRACE_COMMON_PLUG_IN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

struct PlugIn {
  std::string file;      // "libmillrace_nccl.so"
  std::string function;  // that it exports
  // Parts of the errors, for people.
  std::string user;           // what needs it: "several ranks on CUDA"
  std::string where_missing;  // what to do where there is none
  std::string where_broken;   // what to do where it does not load
};

// Paths of the library, best first: in lib/ beside the program, in lib/
// beside the program's folder.
std::vector<std::string> PlugInPaths(absl::string_view file);

// The function of the first of these files that exists. NotFound: there is
// none; FailedPrecondition: it does not load, or belongs to another version.
// All name the file and what to do.
absl::StatusOr<void*> OpenPlugIn(const PlugIn& plug_in,
                                 const std::vector<std::string>& paths);

}  // namespace millrace

#endif  // MILLRACE_COMMON_PLUG_IN_H_
