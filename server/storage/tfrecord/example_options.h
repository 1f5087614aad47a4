// The options of a tfrecord: URI, for example
//
//   tfrecord:/data/train-*?image=jpeg&label=class
//
//   image=FEATURE       becomes the field "image", an encoded image
//   label=FEATURE       becomes the field "label", a class index
//   fields=A,B          features that become fields of their own names
//   ragged=A,B          features whose number of values differs between records
//   preset=NAME         imagenet: image/encoded and image/class/label, which
//                       begins at 1; none: no automatic preset
//
// Without image, label and fields, every feature of the first record becomes a
// field. The options of all formats (label_offset, classes) are not here:
// extent_uri.h has them.
//
// Plain values; pure function.

#ifndef MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_OPTIONS_H_
#define MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

// The features of ImageNet as TensorFlow's scripts write it.
inline constexpr absl::string_view kImagenetImage = "image/encoded";
inline constexpr absl::string_view kImagenetLabel = "image/class/label";
// Those labels begin at 1; 0 is the background.
inline constexpr int64_t kImagenetFirstLabel = 1;

enum class ExamplePreset {
  kAutomatic,  // kImagenet where a record has its features
  kNone,
  kImagenet,
};

struct ExampleOptions {
  std::string image;  // empty: not given
  std::string label;  // empty: not given
  std::vector<std::string> fields;
  std::vector<std::string> ragged;
  ExamplePreset preset = ExamplePreset::kAutomatic;
};

// InvalidArgument: an unknown option, a bad value, or options that exclude each
// other; names them.
absl::StatusOr<ExampleOptions> ParseExampleOptions(
    const FormatOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_OPTIONS_H_
