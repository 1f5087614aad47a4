#include "trainer/failed_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/prefetch/host_loader.h"
#include "trainer/config.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

HostLoaderOptions OfRankOne() {
  HostLoaderOptions options;
  options.rank = 1;
  options.world_size = 2;
  options.start = {3, 17};
  return options;
}

// The command had the word ITS_AUDIT_LOG for a file that the flags name, or
// that was never written.
TEST(HowToFetch, NamesAFileOfTheRun) {
  TrainerConfig config;
  const std::string flags = HowToFetch(OfRankOne(), config);
  EXPECT_THAT(flags, AllOf(HasSubstr("millrace replay --position=3:17 --rank=1 "
                                     "--world=2 --output=DIR"),
                           HasSubstr("the flags of this run that name the "
                                     "data"),
                           Not(HasSubstr("--run="))));

  config.train_subset = "0:100";
  EXPECT_THAT(HowToFetch(OfRankOne(), config),
              AllOf(HasSubstr("run again with --failed_batch=DIR"),
                    Not(HasSubstr("millrace replay --"))));
  config.train_subset.clear();
  config.eval_subset = "0.8:1.0";
  EXPECT_THAT(HowToFetch(OfRankOne(), config),
              HasSubstr("run again with --failed_batch=DIR"));

  config.audit_dir = "my logs";
  EXPECT_THAT(HowToFetch(OfRankOne(), config),
              HasSubstr("millrace replay "
                        "--run='my logs/rank-00001.mraudit' --position=3:17 "
                        "--rank=1 --world=2 --output=DIR"));
  // The summary needs no record of the step.
  config.json = "run.json";
  EXPECT_THAT(HowToFetch(OfRankOne(), config),
              HasSubstr("millrace replay --run=run.json --position=3:17"));
  // No file that can be read again.
  config.json = "/dev/stdout";
  EXPECT_THAT(HowToFetch(OfRankOne(), config), HasSubstr("rank-00001.mraudit"));
}

}  // namespace
}  // namespace millrace::trainer
