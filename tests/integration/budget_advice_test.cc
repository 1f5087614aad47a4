// The budget that millrace-server names when it refuses one, given back to it.
// "The smallest that works" left nothing for a row of the presets, or reckoned
// with fewer threads than the larger budget has room for: it was refused again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/names.h"
#include "tests/integration/audit_data.h"
#include "tests/server/storage/tar/tar_bytes.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// MiB; 0 where none is named.
int Advised(const std::string& sentence) {
  const std::string flag = "--memory_budget=";
  const size_t at = sentence.rfind(flag);
  return at == std::string::npos
             ? 0
             : std::atoi(sentence.c_str() + at + flag.size());
}

class BudgetAdviceTest : public ServiceTest {
 protected:
  static ProgramResult Check(std::vector<std::string> flags, int budget_mib) {
    flags.push_back("--check_config");
    flags.push_back(absl::StrCat("--memory_budget=", budget_mib, "MiB"));
    return RunServer(flags);
  }

  // Refused with `budget_mib`, started with what is named then, and refused
  // with a MiB less.
  static void ExpectSmallest(const std::vector<std::string>& flags,
                             int budget_mib) {
    const ProgramResult refused = Check(flags, budget_mib);
    ASSERT_EQ(refused.exit_code, 2) << refused.out << refused.err;
    // Not what the log says of a Parquet dataset's cache alone.
    const size_t sentence =
        refused.err.find("the smallest sufficient value is ");
    ASSERT_NE(sentence, std::string::npos) << refused.err;
    const int advised = Advised(refused.err.substr(sentence));
    ASSERT_GT(advised, budget_mib) << refused.err;
    const ProgramResult again = Check(flags, advised);
    EXPECT_EQ(again.exit_code, 0) << refused.err << again.err;
    const ProgramResult less = Check(flags, advised - 1);
    EXPECT_EQ(less.exit_code, 2) << advised;
    EXPECT_EQ(Advised(less.err), advised) << less.err;
  }

  static std::string Photos() {
    static const std::string* const flag = new std::string(
        Pack("photos", "imagefolder", WriteImageFolder(12), "lmdb", 1));
    return *flag;
  }
};

TEST_F(BudgetAdviceTest, OfAFixedNumberOfThreads) {
  ExpectSmallest({Photos(), "--threads=3"}, 16);
}

// "At least 16 MiB" was refused again.
TEST_F(BudgetAdviceTest, OfABudgetBelowThatOfEveryServer) {
  ExpectSmallest({Photos(), "--threads=3"}, 1);
  ExpectSmallest({Photos()}, 8);
  const ProgramResult one_thread = Check({Photos(), "--threads=1"}, 16);
  EXPECT_EQ(one_thread.exit_code, 2) << one_thread.out;
  EXPECT_THAT(one_thread.err, Not(HasSubstr("lower --threads")));
  // "The memory budget of 16 MiB is below the minimum, which is 16 MiB".
  EXPECT_THAT(RunServer({"--synthetic_only", "--parse_config",
                         "--memory_budget=16777215"})
                  .err,
              HasSubstr("the memory budget of 16 MiB (16777215 bytes) is below "
                        "the minimum, which is 16 MiB"));
}

// An Open that is refused for want of memory names a budget with which it is
// not.
TEST_F(BudgetAdviceTest, OfAJobThatIsOpened) {
  PipelineSpec spec;
  spec.add_sources()->set_dataset("photos");
  spec.set_preset("imagenet_train");
  spec.set_batch_size(4096);
  spec.set_last_batch(LAST_BATCH_PAD);
  for (const char* const threads : {"--threads=2", "--initial_threads=16"}) {
    std::string budget = "--memory_budget=128MiB";
    for (const bool refused : {true, false}) {
      auto server = Serve({Photos(), threads, budget});
      const auto plan = RpcClient(server->address()).Open(spec, 1);
      if (refused) {
        EXPECT_TRUE(absl::IsFailedPrecondition(plan.status()));
        const int advised = Advised(std::string(plan.status().message()));
        ASSERT_GT(advised, 128) << plan.status();
        budget = absl::StrCat("--memory_budget=", advised, "MiB");
      } else {
        EXPECT_TRUE(plan.ok()) << budget << " " << plan.status();
      }
      EXPECT_EQ(server->Stop(), 0);
    }
  }
}

TEST_F(BudgetAdviceTest, OfANumberThatAdapts) {
  ExpectSmallest({Photos()}, 16);
  ExpectSmallest({Photos(), "--initial_threads=16"}, 16);
}

// The part for the datasets of leases grows with the budget: 71 MiB were named,
// then 85, 89 and 90.
TEST_F(BudgetAdviceTest, OfAServerWithLeases) {
  const std::string socket = absl::StrCat("--lease_socket=@advice-", getpid());
  ExpectSmallest({socket}, 8);
  ExpectSmallest({socket, "--threads=1"}, 16);
  ExpectSmallest({socket, "--threads=2"}, 16);
  ExpectSmallest({socket, "--initial_threads=16"}, 16);
}

// The automatic budgets of small machines (tests/server/config_test.cc) are
// sufficient for a job on images.
TEST_F(BudgetAdviceTest, FixedThreadsOfAServerWithLeasesHaveABudget) {
  for (const int threads : {1, 2, 3, 8, 64}) {
    const ProgramResult checked =
        Check({absl::StrCat("--lease_socket=@fixed-", getpid()),
               absl::StrCat("--threads=", threads)},
              64 + 40 * (threads - 1));
    EXPECT_EQ(checked.exit_code, 0) << checked.err;
  }
}

