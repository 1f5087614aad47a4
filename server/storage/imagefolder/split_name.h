// Names that stand for a part of a dataset, not for data of their own kind:
// train, Val, test_images, train2017, fold1.
//
// Pure functions.
//
//   PartOfName("train2017")                         ->  "train"
//   SplitsAmong({"box_train", "box_test", "cat"})   ->  {"box_train",
//   "box_test"}

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_SPLIT_NAME_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_SPLIT_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::storage {

// The part that `name` says that it is, spelled in one way: "train" of
// "Training_set". Digits, case and words like "images" do not matter, but a
// fold has a number. Empty: it says none, or more than that ("train_station").
std::string PartOfName(absl::string_view name);

// Those of the names that are parts beside each other: by PartOfName(), or
// because the words of two differ in the part only.
std::vector<std::string> SplitsAmong(const std::vector<std::string>& names);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_SPLIT_NAME_H_
