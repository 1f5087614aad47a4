#include "trainer/bad_sample_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/mutex.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;

BadSample Met(const std::string& dataset, int64_t sample, uint64_t times) {
  BadSample bad;
  bad.set_dataset(dataset);
  bad.set_shard("a.mdb");
  bad.set_row(sample);
  bad.set_sample(sample);
  bad.set_times(times);
  return bad;
}

std::vector<std::string> PlacesOf(const std::vector<BadSample>& samples) {
  std::vector<std::string> places;
  for (const BadSample& bad : samples) places.push_back(PlaceOf(bad));
  return places;
}

TEST(BadSampleWatch, NamesOnceWhatIsMetFromItsStartOn) {
  std::vector<BadSample> now = {Met("photos", 1, 5), Met("photos", 2, 7)};
  std::vector<std::string> said;
  BadSampleWatch watch(
      {.datasets = {"photos"},
       .period = absl::Hours(1),
       .ask = [&now] { return now; },
       .say = [&said](const BadSample& bad) { said.push_back(PlaceOf(bad)); }});
  watch.Look();
  EXPECT_TRUE(said.empty());
  // Met again, new, of another job, and of two servers.
  now = {Met("photos", 2, 8), Met("photos", 1, 5), Met("photos", 9, 1),
         Met("others", 4, 1), Met("photos", 9, 1)};
  watch.Look();
  watch.Look();
  EXPECT_THAT(said, ElementsAre("photos shard a.mdb row 2",
                                "photos shard a.mdb row 9"));
  now = {Met("photos", 3, 1)};
  watch.Look();
  watch.End();
  EXPECT_THAT(PlacesOf(watch.found()), ElementsAre("photos shard a.mdb row 2",
                                                   "photos shard a.mdb row 9",
                                                   "photos shard a.mdb row 3"));
}

TEST(BadSampleWatch, LooksByItself) {
  Mutex mu;
  CondVar changed;
  int asked = 0;
  bool said = false;
  BadSampleWatch watch({.datasets = {"photos"},
                        .period = absl::Milliseconds(1),
                        .ask =
                            [&] {
                              MutexLock lock(mu);
                              return ++asked < 3 ? std::vector<BadSample>()
                                                 : std::vector<BadSample>{
                                                       Met("photos", 1, 1)};
                            },
                        .say =
                            [&](const BadSample&) {
                              MutexLock lock(mu);
                              said = true;
                              changed.NotifyAll();
                            }});
  MutexLock lock(mu);
  while (!said) changed.Wait(lock);
}

TEST(BadSampleWatch, NamesTheSampleWhereNoRowIsKnown) {
  BadSample bad = Met("photos", 17, 1);
  bad.clear_shard();
  bad.set_row(-1);
  EXPECT_EQ(PlaceOf(bad), "photos sample 17");
}

}  // namespace
}  // namespace millrace::trainer
