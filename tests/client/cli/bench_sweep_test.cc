#include "client/cli/bench_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const std::string& text) {
  const auto knobs = ParseSweep(text);
  EXPECT_TRUE(knobs.ok()) << knobs.status();
  std::vector<std::string> names;
  if (!knobs.ok()) return names;
  for (const BenchSetting& setting : Combine(*knobs)) {
    names.push_back(setting.Name());
  }
  return names;
}

std::string Mistake(const std::string& text) {
  const auto knobs = ParseSweep(text);
  EXPECT_TRUE(absl::IsInvalidArgument(knobs.status())) << knobs.status();
  return std::string(knobs.status().message());
}

TEST(BenchSweepTest, EveryCombinationOnceTheFirstKnobSlowest) {
  EXPECT_THAT(Names("threads=1,2;window=4,16,64"),
              ElementsAre("threads=1 window=4", "threads=1 window=16",
                          "threads=1 window=64", "threads=2 window=4",
                          "threads=2 window=16", "threads=2 window=64"));
  EXPECT_THAT(Names("window=8;"), ElementsAre("window=8"));
  EXPECT_THAT(Names("window=auto,8"), ElementsAre("window=auto", "window=8"));
  EXPECT_THAT(Names("read_threads=0,64"),
              ElementsAre("read_threads=0", "read_threads=64"));
  EXPECT_THAT(Names("memory_budget=256MiB,1GiB"),
              ElementsAre("memory_budget=256MiB", "memory_budget=1GiB"));
  EXPECT_THAT(Names("same_host=off,auto"),
              ElementsAre("same_host=off", "same_host=auto"));
}

TEST(BenchSweepTest, NothingToSweepIsTheSettingAsGiven) {
  const auto settings = Combine({});
  ASSERT_EQ(settings.size(), 1u);
  EXPECT_EQ(settings[0].Name(), "as given");
  EXPECT_EQ(settings[0].Find("window"), nullptr);
}

TEST(BenchSweepTest, ASettingSaysItsValues) {
  const auto knobs = ParseSweep("loaders=2;batch_size=64");
  ASSERT_TRUE(knobs.ok()) << knobs.status();
  const BenchSetting setting = Combine(*knobs)[0];
  ASSERT_NE(setting.Find("batch_size"), nullptr);
  EXPECT_EQ(*setting.Find("batch_size"), "64");
  EXPECT_EQ(setting.Find("window"), nullptr);
}

TEST(BenchSweepTest, ServerKnobsAreThoseThatNeedAStart) {
  EXPECT_TRUE(IsServerKnob("threads"));
  EXPECT_TRUE(IsServerKnob("memory_budget"));
  EXPECT_FALSE(IsServerKnob("window"));
  EXPECT_FALSE(IsServerKnob("no such"));
}

TEST(BenchSweepTest, MistakesAreNamedWithTheirPlace) {
  EXPECT_THAT(Mistake(""), HasSubstr("write KNOB=VALUE,VALUE"));
  EXPECT_THAT(Mistake("window"), HasSubstr("`window`: write KNOB="));
  EXPECT_THAT(Mistake(";window=1"), HasSubstr("write KNOB="));
  EXPECT_THAT(Mistake("windows=1"),
              HasSubstr("there is no knob `windows`; the knobs are window, "
                        "batch_size, loaders, same_host, threads"));
  EXPECT_THAT(Mistake("window=4;prefetch=2"),
              HasSubstr("`prefetch=2`: bench has no device"));
  EXPECT_THAT(Mistake("window="), HasSubstr("`` is not a whole number from 1"));
  EXPECT_THAT(Mistake("window=4,"),
              HasSubstr("`` is not a whole number from 1"));
  EXPECT_THAT(Mistake("window=0"),
              HasSubstr("`0` is not a whole number from 1"));
  // It was refused only by the first round.
  EXPECT_THAT(
      Mistake("window=4,1"),
      HasSubstr("`1`: write auto, or a number of batches from 2 to 65536"));
  EXPECT_THAT(Mistake("read_threads=x"),
              HasSubstr("`x` is not a whole number from 0"));
  EXPECT_THAT(Mistake("batch_size=auto"),
              HasSubstr("`auto` is not a whole number"));
  EXPECT_THAT(Mistake("window=-4"), HasSubstr("`-4` is not a whole number"));
  EXPECT_THAT(Mistake("window=4,8x"), HasSubstr("`8x` is not a whole number"));
  EXPECT_THAT(Mistake("window=4,8,4"), HasSubstr("the value 4 is given twice"));
  EXPECT_THAT(Mistake("window=4;window=8"), HasSubstr("`window=8`: is given "
                                                      "twice"));
  EXPECT_THAT(Mistake("memory_budget=much"), HasSubstr("is not a size"));
  EXPECT_THAT(Mistake("same_host=yes"),
              HasSubstr("not one of off, auto, require"));
}

TEST(BenchSweepTest, TooManySettingsAreRefused) {
  std::string window = "window=2";
  for (int i = 3; i <= 18; ++i) window += "," + std::to_string(i);
  std::string batch = "batch_size=1";
  for (int i = 2; i <= 16; ++i) batch += "," + std::to_string(i);
  EXPECT_THAT(Mistake(window + ";" + batch),
              HasSubstr("more than 256 settings"));
  std::string many = "window=2";
  for (int i = 3; i <= 301; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(Mistake(many), HasSubstr("more than 256 settings"));
}

}  // namespace
}  // namespace millrace::cli
