#include "server/storage/imagefolder/split_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitNameTest, APartIsKnownUnderManyNames) {
  for (const char* name :
       {"train", "Train", "TRAINING", "train2017", "train_images",
        "images-train", "TrainImages", "training_set", "train-00000"}) {
    EXPECT_EQ(PartOfName(name), "train") << name;
  }
  for (const char* name :
       {"val", "valid", "validation", "val2017", "val_256"}) {
    EXPECT_EQ(PartOfName(name), "val") << name;
  }
  EXPECT_EQ(PartOfName("test_set 2"), "test");
  EXPECT_EQ(PartOfName("train_val"), "trainval");
  EXPECT_EQ(PartOfName("unlabeled2017"), "unlabeled");
  for (const char* name : {"fold1", "Fold_02", "images-fold 3"}) {
    EXPECT_EQ(PartOfName(name), "fold") << name;
  }
  for (const char* name :
       {"holdout", "hold_out", "HeldOut", "held-out images"}) {
    EXPECT_EQ(PartOfName(name), "holdout") << name;
  }
}

TEST(SplitNameTest, ANameThatSaysMoreIsNoPart) {
  for (const char* name :
       {"", "cat", "trains", "train_station", "test tube", "images", "2017",
        "val\xC3\xA9", "contest", "steam-train", "fold", "blindfold1", "hold",
        "out"}) {
    EXPECT_EQ(PartOfName(name), "") << name;
  }
}

TEST(SplitNameTest, PartsAmongNames) {
  EXPECT_THAT(SplitsAmong({"cat", "test"}), ElementsAre("test"));
  EXPECT_THAT(SplitsAmong({"box_test", "box_train", "query"}),
              ElementsAre("box_test", "box_train"));
  EXPECT_THAT(SplitsAmong({"fold1", "fold2"}), ElementsAre("fold1", "fold2"));
  EXPECT_THAT(SplitsAmong({"steam_train", "test_tube"}), IsEmpty());
}

}  // namespace
}  // namespace millrace::storage
