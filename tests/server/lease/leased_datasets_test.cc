// Which datasets a server with leases opens, shares, names and closes.

#include "server/lease/leased_datasets.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/lease/lease_fixture.h"

namespace millrace::lease {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kOne[] = "0123456789abcdef0123456789abcdef";
constexpr char kTwo[] = "ffff456789abcdef0123456789abcdef";

SteadyTime Later(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

class LeasedDatasetsTest : public ::testing::Test {
 protected:
  std::string Name(const std::string& uri, const std::string& name = "") {
    const auto held = datasets_.Acquire({uri, name});
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? held->name : "";
  }
  absl::Status Refusal(const std::string& uri, const std::string& name = "") {
    return datasets_.Acquire({uri, name}).status();
  }

  FakeFiles files_;
  LeasedDatasets datasets_{files_.options()};
};

TEST_F(LeasedDatasetsTest, TheNameFollowsFromTheContent) {
  files_.Put("lmdb:/a", kOne);
  files_.Put("lmdb:/copy", kOne);
  files_.Put("lmdb:/b", kTwo);
  const std::string name = Name("lmdb:/a");
  EXPECT_EQ(name, "data-0123456789abcdef");
  EXPECT_EQ(Name("lmdb:/a"), name);  // shared, and not opened again
  EXPECT_EQ(files_.opened(), 1);
  EXPECT_EQ(Name("lmdb:/copy"), name);
  EXPECT_EQ(Name("lmdb:/b"), "data-ffff456789abcdef");
  EXPECT_EQ(files_.served().size(), 2u);
}

TEST_F(LeasedDatasetsTest, ADatasetWithoutHoldersIsClosedAfterAWhile) {
  files_.Put("lmdb:/a", kOne);
  const std::string name = Name("lmdb:/a");
  Name("lmdb:/a");
  datasets_.Release(name);
  datasets_.CloseUnused(Later(1000));  // one holds it
  EXPECT_THAT(files_.served(), ElementsAre(Pair(name, kOne)));
  datasets_.Release(name);
  datasets_.CloseUnused(Later(1));
  EXPECT_THAT(files_.served(), ElementsAre(Pair(name, kOne)));
  datasets_.CloseUnused(Later(11));
  EXPECT_THAT(files_.served(), IsEmpty());
  EXPECT_EQ(Name("lmdb:/a"), name);
  EXPECT_EQ(files_.opened(), 2);
}

TEST_F(LeasedDatasetsTest, APathWithNewContentIsAnotherDataset) {
  files_.Put("lmdb:/a", kOne);
  const std::string old = Name("lmdb:/a");
  files_.Put("lmdb:/a", kTwo);
  const std::string fresh = Name("lmdb:/a");
  EXPECT_NE(fresh, old);
  EXPECT_THAT(files_.served(), ElementsAre(Pair(old, kOne), Pair(fresh, kTwo)));
}

TEST_F(LeasedDatasetsTest, AFileThatHasChangedUnderItsReadersIsOpenedAgain) {
  files_.Put("lmdb:/a", kOne);
  const std::string name = Name("lmdb:/a");
  files_.Damage("lmdb:/a");
  EXPECT_EQ(Name("lmdb:/a"), name);
  EXPECT_EQ(files_.opened(), 2);
  datasets_.Release(name);
  datasets_.Release(name);  // both holders were counted
}

TEST_F(LeasedDatasetsTest, AChosenNameBelongsToOneContentWhileItIsHeld) {
  files_.Put("lmdb:/a", kOne);
  files_.Put("lmdb:/b", kTwo);
  EXPECT_EQ(Name("lmdb:/a", "photos"), "photos");
  EXPECT_EQ(Name("lmdb:/a", "photos"), "photos");
  EXPECT_EQ(files_.opened(), 1);
  const absl::Status taken = Refusal("lmdb:/b", "photos");
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(taken.message()),
              AllOf(HasSubstr("`photos`"), HasSubstr("lmdb:/a"),
                    HasSubstr(kOne), HasSubstr("lmdb:/b"), HasSubstr(kTwo),
                    HasSubstr("use another name")));
  datasets_.Release("photos");
  datasets_.Release("photos");
  EXPECT_EQ(Name("lmdb:/b", "photos"), "photos");  // nobody disturbed
  EXPECT_THAT(files_.served(), ElementsAre(Pair("photos", kTwo)));
  // The same content under its own name besides.
  EXPECT_EQ(Name("lmdb:/b"), "data-ffff456789abcdef");
}

TEST_F(LeasedDatasetsTest,
       EqualArraysAreOneDatasetThatIsClosedWithItsLastHolder) {
  const auto acquire = [this](const std::string& content,
                              const std::string& name = "") {
    return datasets_.Acquire(
        {.uri = "memory:x",
         .name = name,
         .arrays = std::make_shared<const UniqueFd>(FakeFiles::File(content))});
  };
  const auto one = acquire(kOne);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->name, "data-0123456789abcdef");
  EXPECT_EQ(one->arrays, nullptr);  // the caller's own
  const auto equal = acquire(kOne);
  EXPECT_EQ(equal->name, one->name);
  EXPECT_NE(equal->arrays, nullptr);
  EXPECT_EQ(files_.open(), 1);  // the second file is not kept
  // The same name for people, other content.
  const auto two = acquire(kTwo);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->name, "data-ffff456789abcdef");
  EXPECT_EQ(acquire(kTwo, "mine")->name, "mine");
  EXPECT_EQ(acquire(kOne, "mine").status().code(),
            absl::StatusCode::kAlreadyExists);
  datasets_.Release("mine");
  datasets_.Release(two->name);
  datasets_.Release(one->name);
  datasets_.CloseUnused(Later(0));
  EXPECT_THAT(files_.served(), ElementsAre(Pair(one->name, kOne)));
  datasets_.Release(one->name);
  datasets_.CloseUnused(Later(0));
  EXPECT_THAT(files_.served(), IsEmpty());
  EXPECT_EQ(files_.open(), 0);
}

