// Which files of an image folder are images: by their names, and by their first
// bytes. `millrace-data pack` and the server follow the same rules.
//
// Pure functions.
//
//   if (HasImageName("1.JPG")) ...
//   absl::string_view why = WhyNoImage(ReadStart(path));  // "is empty"

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_IMAGE_NAMES_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_IMAGE_NAMES_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace millrace::storage {

// Version of the rules by which files and folders are listed. A list by other
// rules is outdated (folder_index.h).
inline constexpr uint32_t kListingRules = 3;

// Bytes at the start of a file that WhyNoImage() and the decoders of operators
// see: millrace_operator.h promises them to sniff().
inline constexpr size_t kImageStartBytes = 256;

// .jpg, .jpeg, .png or .webp, in any case.
bool HasImageName(absl::string_view name);

// An image of a format, or with a name, that is not supported.
bool HasForeignImageName(absl::string_view name);

// A file that may contain the labels of images.
bool HasTableName(absl::string_view name);

// The reason, for a sentence, why a file with this start is no image; empty: it
// is one.
absl::string_view WhyNoImage(absl::string_view start);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_IMAGE_NAMES_H_
