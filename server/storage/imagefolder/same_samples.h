// Whether a few folders hold the same samples, one kind of file each, as images
// beside their masks: such folders are no classes, whatever their names are.
//
// Files of the same names are the sign, but numbered files of classes have the
// same names, too (cat/0001.jpg, dog/0001.jpg). So one more sign must be there:
// one folder holds PNG files alone and another none, or one holds PNG files of
// one channel alone and another none, or one is named after a kind of file.
//
// Masks may also lie beside their images, in the same folder or another one,
// under the image's name with a word behind it (1_mask.png).
//
// Pure functions: they see what was noted of the files, never the disk.
//
//   ImageNames gt;
//   gt.Add("0001.png");
//   std::string why = WhySameSamples({{"gt", &gt, true}, {"rgb", &rgb,
//   false}});

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_SAME_SAMPLES_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_SAME_SAMPLES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::storage {

// The images that lie in one folder.
struct ImageNames {
  std::vector<size_t> stems;  // hashes of the names without their suffix
  // Of the files that are named as masks (1_mask.png, 1_mask_2.png,
  // 1_segmentation.png): hashes of the names of their images (1).
  std::vector<size_t> masks_of;
  size_t pngs = 0;  // of these
  // All of them are PNGs, and those that were looked at have one channel: grey,
  // or an index into a palette.
  bool one_channel = false;

  void Add(absl::string_view name);
  bool AreAllPng() const { return !stems.empty() && pngs == stems.size(); }
};

struct NamedImages {
  std::string folder;
  const ImageNames* images;
  bool named_as_kind;  // as what it holds of each sample, and never as a class
};

// The sign that is there beside the names of the files, for a message: "gt
// holds PNG files alone, rgb none". Empty: the folders may be classes.
std::string WhySameSamples(const std::vector<NamedImages>& folders);

// Whether images below one input are masks by their names: two or more, and at
// least a fifth of all, are named as masks of other images there, or two or
// more, and at least half of all, are named as masks. The sign, for a message:
// "6 of 12 images are named as masks (such as 1_mask.png)". Empty: they may be
// samples of classes.
std::string WhyMasks(const std::vector<const ImageNames*>& all);

// Whether a file that begins so is a PNG of one channel.
bool IsOneChannelPng(absl::string_view start);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_SAME_SAMPLES_H_