// Two loaders of one program, or a loader and its preview.
TEST_F(LeasedDatasetsTest, TheSameFileOfArraysIsReadOnce) {
  const UniqueFd file = FakeFiles::File(kOne);
  const auto acquire = [&](const std::string& name = "") {
    return datasets_.Acquire(
        {.uri = "memory:x",
         .name = name,
         .arrays = std::make_shared<const UniqueFd>(dup(file.get()))});
  };
  EXPECT_EQ(acquire()->name, "data-0123456789abcdef");
  EXPECT_EQ(acquire()->name, "data-0123456789abcdef");
  EXPECT_EQ(files_.opened(), 1);
  EXPECT_EQ(acquire("mine")->name, "mine");  // another dataset of the engine
  EXPECT_EQ(files_.opened(), 2);
  datasets_.Release("data-0123456789abcdef");
  datasets_.Release("data-0123456789abcdef");
  datasets_.Release("mine");
  datasets_.CloseUnused(Later(0));
  EXPECT_EQ(acquire()->fingerprint, kOne);
  EXPECT_EQ(files_.opened(), 3);
}

TEST_F(LeasedDatasetsTest, ArraysAndAFileOfTheSameContentAreOneDataset) {
  files_.Put("lmdb:/a", kOne);
  const std::string name = Name("lmdb:/a");
  const LeaseRequest arrays = {
      .uri = "memory:x",
      .arrays = std::make_shared<const UniqueFd>(FakeFiles::File(kOne))};
  const auto held = datasets_.Acquire(arrays);
  EXPECT_EQ(held->name, name);
  EXPECT_EQ(held->arrays, nullptr);
  EXPECT_EQ(files_.open(), 1);
  datasets_.Release(name);
  datasets_.Release(name);
  datasets_.CloseUnused(Later(0));
  EXPECT_EQ(files_.served().size(), 1u);  // it is a file's: it stays a while
}

