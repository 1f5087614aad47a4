// Signals that come while a rank waits for something that never comes: for
// another rank, or for the reader of a pipe.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "tests/testing/listener.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/train_world.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The launcher kills a rank that ignores the signal after this time. Longer
// than a busy machine needs to write a checkpoint.
constexpr char kGrace[] = "--stop_grace=60s";

// A pipe whose reader has opened it and takes nothing, and that is full.
class FullPipe {
 public:
  explicit FullPipe(const std::string& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    reader_ = UniqueFd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    const UniqueFd filler(
        open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    EXPECT_TRUE(reader_.ok() && filler.ok());
    const std::string bytes(4096, 'x');
    while (write(filler.get(), bytes.data(), bytes.size()) > 0) {
    }
  }

 private:
  UniqueFd reader_;
};

// Rank 0 ended at once; rank 1 waited for it and was killed after 20 s.
TEST_F(Train, ARankThatIsRefusedAtTheStartEndsTheOthersAtOnce) {
  const std::string pipe = Path("unread");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const ProgramResult run =
      Run({"--max_steps=2", "--nproc=2", kGrace, "--json=" + pipe});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("no program reads the pipe"),
                             HasSubstr("rank 0 of 2"),
                             Not(HasSubstr("killed with SIGKILL"))));
}

// As torchrun and Kubernetes stop a rank whose peers never came.
TEST_F(Train, ASignalEndsTheWaitForTheOtherRanks) {
  // Accepts connections and answers nothing: a store that hangs.
  const Listener store;
  ASSERT_TRUE(store.good());
  Subprocess rank(
      Command({"--max_steps=2"}),
      {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
       "MASTER_ADDR=127.0.0.1", absl::StrCat("MASTER_PORT=", store.port())});
  pollfd connected = {store.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&connected, 1, 60'000), 1) << rank.Stderr();
  rank.Signal(SIGTERM);
  EXPECT_EQ(rank.Wait(), 1);
  EXPECT_THAT(rank.Stderr(),
              HasSubstr("stopped by signal 15 before all ranks had joined"));
}

// The write of the summary waited for the reader, and the launcher killed rank
// 0 after 20 s.
TEST_F(Train, ASignalEndsTheWaitForTheReaderOfTheSummary) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::string pipe = Path(absl::StrCat("summary", ranks));
    const std::string checkpoint = Path(absl::StrCat(ranks, ".ckpt"));
    const FullPipe full(pipe);
    Subprocess run(
        Command({"--epochs=100000", absl::StrCat("--nproc=", ranks), kGrace,
                 "--json=" + pipe, "--checkpoint=" + checkpoint}));
    WaitForOutput(run, "epoch 2/");
    run.Signal(SIGTERM);
    EXPECT_EQ(run.Wait(), 1);
    EXPECT_THAT(run.Stderr(),
                AllOf(HasSubstr("cannot write " + pipe +
                                ": its reader took nothing for 2s"),
                      Not(HasSubstr("killed with SIGKILL"))));
    // It was written before.
    ExpectResumes(checkpoint);
  }
}

// Rank 0 is blocked in the write, and rank 1 in the call that waits for it.
TEST_F(Train, ASignalEndsTheWaitForTheReaderOfTheLosses) {
  const std::string pipe = Path("losses");
  const std::string checkpoint = Path("losses.ckpt");
  const FullPipe full(pipe);
  Subprocess run(
      Command({"--epochs=100000", "--nproc=2", kGrace, "--step_losses=" + pipe,
               "--checkpoint=" + checkpoint}));
  // The losses are written at the end of an epoch of six steps.
  WaitForOutput(run, "step 6/6");
  absl::SleepFor(absl::Milliseconds(200));
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Stderr(), AllOf(HasSubstr("its reader took nothing for 2s"),
                                  Not(HasSubstr("killed with SIGKILL"))));
  ExpectResumes(checkpoint);
}

// Drawing the progress waited for the reader, and so did the checkpoint.
TEST_F(Train, ASignalEndsTheWaitForTheReaderOfTheProgress) {
  const std::string pipe = Path("output");
  const std::string checkpoint = Path("output.ckpt");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  // One page, so that it is full soon.
  ASSERT_EQ(fcntl(reader.get(), F_SETPIPE_SZ, 4096), 4096);
  std::string command = "exec";
  for (const std::string& word :
       Command({"--epochs=100000", "--nproc=2", kGrace,
                "--checkpoint=" + checkpoint})) {
    absl::StrAppend(&command, " '", word, "'");
  }
  Subprocess run({"/bin/sh", "-c", absl::StrCat(command, " > '", pipe, "'")});
  std::string said;
  char bytes[4096];
  while (run.Running() && said.find("epoch 2/") == std::string::npos) {
    const ssize_t n = read(reader.get(), bytes, sizeof(bytes));
    if (n > 0) said.append(bytes, static_cast<size_t>(n));
    absl::SleepFor(absl::Milliseconds(5));
  }
  // Until the pipe takes no further line.
  int held = 0;
  for (int before = -1; run.Running() && held != before;) {
    before = held == 0 ? -1 : held;
    absl::SleepFor(absl::Seconds(1));
    ASSERT_EQ(ioctl(reader.get(), FIONREAD, &held), 0);
  }
  ASSERT_TRUE(run.Running()) << run.Stderr();
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.Stderr(), AllOf(HasSubstr("stopped by signal 15 before"),
                                  Not(HasSubstr("killed with SIGKILL"))));
  ExpectResumes(checkpoint);
}

// c10d's store looked the name up for two minutes.
TEST_F(Train, AMasterWithoutAnAddressIsNamed) {
  const ProgramResult run =
      Run({"--max_steps=2", "--nproc=1", "--nnodes=2", "--node_rank=1",
           "--master_addr=no-such-machine.invalid", "--rank_timeout=1s"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("the name no-such-machine.invalid of "
                                       "rank 0's machine has no address"),
                             HasSubstr("--master_addr")));
}

}  // namespace
}  // namespace millrace::testing
