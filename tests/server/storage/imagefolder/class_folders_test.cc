#include "server/storage/imagefolder/class_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Names = std::vector<std::string>;

// Of images at these paths; one that ends in a slash is a folder without any.
absl::StatusOr<Names> Check(const Names& paths, const Names& tables = {},
                            FolderUse use = FolderUse::kPack) {
  ImageFolders input;
  for (const std::string& path : paths) {
    ImageFolders* folder = &input;
    const Names parts = absl::StrSplit(path, '/');
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      folder = &folder->folders[parts[i]];
    }
    if (!parts.back().empty()) folder->images.Add(parts.back());
  }
  return CheckClassFolders("/in", input, tables, use);
}

std::string Refusal(const Names& paths, const Names& tables = {},
                    FolderUse use = FolderUse::kPack) {
  const auto result = Check(paths, tables, use);
  EXPECT_FALSE(result.ok());
  return std::string(result.status().message());
}

Names Doubts(const Names& paths) {
  const auto result = Check(paths);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(Names());
}

TEST(ClassFoldersTest, PartsAreNoClasses) {
  for (const Names& names :
       {Names{"annotations", "train2017", "val2017"},
        Names{"train_images", "validation"}, Names{"test"},
        Names{"bounding_box_test", "bounding_box_train", "query"},
        Names{"fold1", "fold2"}, Names{"holdout", "train"}}) {
    Names paths;
    for (const std::string& name : names) paths.push_back(name + "/a/1.jpg");
    EXPECT_THAT(Refusal(paths), HasSubstr("pack ")) << names[0];
  }
  EXPECT_THAT(Refusal({"Train/a/1.jpg", "test/a/1.jpg", "val/a/1.jpg"}),
              HasSubstr("(--input=/in --split=Train)"));
  EXPECT_THAT(Doubts({"bus/1.jpg", "car/1.jpg"}), IsEmpty());
}