// Two folders with equal listings were one dataset: when a file of the first
// one changed, programs that had named the other one got its error.
TEST_F(LeasedDatasetsTest, FoldersOfOneFingerprintAreTwoDatasets) {
  files_.Put("imagefolder:/a", kOne, "folder a");
  files_.Put("imagefolder:/b", kOne, "folder b");
  files_.Put("imagefolder:/link", kOne, "folder a");
  const std::string a = Name("imagefolder:/a");
  EXPECT_EQ(a, "data-0123456789abcdef");
  const std::string b = Name("imagefolder:/b");
  EXPECT_EQ(b, "data-0123456789abcdef~2");
  EXPECT_THAT(files_.served(), ElementsAre(Pair(a, kOne), Pair(b, kOne)));
  EXPECT_EQ(files_.opened(), 2);
  // Each is found again, also when it is the only one, or on another path.
  EXPECT_EQ(Name("imagefolder:/link"), a);
  EXPECT_EQ(Name("imagefolder:/b"), b);
  for (int i = 0; i < 2; ++i) datasets_.Release(a);
  datasets_.CloseUnused(Later(11));
  EXPECT_THAT(files_.served(), ElementsAre(Pair(b, kOne)));
  EXPECT_EQ(Name("imagefolder:/b"), b);
  files_.Put("imagefolder:/c", kOne, "folder c");
  EXPECT_EQ(Name("imagefolder:/c"), a);
  EXPECT_EQ(Name("imagefolder:/a"), "data-0123456789abcdef~3");
  // The packed dataset is a third one: its file does not change with a folder.
  files_.Put("lmdb:/packed", kOne);
  EXPECT_EQ(Name("lmdb:/packed"), "data-0123456789abcdef~4");
}

TEST_F(LeasedDatasetsTest, AChosenNameBelongsToOneFolder) {
  files_.Put("imagefolder:/a", kOne, "folder a");
  files_.Put("imagefolder:/b", kOne, "folder b");
  EXPECT_EQ(Name("imagefolder:/a", "photos"), "photos");
  EXPECT_EQ(Name("imagefolder:/a", "photos"), "photos");
  const absl::Status taken = Refusal("imagefolder:/b", "photos");
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(taken.message()),
              AllOf(HasSubstr("imagefolder:/a with fingerprint "),
                    HasSubstr("imagefolder:/b has the same content in other "
                              "files"),
                    HasSubstr("use another name, or none")));
  // A name that the server has chosen is no obstacle, and none to it.
  EXPECT_EQ(Name("imagefolder:/b"), "data-0123456789abcdef");
  for (int i = 0; i < 2; ++i) datasets_.Release("photos");
  EXPECT_EQ(Name("imagefolder:/b", "photos"), "photos");
}

// Files were closed, and mappings removed, under the lock that every request
// needs.
TEST_F(LeasedDatasetsTest, NobodyWaitsForADatasetThatIsBeingClosed) {
  files_.Put("lmdb:/a", kOne);
  files_.Put("lmdb:/b", kTwo);
  datasets_.Release(Name("lmdb:/a"));
  files_.HoldClosing("lmdb:/a");
  std::thread closing([this] { datasets_.CloseUnused(Later(11)); });
  files_.AwaitClosing();
  const std::string b = Name("lmdb:/b");
  datasets_.Release(b);
  EXPECT_EQ(Name("lmdb:/b"), b);
  EXPECT_EQ(files_.opened(), 2);
  // What is closed may be opened again meanwhile.
  EXPECT_EQ(Name("lmdb:/a"), "data-0123456789abcdef");
  EXPECT_EQ(files_.opened(), 3);
  files_.LetClose();
  closing.join();
  EXPECT_EQ(files_.open(), 2);
  EXPECT_EQ(files_.served().size(), 2u);
}

TEST_F(LeasedDatasetsTest, ADatasetThatIsNotAddedLeavesNothing) {
  files_.Put("lmdb:/a", kOne);
  files_.RefuseNext();
  EXPECT_EQ(Refusal("lmdb:/a").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.open(), 0);
  const std::string name = Name("lmdb:/a");
  EXPECT_EQ(name, "data-0123456789abcdef");
  // Also in the place of another one, which then stays.
  files_.Damage("lmdb:/a");
  files_.RefuseNext();
  EXPECT_EQ(Refusal("lmdb:/a").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.open(), 1);
  datasets_.Release(name);
  datasets_.CloseUnused(Later(11));
  EXPECT_EQ(files_.open(), 0);
}

