#include "client/batch_files/batch_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/prefetch/host_loader.h"
#include "proto/data_service.pb.h"
#include "proto/types.pb.h"
#include "tests/testing/subprocess.h"

namespace millrace::batch_files {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint64_t kRows = 4;
constexpr char kJson[] = "{\"epoch\": 0}\n";

class BatchFiles : public ::testing::Test {
 protected:
  BatchFiles() {
    batch_.rows = kRows;
    batch_.payload = absl::MakeSpan(payload_);
    TensorHeader& label = *batch_.header.add_tensors();
    label.set_name("label");
    label.set_dtype(DTYPE_UINT8);
    label.set_bytes(kRows);
    TensorHeader& image = *batch_.header.add_tensors();
    image.set_name("image");
    image.set_dtype(DTYPE_UINT8);
    image.add_sample_shape(1024);
    image.set_offset(kRows);
    image.set_bytes(kRows * 1024);
    arrays_ = ArraysOf(batch_);
  }

  absl::Status Write(Folder state = Folder::kMayExist) const {
    return WriteBatchFiles(arrays_, kJson, folder_, state, "--output=DIR");
  }
  bool Exists(const std::string& name) const {
    return access((folder_ + name).c_str(), F_OK) == 0;
  }

  const std::string root_ = testing::NewTempDir();
  const std::string folder_ = root_ + "/batch";
  std::vector<uint8_t> payload_ = std::vector<uint8_t>(kRows * 1025, 7);
  HostBatch batch_;
  std::vector<BatchArray> arrays_;
};

TEST_F(BatchFiles, AreInAFolderThatIsCreated) {
  ASSERT_THAT(arrays_, SizeIs(2));
  EXPECT_FALSE(HasBatchFiles(arrays_, kJson, folder_));
  const absl::Status written = Write(Folder::kIsNew);
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(testing::ReadFile(folder_ + "/batch.json"), kJson);
  EXPECT_EQ(testing::ReadFile(folder_ + "/label.npy"),
            NpyHeader(DTYPE_UINT8, {4}) + std::string(kRows, 7));
  EXPECT_TRUE(HasBatchFiles(arrays_, kJson, folder_));
  EXPECT_FALSE(HasBatchFiles(arrays_, "{}\n", folder_));
  testing::WriteFile(folder_ + "/label.npy", "cut");
  EXPECT_FALSE(HasBatchFiles(arrays_, kJson, folder_));
}

TEST_F(BatchFiles, MayBeInAFolderOfOtherFiles) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0777), 0);
  testing::WriteFile(folder_ + "/notes", "mine");
  EXPECT_TRUE(absl::IsAlreadyExists(Write(Folder::kIsNew)));
  EXPECT_TRUE(Write().ok());
  const absl::Status again = Write();
  EXPECT_TRUE(absl::IsAlreadyExists(again));
  EXPECT_THAT(std::string(again.message()),
              AllOf(HasSubstr("already contains a batch"),
                    HasSubstr("give another --output=DIR")));
}

TEST_F(BatchFiles, AreNotWhereAFileIs) {
  testing::WriteFile(folder_, "mine");
  for (const Folder state : {Folder::kMayExist, Folder::kIsNew}) {
    const absl::Status written = Write(state);
    EXPECT_TRUE(absl::IsAlreadyExists(written)) << written;
    EXPECT_EQ(written.message(),
              "cannot create the folder " + folder_ +
                  ": it is a file; give another --output=DIR");
  }
  EXPECT_EQ(testing::ReadFile(folder_), "mine");
}

// A link of that name led into a dataset, which the batch replaced; at a FIFO
// the program waited for ever.
TEST_F(BatchFiles, ReplaceNothing) {
  const std::string data = root_ + "/photos.parquet";
  const std::string image = folder_ + "/image.npy";
  testing::WriteFile(data, "PAR1");
  ASSERT_EQ(mkdir(folder_.c_str(), 0777), 0);
  const auto expect_refused = [&](const char* what) {
    const absl::Status written = Write();
    EXPECT_TRUE(absl::IsAlreadyExists(written)) << what << ": " << written;
    EXPECT_THAT(std::string(written.message()),
                AllOf(HasSubstr(image + " exists and is not replaced"),
                      HasSubstr("give another --output=DIR")));
    // Nothing is written, not even the array before.
    EXPECT_FALSE(Exists("/label.npy")) << what;
    EXPECT_FALSE(Exists("/batch.json")) << what;
    EXPECT_EQ(testing::ReadFile(data), "PAR1") << what;
    ASSERT_EQ(unlink(image.c_str()), 0);
  };
  testing::WriteFile(image, "mine");
  expect_refused("a file");
  ASSERT_EQ(symlink(data.c_str(), image.c_str()), 0);
  expect_refused("a link");
  ASSERT_EQ(symlink((root_ + "/none").c_str(), image.c_str()), 0);
  expect_refused("a link to nothing");
  ASSERT_EQ(link(data.c_str(), image.c_str()), 0);
  expect_refused("a second name");
  ASSERT_EQ(mkfifo(image.c_str(), 0600), 0);
  expect_refused("a FIFO");
  EXPECT_TRUE(Write().ok());
}

// A part of image.npy stayed, and the next try found a file there.
TEST_F(BatchFiles, AreRemovedWhenOneIsIncomplete) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit low = {.rlim_cur = 1024, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const absl::Status written = Write();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(written)) << written;
  EXPECT_THAT(std::string(written.message()),
              AllOf(HasSubstr("image.npy"), HasSubstr("ulimit -f")));
  EXPECT_FALSE(Exists(""));
  EXPECT_TRUE(Write().ok());
}

}  // namespace
}  // namespace millrace::batch_files