// The same in the refusal of a job.
TEST_F(BudgetAdviceTest, OfAJobOnAServerWithLeases) {
  const PipelineSpec spec = SyntheticSpec(400, {1 << 20}, 200);
  std::string budget = "--memory_budget=128MiB";
  for (const bool refused : {true, false}) {
    auto server = Serve({absl::StrCat("--lease_socket=@advised-", getpid()),
                         "--lease_timeout=10m", "--threads=2", budget});
    const auto plan = RpcClient(server->address()).Open(spec, 1);
    if (refused) {
      EXPECT_TRUE(absl::IsFailedPrecondition(plan.status())) << plan.status();
      const int advised = Advised(std::string(plan.status().message()));
      ASSERT_GT(advised, 128) << plan.status();
      budget = absl::StrCat("--memory_budget=", advised, "MiB");
    } else {
      EXPECT_TRUE(plan.ok()) << budget << " " << plan.status();
    }
    EXPECT_EQ(server->Stop(), 0);
  }
}

// The cache of decoded row groups grows with the budget. "No budget is large
// enough" was said where the present one had no room for a row.
TEST_F(BudgetAdviceTest, OfParquetWhoseRowsNeedALargerCache) {
  const std::string photos = WriteImageFolder(3);
  const std::string large = photos + "/asteroid/0.jpg";
  WriteFile(large, ReadFile(large) + std::string(24 << 20, '.'));
  const std::string parquet =
      Pack("photos", "imagefolder", photos, "parquet", 1);
  const std::string pipeline = Path("crop.textproto");
  WriteFile(pipeline,
            "batch_size: 2 last_batch: LAST_BATCH_PAD "
            "transforms { decode_image {} } "
            "transforms { resize { height: 64 width: 64 } }");
  ExpectSmallest({parquet, "--threads=1", "--check_pipeline=" + pipeline}, 16);
}

// The server took them for images: 61 MiB were named where 38 were enough, and
// also where 78 were needed.
TEST_F(BudgetAdviceTest, OfRecordsThatAreNoImages) {
  using storage::TarEnd;
  using storage::TarMemberBytes;
  const std::string cache = "--cache_dir=" + Path("cache");
  WriteFile(Path("bytes.tar"),
            TarMemberBytes("0.bin", std::string(30'000'000, 'x')) + TarEnd());
  ExpectSmallest({"--dataset=a=tar:" + Path("bytes.tar"), cache}, 16);
  std::string array =
      "{'descr': '|u1', 'fortran_order': False, 'shape': "
      "(30000000,), }";
  array.resize(117, ' ');
  array = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + array + "\n" +
          std::string(30'000'000, 'x');
  WriteFile(Path("arrays.tar"), TarMemberBytes("0.npy", array) + TarEnd());
  ExpectSmallest({"--dataset=a=tar:" + Path("arrays.tar"), cache}, 16);
  ExpectSmallest({"--dataset=a=tar:" + Path("arrays.tar"),
                  "--dataset=b=tar:" + Path("bytes.tar"), cache},
                 16);
}

// Names so long that the list alone is larger than a small budget.
class FolderBudgetTest : public BudgetAdviceTest {
 protected:
  // The flag of a folder of `files` files whose list has about 200 bytes each.
  std::string Folder(const std::string& name, int files) {
    const std::string folder = Path(name);
    for (int i = 0; i < files; ++i) {
      const std::string of_class = absl::StrCat(folder, "/", i % 2);
      if (i < 2) std::filesystem::create_directories(of_class);
      WriteFile(absl::StrCat(of_class, "/", std::string(180, 'x'), i, ".jpg"),
                "\xFF\xD8\xFF");
    }
    return absl::StrCat("--dataset=", name, "=imagefolder:", folder);
  }
  std::string CacheFlag() { return "--cache_dir=" + Path("cache"); }
};

// "--memory_budget=N or more" was larger than needed, or refused again for the
// largest file.
TEST_F(FolderBudgetTest, OfAFolderWhoseListDoesNotFit) {
  const std::string folder = Folder("many", 100'000);
  ExpectSmallest({folder, "--threads=1", CacheFlag()}, 16);
  // By the index of the first start, too.
  ExpectSmallest({folder, "--threads=1", CacheFlag()}, 16);
}

TEST_F(FolderBudgetTest, OfAFolderWhoseLargestFileDoesNotFit) {
  const std::string folder = Folder("large", 10);
  std::filesystem::resize_file(
      absl::StrCat(Path("large"), "/0/", std::string(180, 'x'), "0.jpg"),
      40 << 20);
  ExpectSmallest({folder, "--threads=1", CacheFlag()}, 16);
}

// The first one is refused, and the others are not open yet.
TEST_F(FolderBudgetTest, OfTwoFoldersAndAPackedDataset) {
  const std::string first = Folder("first", 100'000);
  const std::string second = Folder("second", 50'000);
  ExpectSmallest({first, second, Photos(), "--threads=1", CacheFlag()}, 16);
}

// Mixing needs two images a thread, so that more threads need more.
TEST_F(BudgetAdviceTest, OfABatchThatGrowsWithTheThreads) {
  const std::string pipeline = Path("mix.textproto");
  WriteFile(pipeline,
            "batch_size: 2 last_batch: LAST_BATCH_PAD "
            "transforms { decode_image {} } "
            "transforms { center_crop { height: 1500 width: 1500 } } "
            "transforms { mix_up { alpha: 0.2 } }");
  ExpectSmallest(
      {Photos(), "--initial_threads=16", "--check_pipeline=" + pipeline}, 80);
  ExpectSmallest({Photos(), "--check_pipeline=" + pipeline}, 16);
}

}  // namespace
}  // namespace millrace::testing
