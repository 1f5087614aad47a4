# Which versions find_package(Millrace VERSION) may ask for: this one and earlier
# ones of the same major number.

set(PACKAGE_VERSION "@VERSION@")

string(REGEX MATCH "^[0-9]+" _millrace_major "${PACKAGE_VERSION}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION
   OR NOT "${PACKAGE_FIND_VERSION_MAJOR}" STREQUAL "${_millrace_major}")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
unset(_millrace_major)