TEST(ClassFoldersTest, ImagesAndMasksAreNoClasses) {
  constexpr char kSentence[] =
      "have the names of parts of a sample (Images, masks)";
  EXPECT_THAT(Refusal({"Images/1.jpg", "masks/1.png"}), HasSubstr(kSentence));
  // The first class folder was advised as the input, and refused.
  EXPECT_THAT(Refusal({"a/Images/1.jpg", "a/masks/1.jpg", "b/Images/1.jpg",
                       "b/masks/1.jpg"}),
              AllOf(HasSubstr(kSentence), HasSubstr("one class, a")));
  EXPECT_THAT(Doubts({"images/1.jpg", "masks/1.jpg", "cats/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"images/1.jpg"}), IsEmpty());
}

// Files `first` to `last` of a folder, numbered.
Names Numbered(const std::string& folder, const std::string& suffix, int last,
               int first = 1) {
  Names names;
  for (int i = first; i <= last; ++i) {
    names.push_back(absl::StrCat(folder, "/", 1000 + i, suffix));
  }
  return names;
}

Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// They were packed as two classes without a word.
TEST(ClassFoldersTest, FoldersOfTheSameSamplesAreNoClasses) {
  for (const auto& [image, mask] :
       {std::pair("imgs", "gt"), std::pair("image", "label"),
        std::pair("images", "labels"),
        std::pair("JPEGImages", "SegmentationClass"), std::pair("rgb", "y")}) {
    EXPECT_THAT(
        Refusal(Numbered(image, ".jpg", 20) + Numbered(mask, ".png", 20)),
        AllOf(HasSubstr("write images with masks"),
              HasSubstr("or pass --labels_from_folders if these are classes")));
  }
  EXPECT_THAT(Refusal(Numbered("rgb", ".jpg", 20) + Numbered("y", ".png", 20)),
              HasSubstr("folders in /in contain parts of the same samples "
                        "(rgb, y: the file names are the same, and y contains "
                        "only PNG files, rgb none) and would become classes"));
  // Masks of some of the images.
  EXPECT_THAT(Refusal(Numbered("JPEGImages", ".jpg", 90) +
                      Numbered("SegmentationClass", ".png", 15)),
              HasSubstr("a class is rarely called JPEGImages"));
  // Of each scene.
  EXPECT_THAT(
      Refusal(Numbered("a/rgb", ".jpg", 9) + Numbered("a/depth", ".png", 9) +
              Numbered("b/rgb", ".jpg", 9)),
      HasSubstr("folders in /in/a contain parts of the same samples"));
  // A part of it is no advice.
  EXPECT_THAT(
      Refusal(Numbered("train/rgb", ".jpg", 9) +
              Numbered("train/y", ".png", 9) + Numbered("val/rgb", ".jpg", 9) +
              Numbered("val/y", ".png", 9)),
      HasSubstr("none of them can be packed in this form"));
}

TEST(ClassFoldersTest, ClassesOfNumberedFilesAreClasses) {
  for (const char* suffix : {".jpg", ".png"}) {
    EXPECT_THAT(
        Doubts(Numbered("cat", suffix, 20) + Numbered("dog", suffix, 20)),
        IsEmpty());
    // People with and without one.
    for (const char* with : {"mask", "Mask"}) {
      EXPECT_THAT(
          Doubts(Numbered(with, suffix, 20) + Numbered("no_mask", suffix, 20)),
          IsEmpty());
    }
  }
  // Of other sizes, or numbered through.
  EXPECT_THAT(Doubts(Numbered("cat", ".jpg", 20) + Numbered("dog", ".png", 12)),
              IsEmpty());
  EXPECT_THAT(
      Doubts(Numbered("cat", ".jpg", 20) + Numbered("dog", ".png", 40, 21)),
      IsEmpty());
  // Of both formats.
  EXPECT_THAT(Doubts(Numbered("cat", ".jpg", 20) + Numbered("dog", ".png", 19) +
                     Names{"dog/1020.jpg", "cat/1021.png"}),
              IsEmpty());
  Names many;
  for (int i = 0; i < 9; ++i) {
    many = many + Numbered(absl::StrCat("c", i), i == 0 ? ".png" : ".jpg", 20);
  }
  EXPECT_THAT(Doubts(many), IsEmpty());
}

// The advice for each of these was refused when it was followed.
// Layouts of BUSI, ISIC, Carvana and Cityscapes: their masks became samples.
TEST(ClassFoldersTest, FilesNamedAsMasksOfOthersAreNoSamples) {
  EXPECT_THAT(
      Refusal({"benign/b (1).png", "benign/b (1)_mask.png", "benign/b (2).png",
               "benign/b (2)_mask_1.png", "benign/b (2)_mask.png",
               "normal/n (1).png", "normal/n (1)_mask.png"}),
      AllOf(HasSubstr("4 of 7 images have the names of masks of other images"),
            HasSubstr("--labels_from_folders")));
  EXPECT_THAT(
      Refusal({"Input/I_0.jpg", "Input/I_1.jpg", "Truth/I_0_segmentation.png",
               "Truth/I_1_Segmentation.png"}),
      HasSubstr("2 of 4 images have the names of masks of other images"));
  EXPECT_THAT(
      Refusal({"train/0.jpg", "train/1.jpg", "train_masks/0_mask.gif",
               "train_masks/1_mask.gif"}),
      HasSubstr("2 of 4 images have the names of masks of other images"));
  EXPECT_THAT(
      Refusal({"aachen/a_0_gtFine_labelIds.png",
               "aachen/a_0_gtFine_instanceIds.png",
               "aachen/a_0_gtFine_color.png", "bonn/b_0_gtFine_labelIds.png"}),
      HasSubstr("3 of 4 images have the names of masks (such as 1_mask.png)"));
}

TEST(ClassFoldersTest, FewFilesNamedAsMasksAreSamples) {
  EXPECT_THAT(Doubts({"cat/1.jpg", "cat/2.jpg", "dog/venice_mask.jpg",
                      "dog/4.jpg", "dog/dog_label.jpg"}),
              IsEmpty());
  // Of eleven images two have others named after them.
  EXPECT_THAT(Doubts({"a/1.jpg", "a/1_mask.jpg", "a/2.jpg", "a/2_mask.jpg",
                      "a/3.jpg", "a/4.jpg", "a/5.jpg", "b/6.jpg", "b/7.jpg",
                      "b/8.jpg", "b/9.jpg"}),
              IsEmpty());
  EXPECT_THAT(Doubts({"with_mask/1.jpg", "with_mask/2.jpg",
                      "without_mask/3.jpg", "without_mask/4.jpg"}),
              IsEmpty());
}

TEST(ClassFoldersTest, APartWithoutClassFoldersIsNoAdvice) {
  EXPECT_THAT(
      Refusal({"train/1.jpg", "test/1.jpg"}, {"train.csv"}),
      AllOf(HasSubstr("none of them can be packed in this form: /in/train "
                      "contains images without class folders, and train.csv "
                      "may contain labels, which --format=imagefolder does not "
                      "read; pack the table (--format=csv "
                      "--input=/in/train.csv) if it contains the paths of the "
                      "images, or sort the images into one folder for each "
                      "class"),
            Not(HasSubstr("--split"))));
  EXPECT_THAT(Refusal({"train/cat/1.jpg", "train/dog/1.jpg", "test/1.jpg"}),
              HasSubstr("pack train by itself (--input=/in --split=train); the "
                        "others cannot be packed in this form"));
  EXPECT_THAT(
      Refusal({"train/images/cat/1.jpg", "train/images/dog/1.jpg"}),
      HasSubstr(
          "it cannot be packed in this form: every image of /in/train would be "
          "of one class, \"images\", but /in/train/images contains its images "
          "in folders (cat, dog); if these are the classes, pack that folder "
          "(--input=/in/train/images), or pass --input=/in/train "
          "--labels_from_folders if one class is meant"));
  EXPECT_THAT(
      Refusal({"cat/train/1.jpg", "cat/val/1.jpg", "dog/train/1.jpg"}),
      HasSubstr("move the images into one folder for each part with one folder "
                "for each class in it, such as /in/train/cat, and pack"));
  EXPECT_THAT(Doubts({"bus/1.jpg", "car/1.jpg", "train/1.jpg"}),
              ElementsAre(HasSubstr("if it is a part, move it elsewhere")));
}

// "photos" is the only folder with images: all were packed as its class, and
// `--skip_bad` was advised on the way.
TEST(ClassFoldersTest, AFolderWithoutImagesIsNoClass) {
  EXPECT_THAT(Refusal({"__MACOSX/photos/", "photos/cat/1.jpg",
                       "photos/dog/1.jpg", "photos/meta/"}),
              HasSubstr("pack that folder (--input=/in/photos after you remove "
                        "its folders without images: meta)"));
  EXPECT_THAT(Refusal({"meta/", "photos/1.jpg"}, {"meta/labels.csv"}),
              HasSubstr("meta/labels.csv may contain labels"));
}

TEST(ClassFoldersTest, AdviceUndoesTheSplitThatWasGiven) {
  EXPECT_THAT(
      Refusal({"photos/cat/1.jpg", "photos/dog/1.jpg"}, {},
              FolderUse::kPackSplit),
      HasSubstr("pack that folder (--input=/in/photos without --split)"));
}

TEST(ClassFoldersTest, ClassesMayHoldFolders) {
  EXPECT_THAT(Doubts({"cat/1.jpg", "dog/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/a/1.jpg", "cat/b/1.jpg", "dog/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/a/1.jpg", "cat/b/1.jpg", "dog/c/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/1.jpg", "cat/a/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/a/1.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/"}), IsEmpty());
}

TEST(ClassFoldersTest, AFolderThatIsALevelTooHighIsNamed) {
  EXPECT_THAT(
      Refusal({"photos/cat/1.jpg", "photos/dog/1.jpg"}),
      HasSubstr("/in/photos contains its images in folders (cat, dog)"));
  EXPECT_THAT(Refusal({"a/b/cat/1.jpg", "a/b/car/1.jpg"}),
              HasSubstr("(--input=/in/a/b)"));
  EXPECT_THAT(Refusal({"photos/train/cat/1.jpg", "photos/val/cat/1.jpg"}),
              HasSubstr("(--input=/in/photos --split=train)"));
  // A table was all that was named, and not the parts.
  EXPECT_THAT(Refusal({"photos/train/cat/1.jpg", "photos/val/cat/1.jpg"},
                      {"photos/labels.csv"}),
              HasSubstr("(--input=/in/photos --split=train)"));
  EXPECT_THAT(
      Refusal({"animals/test/1.jpg", "animals/train/1.jpg", "plants/1.jpg"}),
      HasSubstr("would become one class, animals"));
}

TEST(ClassFoldersTest, APartBesideClassesIsNamed) {
  EXPECT_THAT(Refusal({"cat/1.jpg", "dog/1.jpg", "train/cat/1.jpg"}),
              HasSubstr("/in/train has the name of a part of a dataset"));
  EXPECT_THAT(Doubts({"bus/1.jpg", "car/1.jpg", "train/1.jpg"}),
              ElementsAre(HasSubstr("folder train becomes a class")));
}

TEST(ClassFoldersTest, ClassesWithTheSameFoldersAreDoubted) {
  EXPECT_THAT(
      Doubts({"a/cat/1.jpg", "a/dog/1.jpg", "b/cat/1.jpg", "b/dog/1.jpg"}),
      ElementsAre(AllOf(HasSubstr("folders of the same names (cat, dog)"),
                        HasSubstr("such as --input=/in/a"))));
  // They became the classes set_a and set_b without a word.
  EXPECT_THAT(
      Doubts({"set_a/cat/1.jpg", "set_b/cat/1.jpg"}),
      ElementsAre(HasSubstr(
          "each class folder contains its images in a folder of the same name "
          "(cat), which does not become a class; if it is a class, move the "
          "images into one folder for each class, such as /in/cat")));
  EXPECT_THAT(Doubts({"a/cat/1.jpg", "a/dog/1.jpg", "b/cat/1.jpg",
                      "b/dog/1.jpg", "b/elk/1.jpg"}),
              ElementsAre(HasSubstr("names (cat, dog), which")));
  // As tiny-imagenet has them.
  EXPECT_THAT(Doubts({"n01/images/1.jpg", "n02/images/2.jpg"}), IsEmpty());
  EXPECT_THAT(Doubts({"cat/train/1.jpg", "dog/train/2.jpg"}), IsEmpty());
}

TEST(ClassFoldersTest, APartBesideFoldersLikeItIsRefused) {
  EXPECT_THAT(
      Refusal({"gallery/cat/1.jpg", "gallery/dog/1.jpg", "train/cat/1.jpg",
               "train/dog/1.jpg"}),
      AllOf(HasSubstr("folder train in /in has the name of a part"),
            HasSubstr("pack each part by itself (--input=/in --split=train), "
                      "or pass --labels_from_folders")));
}

// They became the classes images and extra; the table was only named as a file
// that is left out.
TEST(ClassFoldersTest, ATableBesideAFolderThatIsNoClassIsRefused) {
  EXPECT_THAT(
      Refusal({"images/1.jpg", "extra/1.jpg"}, {"labels.csv"}),
      HasSubstr("folders in /in (extra, images) would become classes, but a "
                "class is rarely called images, and labels.csv may contain "
                "labels, which --format=imagefolder does not read; pack the "
                "table (--format=csv --input=/in/labels.csv) if it contains "
                "the paths of the images, or sort the images into one folder "
                "for each class, or pass --labels_from_folders"));
  EXPECT_THAT(
      Refusal({"images/1.jpg", "extra/1.jpg"}, {"labels.json"}),
      HasSubstr("and labels.json may contain labels, which pack does not read; "
                "sort the images into one folder for each class"));
  EXPECT_THAT(
      Refusal({"images/1.jpg", "extra/1.jpg"}, {"a.json", "b.TSV"},
              FolderUse::kPackSplit),
      HasSubstr("pack the table (--format=csv --input=/in/b.TSV without "
                "--split) if"));
  EXPECT_THAT(
      Refusal({"images/1.jpg", "extra/1.jpg"}, {"labels.csv"}, FolderUse::kUri),
      HasSubstr("labels.csv may contain labels, which imagefolder: does "
                "not read; write csv:/in/labels.csv if it contains the paths "
                "of the images, or "));
  for (const auto& [folder, table] :
       {std::pair("cat", "labels.csv"), std::pair("images", "extra/notes.txt"),
        std::pair("mask", "labels.csv")}) {
    EXPECT_TRUE(
        Check({absl::StrCat(folder, "/1.jpg"), "extra/1.jpg"}, {table}).ok())
        << folder;
  }
}

// A URI has neither --split nor --labels_from_folders.
TEST(ClassFoldersTest, AdviceForUris) {
  const std::string parts = Refusal(
      {"train/a/1.jpg", "train/b/1.jpg", "val/a/1.jpg"}, {}, FolderUse::kUri);
  EXPECT_THAT(parts, HasSubstr("open each part by itself "
                               "(imagefolder:/in/train), or pack the folder "
                               "with `millrace-data pack --format=imagefolder "
                               "--input=/in --labels_from_folders "
                               "--output=lmdb:FILE`"));
  const std::string deeper =
      Refusal({"photos/cat/1.jpg", "photos/dog/1.jpg"}, {}, FolderUse::kUri);
  EXPECT_THAT(deeper, HasSubstr("open that folder (imagefolder:/in/photos)"));
  for (const std::string& advice : {parts, deeper}) {
    EXPECT_THAT(advice, Not(HasSubstr("--split")));
  }
}

}  // namespace
}  // namespace millrace::storage