// Names and holders stay right, whatever happens at the same time.
TEST_F(LeasedDatasetsTest, OpeningAndClosingInManyThreads) {
  for (int i = 0; i < 4; ++i) {
    files_.Put("imagefolder:/" + std::to_string(i), i < 3 ? kOne : kTwo,
               "folder " + std::to_string(i));
  }
  std::vector<std::thread> programs;
  for (int t = 0; t < 8; ++t) {
    programs.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string uri = "imagefolder:/" + std::to_string((t + i) % 4);
        const std::string name =
            Name(uri, i % 5 == 0 ? "t" + std::to_string(t) : "");
        if (i % 7 == 0) datasets_.CloseUnused(Later(11));
        datasets_.Release(name);
      }
    });
  }
  for (std::thread& program : programs) program.join();
  datasets_.CloseUnused(Later(11));
  EXPECT_THAT(files_.served(), IsEmpty());
  EXPECT_EQ(files_.open(), 0);
}

TEST_F(LeasedDatasetsTest, Refusals) {
  EXPECT_EQ(Refusal("lmdb:/none").code(), absl::StatusCode::kNotFound);
  files_.Put("lmdb:/a", kOne);
  const absl::Status name = Refusal("lmdb:/a", "a/b");
  EXPECT_EQ(name.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(name.message()), HasSubstr("`a/b`"));
  const absl::Status longer = Refusal("lmdb:/a", std::string(5000, 'n'));
  EXPECT_EQ(longer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(longer.message()),
              HasSubstr("has 5000 bytes: use one of at most 200"));
  Name("lmdb:/a");
  files_.Limit(1);
  files_.Put("lmdb:/b", kTwo);
  EXPECT_EQ(Refusal("lmdb:/b").code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LeasedDatasetsTest, UnusedDatasetsMakeRoom) {
  files_.Limit(1);
  files_.Put("lmdb:/a", kOne);
  files_.Put("lmdb:/b", kTwo);
  datasets_.Release(Name("lmdb:/a"));
  EXPECT_EQ(Name("lmdb:/b"), "data-ffff456789abcdef");
  EXPECT_EQ(files_.served().size(), 1u);
}

TEST_F(LeasedDatasetsTest, TheNumberOfDatasetsIsBounded) {
  LeasedDatasets::Options options = files_.options();
  options.max_datasets = 1;
  LeasedDatasets one(options);
  files_.Put("lmdb:/a", kOne);
  files_.Put("lmdb:/b", kTwo);
  const auto held = one.Acquire({"lmdb:/a", ""});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(one.Acquire({"lmdb:/b", ""}).status().code(),
            absl::StatusCode::kResourceExhausted);
  one.Release(held->name);
  EXPECT_TRUE(one.Acquire({"lmdb:/b", ""}).ok());
}

// Eight ranks start at the same moment.
TEST_F(LeasedDatasetsTest, AtTheSameTimeOneOpensAndAllShare) {
  files_.Put("lmdb:/a", kOne);
  files_.Put("lmdb:/slow", kTwo);
  files_.Hold("lmdb:/slow");
  std::thread slow([this] { Name("lmdb:/slow"); });
  files_.AwaitOpening(1);
  std::vector<std::thread> ranks;
  for (int i = 0; i < 8; ++i) {
    ranks.emplace_back(
        [this] { EXPECT_EQ(Name("lmdb:/a"), "data-0123456789abcdef"); });
  }
  for (std::thread& rank : ranks) rank.join();  // nobody waits for the slow one
  EXPECT_EQ(files_.opened(), 1);
  files_.Continue();
  slow.join();
  EXPECT_EQ(files_.opened(), 2);
}

}  // namespace
}  // namespace millrace::lease
