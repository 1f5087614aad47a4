// ImageFolders is where the images of an image folder are: the names in each
// folder, and the folders below it.
//
// A plain value; it never looks at the disk.
//
//   ImageFolders input;
//   input.folders["train"].folders["cat"].images.Add("1.jpg");
//   FoldersIn(input)  ->  {"train"}

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_IMAGE_FOLDERS_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_IMAGE_FOLDERS_H_

#include <map>
#include <string>
#include <vector>

#include "server/storage/imagefolder/same_samples.h"

namespace millrace::storage {

struct ImageFolders {
  ImageNames images;                            // in the folder itself
  std::map<std::string, ImageFolders> folders;  // also those without images
};

// The names of the sub-folders that hold images at any depth, or of those that
// hold none.
std::vector<std::string> FoldersIn(const ImageFolders& folder,
                                   bool with_images = true);

// "a, b, and 5 more", for a sentence.
std::string ListNames(const std::vector<std::string>& names);

// The images of `folder` and of all folders below it; they live as long as it
// does.
std::vector<const ImageNames*> AllImages(const ImageFolders& folder);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_IMAGE_FOLDERS_H_
