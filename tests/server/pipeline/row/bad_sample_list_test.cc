#include "server/pipeline/row/bad_sample_list.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"

namespace millrace::pipeline {
namespace {

absl::Status Bad(const std::string& dataset, int64_t sample,
                 const std::string& reason = "the bytes are no image") {
  ErrorDetail detail = MakeErrorDetail("decode");
  detail.set_dataset(dataset);
  detail.set_shard(absl::StrCat("part-", sample / 10));
  detail.set_row(sample % 10);
  detail.set_sample(sample);
  return WithErrorDetail(absl::DataLossError(reason), detail);
}

TEST(BadSampleList, NamesDatasetShardRowAndReason) {
  BadSampleList list;
  EXPECT_TRUE(list.Newest().empty());
  list.Add(Bad("photos", 23));
  const std::vector<BadSample> newest = list.Newest();
  ASSERT_EQ(newest.size(), 1u);
  EXPECT_EQ(newest[0].dataset(), "photos");
  EXPECT_EQ(newest[0].shard(), "part-2");
  EXPECT_EQ(newest[0].row(), 3);
  EXPECT_EQ(newest[0].sample(), 23);
  EXPECT_EQ(newest[0].stage(), "decode");
  EXPECT_EQ(newest[0].reason(), "the bytes are no image");
  EXPECT_EQ(newest[0].times(), 1u);
}

TEST(BadSampleList, ASampleThatIsMetAgainStandsOnceAndFirst) {
  BadSampleList list;
  list.Add(Bad("a", 1));
  list.Add(Bad("b", 1));
  list.Add(Bad("a", 2));
  list.Add(Bad("a", 1, "another reason"));
  const std::vector<BadSample> newest = list.Newest();
  ASSERT_EQ(newest.size(), 3u);
  EXPECT_EQ(newest[0].dataset(), "a");
  EXPECT_EQ(newest[0].sample(), 1);
  EXPECT_EQ(newest[0].times(), 2u);
  EXPECT_EQ(newest[0].reason(), "another reason");
  EXPECT_EQ(newest[1].sample(), 2);
  EXPECT_EQ(newest[2].dataset(), "b");
}

TEST(BadSampleList, ForgetsTheOldestWhenItIsFull) {
  BadSampleList list(3);
  for (int i = 0; i < 10; ++i) list.Add(Bad("a", i));
  std::vector<BadSample> newest = list.Newest();
  ASSERT_EQ(newest.size(), 3u);
  EXPECT_EQ(newest[0].sample(), 9);
  EXPECT_EQ(newest[2].sample(), 7);
  // What was forgotten counts from one again.
  list.Add(Bad("a", 0));
  newest = list.Newest();
  EXPECT_EQ(newest[0].sample(), 0);
  EXPECT_EQ(newest[0].times(), 1u);
}

TEST(BadSampleList, ReasonsAreShortAndAlwaysText) {
  BadSampleList list;
  list.Add(Bad("a", 0, std::string(10'000, 'x')));
  EXPECT_EQ(list.Newest()[0].reason().size(), BadSampleList::kMaxReasonBytes);
  list.Add(Bad("a", 1, "file \xff\xfe\n\xc3\xa9.jpg"));
  EXPECT_EQ(list.Newest()[0].reason(), "file \\377\\376\\n\xc3\xa9.jpg");
  BadSample back;
  EXPECT_TRUE(back.ParseFromString(list.Newest()[0].SerializeAsString()));
}

TEST(BadSampleList, ManyThreadsMayAddAtOnce) {
  BadSampleList list(5);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&list, t] {
      for (int i = 0; i < 200; ++i) list.Add(Bad("a", (i + t) % 8));
    });
  }
  for (int i = 0; i < 50; ++i) EXPECT_LE(list.Newest().size(), 5u);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(list.Newest().size(), 5u);
}

}  // namespace
}  // namespace millrace::pipeline
