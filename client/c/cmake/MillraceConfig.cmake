# find_package(Millrace): Millrace's client for C and C++ (docs/package.md).
#
# Target:
#   Millrace::client   libmillrace.so and its headers. C: millrace.h and
#                      millrace_dlpack.h. C++17: millrace.hpp; beside a libtorch
#                      of the program, millrace_torch.hpp.
#
# The folder of the package may lie anywhere.

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64"
   OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(Millrace_FOUND FALSE)
  set(Millrace_NOT_FOUND_MESSAGE "this package of Millrace is for Linux on x86-64")
  return()
endif()

if(NOT TARGET Millrace::client)
  # Without links: CMake may find the files in /lib, which is a link to /usr/lib.
  get_filename_component(_millrace "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
  get_filename_component(_millrace "${_millrace}/../../.." ABSOLUTE)
  add_library(Millrace::client SHARED IMPORTED)
  set_target_properties(Millrace::client PROPERTIES
    IMPORTED_LOCATION "${_millrace}/lib/libmillrace.so.1"
    IMPORTED_SONAME "libmillrace.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_millrace}/include")
  unset(_millrace)
endif()
