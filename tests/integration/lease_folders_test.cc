// Image folders that programs name at a server with leases: two copies with the
// times of the original have one fingerprint, and are served each by itself; a
// server that has too little memory for a list names the budget that it needs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/packet_socket.h"
#include "common/unique_fd.h"
#include "proto/names.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A server for programs of this machine, and a program.
class LeaseFoldersTest : public ServiceTest {
 protected:
  void StartServer(const std::vector<std::string>& more = {}) {
    socket_ = absl::StrCat("@lease-folders-", getpid(), "-", ++servers_);
    std::vector<std::string> flags = {"--lease_socket=" + socket_,
                                      "--cache_dir=" + Path("cache")};
    flags.insert(flags.end(), more.begin(), more.end());
    server_ = Serve(flags);
  }

  // The verb of the answer and its texts. The lease stays until the test ends.
  std::vector<std::string> Add(const std::string& uri) {
    auto connected = ConnectForPackets(socket_);
    EXPECT_TRUE(connected.ok()) << connected.status();
    leases_.push_back(*std::move(connected));
    const int lease = leases_.back().get();
    const std::string zero(1, '\0');
    EXPECT_TRUE(SendPacket(lease, absl::StrJoin(
                                      std::vector<std::string>{
                                          "millrace-lease-1", "add", uri, ""},
                                      zero))
                    .ok());
    for (;;) {
      pollfd waits = {lease, POLLIN, 0};
      EXPECT_EQ(poll(&waits, 1, 60'000), 1) << "no answer";
      std::string packet(8192, '\0');
      size_t bytes = 0;
      UniqueFd attached;
      if (ReceivePacket(lease, packet.data(), packet.size(), &bytes,
                        &attached) != Received::kPacket) {
        return {"end"};
      }
      packet.resize(bytes);
      std::vector<std::string> texts = absl::StrSplit(packet, zero);
      texts.erase(texts.begin());
      if (texts[0] != "opening") return texts;
    }
  }

  std::unique_ptr<ServerProcess> server_;

 private:
  std::string socket_;
  int servers_ = 0;
  std::vector<UniqueFd> leases_;
};

TEST_F(LeaseFoldersTest, AFileThatChangesIsAnErrorOfItsOwnCopy) {
  const std::string original = WriteImageFolder(24);
  const std::string copy = Path("copy");
  ASSERT_EQ(RunProgram({"/bin/cp", "-a", original, copy}).exit_code, 0);
  StartServer();
  const std::vector<std::string> a = Add("imagefolder:" + original);
  const std::vector<std::string> b = Add("imagefolder:" + copy);
  ASSERT_EQ(a[0], "added") << absl::StrJoin(a, " ");
  ASSERT_EQ(b[0], "added") << absl::StrJoin(b, " ");
  EXPECT_EQ(a[3], b[3]);  // the fingerprint
  EXPECT_EQ(b[2], a[2] + "~2");

  RpcClient client(server_->address());
  const auto open = [&](const std::string& name) {
    PipelineSpec spec;
    spec.add_sources()->set_dataset(name);
    spec.set_preset("imagenet_eval");
    spec.set_batch_size(8);
    auto plan = client.Open(spec, 1);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  };
  const auto epoch = [&](const OpenResponse& plan, std::string* payloads) {
    std::vector<ReceivedBatch> batches;
    const absl::Status status =
        client.GetBatches(RpcClient::Request(plan, 0, 3), &batches);
    // Batches may finish in any order.
    std::sort(batches.begin(), batches.end(),
              [](const ReceivedBatch& x, const ReceivedBatch& y) {
                return x.header.step() < y.header.step();
              });
    payloads->clear();
    for (const ReceivedBatch& batch : batches) *payloads += batch.payload;
    return status;
  };
  const OpenResponse plan_a = open(a[2]);
  const OpenResponse plan_b = open(b[2]);
  // A checkpoint of one of them continues with the other.
  EXPECT_EQ(plan_a.plan_hash(), plan_b.plan_hash());
  std::string before, after;
  EXPECT_TRUE(epoch(plan_a, &before).ok());
  EXPECT_TRUE(epoch(plan_b, &after).ok());
  EXPECT_EQ(before, after);

  std::string file;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(original)) {
    if (entry.is_regular_file()) file = entry.path();
  }
  WriteFile(file, "another file");
  const absl::Status status = epoch(plan_a, &after);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(file + " was truncated"),
                    HasSubstr("set bad_samples of the pipeline to SUBSTITUTE "
                              "or ZERO")));
  EXPECT_TRUE(epoch(plan_b, &after).ok());
  EXPECT_EQ(before, after);
  EXPECT_EQ(server_->Stop(), 0);
}

// The budget was named for the list alone, and refused again for the largest
// file.
TEST_F(LeaseFoldersTest, TheBudgetThatIsNamedIsTheSmallestThatWorks) {
  const std::string folder = Path("many");
  for (int i = 0; i < 60'000; ++i) {
    const std::string of_class = absl::StrCat(folder, "/", i % 2);
    if (i < 2) std::filesystem::create_directories(of_class);
    WriteFile(absl::StrCat(of_class, "/", std::string(180, 'x'), i, ".jpg"),
              "\xFF\xD8\xFF");
  }
  std::filesystem::resize_file(
      absl::StrCat(folder, "/0/", std::string(180, 'x'), "0.jpg"), 5 << 20);
  const std::string uri = "imagefolder:" + folder;
  const auto add = [&](int mib) {
    StartServer({"--threads=1", absl::StrCat("--memory_budget=", mib, "MiB")});
    return Add(uri);
  };
  const auto advised = [](const std::vector<std::string>& answer) {
    const std::string flag = "--memory_budget=";
    const size_t at = answer.back().find(flag);
    return at == std::string::npos
               ? 0
               : std::atoi(answer.back().c_str() + at + flag.size());
  };
  const std::vector<std::string> refused = add(64);
  ASSERT_EQ(refused[0], "error") << absl::StrJoin(refused, " ");
  EXPECT_THAT(refused[2], AllOf(HasSubstr("the list of 60,000 files in 3 "
                                          "folders of " +
                                          folder),
                                HasSubstr("or pack the folder")));
  const int mib = advised(refused);
  ASSERT_GT(mib, 64) << refused[2];
  const std::vector<std::string> works = add(mib);
  EXPECT_EQ(works[0], "added") << absl::StrJoin(works, " ");
  // The next rank of the job, for which the server lists the folder again.
  const std::vector<std::string> again = Add(uri);
  EXPECT_EQ(again, works);
  const std::vector<std::string> less = add(mib - 1);
  EXPECT_EQ(less[0], "error") << absl::StrJoin(less, " ");
  EXPECT_EQ(advised(less), mib) << less.back();
}

}  // namespace
}  // namespace millrace::testing
