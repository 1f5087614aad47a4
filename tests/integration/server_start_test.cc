// millrace-server as its operator meets it: what it answers to mistakes on the
// command line, in the configuration and in the data, and how it stops.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/listener.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramResult;
using testing::RpcClient;

class ServerStartTest : public testing::ServiceTest {
 protected:
  // An error of one line that says all of `says`.
  void Fails(int exit_code, const std::vector<std::string>& flags,
             const std::vector<std::string>& says) {
    const ProgramResult result = RunServer(flags);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("millrace-server: "));
    for (const std::string& text : says) {
      EXPECT_THAT(result.err, HasSubstr(text));
    }
  }

  const std::string digits_ = DigitsUri(100);
};

TEST_F(ServerStartTest, VersionAndHelpNeedNothing) {
  const ProgramResult version = RunServer({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, HasSubstr("millrace-server "));
  const ProgramResult help = RunServer({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--dataset=NAME=URI"));
}

TEST_F(ServerStartTest, MistakesOnTheCommandLine) {
  Fails(2, {}, {"no dataset to serve", "--dataset=NAME=lmdb:PATH"});
  Fails(2, {"--datasets=a=" + digits_}, {"did you mean --dataset?"});
  Fails(2, {"--dataset=" + digits_}, {"NAME=lmdb:PATH"});
  Fails(2, {"--dataset=a=/path"}, {"`/path`", "lmdb:PATH"});
  Fails(2, {"--dataset=a=" + digits_, "--threads=none"}, {"--threads=none"});
  Fails(2, {"--dataset=a=" + digits_, "--memory_budget=1KiB"},
        {"16 MiB", "--memory_budget="});
  Fails(2, {"--dataset=a=" + digits_, "--memory_budget=1KiB", "--parse_config"},
        {"16 MiB"});
  Fails(2,
        {"--dataset=a=" + digits_, "--max_connections=3",
         "--max_connections_per_peer=4"},
        {"max_connections_per_peer is 4"});
  Fails(2, {"--dataset=a=" + digits_, "--dataset_weight=a=0"}, {"0.01"});
}

TEST_F(ServerStartTest, MistakesInTheConfiguration) {
  Fails(2, {"--config=" + Path("none")}, {Path("none"), "No such"});
  const std::string file = Path("s.textproto");
  testing::WriteFile(file, "listen: \"127.0.0.1:0\"\nthreds: 3\n");
  Fails(2, {"--config=" + file}, {file + ":2:7: ", "threds"});
}

TEST_F(ServerStartTest, DatasetsThatCannotBeServed) {
  Fails(1, {"--dataset=a=lmdb:" + Path("none")}, {"dataset a", Path("none")});
  Fails(2, {"--dataset=a=csv:" + folder()},
        {"dataset a", "not a regular file"});
  Fails(2, {"--dataset=a=xls:" + folder()}, {"dataset a", "xls"});
  testing::WriteFile(Path("empty.lmdb"), "");
  Fails(1, {"--dataset=a=lmdb:" + Path("empty.lmdb")},
        {"dataset a", "empty.lmdb"});
  testing::WriteFile(Path("text.lmdb"), std::string(100000, 'x'));
  Fails(1, {"--dataset=a=lmdb:" + Path("text.lmdb")},
        {"dataset a", "text.lmdb"});
  const std::string whole =
      testing::ReadFile(digits_.substr(digits_.find(':') + 1));
  testing::WriteFile(Path("cut.lmdb"), whole.substr(0, whole.size() / 2));
  Fails(1, {"--dataset=a=lmdb:" + Path("cut.lmdb")}, {"dataset a", "cut.lmdb"});
}

TEST_F(ServerStartTest, CheckConfigOpensWhatParseConfigDoesNot) {
  const ProgramResult check =
      RunServer({"--dataset=a=" + digits_, "--memory_budget=1GiB",
                 "--threads=3", "--check_config"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("1 GiB"));
  EXPECT_THAT(check.out, HasSubstr("100 samples"));
  EXPECT_THAT(check.out, HasSubstr("fingerprint"));

  const std::vector<std::string> missing = {"--dataset=a=lmdb:/none"};
  EXPECT_EQ(RunServer({missing[0], "--check_config"}).exit_code, 1);
  const ProgramResult parsed = RunServer({missing[0], "--parse_config"});
  EXPECT_EQ(parsed.exit_code, 0) << parsed.err;
  EXPECT_THAT(parsed.out, HasSubstr("memory budget"));
}

// Only a missing line said that there was none.
TEST_F(ServerStartTest, CheckConfigSaysThatLargeImagesHaveNoMemory) {
  std::filesystem::create_directories(Path("folder/class"));
  const PngKind kind;
  const std::vector<uint8_t> png =
      WritePng(kind, TestPixels(kind.width, kind.height, 3, 1));
  testing::WriteFile(Path("folder/class/0.png"),
                     std::string(png.begin(), png.end()));
  const auto line = [&](const std::string& budget) {
    const ProgramResult check =
        RunServer({"--dataset=a=imagefolder:" + Path("folder"), "--threads=2",
                   "--memory_budget=" + budget, "--check_config"});
    EXPECT_EQ(check.exit_code, 0) << check.err;
    const size_t at = check.out.find("  large images");
    EXPECT_NE(at, std::string::npos) << check.out;
    return at == std::string::npos
               ? check.out
               : check.out.substr(at, check.out.find('\n', at) - at);
  };
  EXPECT_THAT(line("64MiB"),
              AllOf(HasSubstr("  large images       0 B  "),
                    HasSubstr("the server refuses images that need more than "
                              "16 MiB, the scratch of a thread")));
  EXPECT_THAT(line("512MiB"), HasSubstr(" MiB for an image"));
}

TEST_F(ServerStartTest, CheckConfigShowsTheArithmeticOfMemory) {
  const std::string dataset = "--dataset=a=" + digits_;
  const ProgramResult check = RunServer(
      {dataset, "--memory_budget=1GiB", "--threads=3", "--check_config"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("3 threads x "));
  EXPECT_THAT(check.out, HasSubstr("recycled batches"));
  EXPECT_THAT(check.out, HasSubstr("64 rows x "));
  // The dataset has no large images.
  EXPECT_THAT(check.out, Not(HasSubstr("large images")));

  // A pipeline whose batches need more than there is; the budget that is named
  // is enough for them.
  const std::string pipeline = Path("large.textproto");
  std::ofstream(pipeline) << "batch_size: 65536 last_batch: LAST_BATCH_PAD\n";
  const std::vector<std::string> flags = {
      dataset, "--threads=3", "--check_config", "--check_pipeline=" + pipeline};
  std::vector<std::string> small = flags;
  small.push_back("--memory_budget=32MiB");
  const ProgramResult refused = RunServer(small);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("does not fit into the server's memory"));
  const std::string flag = "--memory_budget=";
  const size_t at = refused.err.rfind(flag);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const int mib = std::atoi(refused.err.c_str() + at + flag.size());
  EXPECT_GT(mib, 32);
  for (const int budget : {mib, mib - 1}) {
    std::vector<std::string> again = flags;
    again.push_back(absl::StrCat(flag, budget, "MiB"));
    EXPECT_EQ(RunServer(again).exit_code, budget == mib ? 0 : 2) << budget;
  }
}

TEST_F(ServerStartTest, AddressesThatCannotBeListenedOn) {
  Listener listener;
  ASSERT_TRUE(listener.good());
  const std::string taken = listener.address();
  Fails(1, {"--dataset=a=" + digits_, "--listen=" + taken},
        {taken, "in use", "--listen"});
  listener.Close();
  Fails(2, {"--dataset=a=" + digits_, "--listen=127.0.0.1"}, {"HOST:PORT"});
  Fails(1, {"--dataset=a=" + digits_, "--listen=192.0.2.1:7001"},
        {"192.0.2.1:7001"});
}

TEST_F(ServerStartTest, TwoServersDoNotShareAPort) {
  auto first = Serve({"--dataset=a=" + digits_});
  Fails(1, {"--dataset=a=" + digits_, "--listen=" + first->address()},
        {"in use"});
  // The first one goes on.
  EXPECT_TRUE(RpcClient(first->address()).GetStatus().ok());
}

TEST_F(ServerStartTest, APortFileThatCannotBeWritten) {
  Fails(1,
        {"--dataset=a=" + digits_, "--listen=127.0.0.1:0",
         "--port_file=" + Path("none/port")},
        {});
}

// A script took the port of the server before for that of the one that had not
// started.
TEST_F(ServerStartTest, AFailedStartLeavesNoPortFileOfAnEarlierOne) {
  const std::string file = Path("port");
  const std::string flag = "--port_file=" + file;
  const std::vector<std::vector<std::string>> fails = {
      {flag, "--dataset=a=lmdb:" + Path("none")},
      {flag, "--config=" + Path("none")},
      {"--treads=2", flag}};
  for (const std::vector<std::string>& flags : fails) {
    testing::WriteFile(file, "7001\n");
    EXPECT_NE(RunServer(flags).exit_code, 0);
    EXPECT_NE(access(file.c_str(), F_OK), 0) << flags.back();
  }
  // Only a look beside a server that may run.
  testing::WriteFile(file, "7001\n");
  EXPECT_EQ(
      RunServer({flag, "--dataset=a=" + digits_, "--check_config"}).exit_code,
      0);
  EXPECT_EQ(access(file.c_str(), F_OK), 0);
}

// The server removed the dataset before it read the first flag.
TEST_F(ServerStartTest, APortFileThatIsAnotherFileStays) {
  const std::string file = digits_.substr(strlen("lmdb:"));
  const std::string before = testing::ReadFile(file);
  const std::string flag = "--port_file=" + file;
  const std::string config = folder() + "/s.textproto";
  testing::WriteFile(config, "datasets { name: 'a' uri: '" + digits_ + "' }\n");
  const std::vector<std::vector<std::string>> refused = {
      {"--dataset=a=" + digits_, flag},
      {"--dataset=a=" + digits_, flag, "--check_config"},
      {"--config=" + config, flag},
      {"--treads=2", flag},
      {"--config=" + config, "--port_file=" + config},
      {"--dataset=a=" + digits_, "--port_file=" + folder()}};
  for (const std::vector<std::string>& flags : refused) {
    Fails(2, flags, {"flag --port_file=/", "name another file"});
    EXPECT_EQ(testing::ReadFile(file), before);
    EXPECT_EQ(access(config.c_str(), F_OK), 0);
  }
}

// gRPC aborted the process (exit code 134), or the server failed after the line
// that it listens.
TEST_F(ServerStartTest, ALimitOfOpenFilesThatIsTooLow) {
  const auto run = [&](int limit, const std::vector<std::string>& flags) {
    std::vector<std::string> command = {
        "/bin/sh", "-c", absl::StrCat("ulimit -n ", limit, "; exec \"$@\""),
        "sh", testing::ProgramPath("server/millrace-server")};
    command.insert(command.end(), flags.begin(), flags.end());
    return testing::RunProgram(command);
  };
  const std::string dataset = "--dataset=a=" + digits_;
  for (const char* const flag : {"--listen=127.0.0.1:0", "--check_config"}) {
    const ProgramResult refused = run(12, {dataset, flag});
    EXPECT_EQ(refused.exit_code, 1) << refused.err;
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err,
                HasSubstr("the limit of open files is 12 (ulimit -n)"));
    EXPECT_THAT(refused.err, Not(HasSubstr("listens on")));
  }
  const ProgramResult small = run(64, {dataset, "--check_config"});
  EXPECT_EQ(small.exit_code, 0) << small.err;
  EXPECT_THAT(small.out, HasSubstr("64 (ulimit -n)"));
  EXPECT_THAT(small.out, HasSubstr("at most 8 connections, 4 of one address"));
}

TEST_F(ServerStartTest, OutputThatIsLostIsAnError) {
  const std::string dataset = "--dataset=a=" + digits_;
  const std::vector<std::vector<std::string>> prints = {
      {"--version"},
      {"--help"},
      {dataset, "--parse_config"},
      {dataset, "--check_config"}};
  for (const std::vector<std::string>& flags : prints) {
    std::string command = testing::ProgramPath("server/millrace-server");
    for (const std::string& flag : flags) command += " '" + flag + "'";
    const ProgramResult result =
        testing::RunProgram({"/bin/sh", "-c", command + " > /dev/full"});
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_THAT(result.err, HasSubstr("standard output"));
  }
}

TEST_F(ServerStartTest, WarnsOfABudgetThatTheMachineDoesNotHave) {
  auto server = Serve({"--dataset=a=" + digits_, "--memory_budget=1024TiB"});
  EXPECT_EQ(server->Stop(), 0);
  EXPECT_THAT(server->process().Stderr(),
              HasSubstr("the memory budget of 1 PiB"));
  EXPECT_THAT(server->process().Stderr(),
              HasSubstr("that this process may use"));
  const ProgramResult check = RunServer(
      {"--dataset=a=" + digits_, "--memory_budget=1024TiB", "--check_config"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("WARNING"));
  EXPECT_THAT(check.out, HasSubstr("the memory budget of 1 PiB"));
}

TEST_F(ServerStartTest, StopsOnSigtermAndSigint) {
  for (int signal_number : {SIGTERM, SIGINT}) {
    auto server = Serve({"--dataset=a=" + digits_});
    server->process().Signal(signal_number);
    EXPECT_EQ(server->process().Wait(), 0);
    // Read once it has ended: the port file, which Start waits for, is written
    // before the line.
    EXPECT_THAT(server->process().Stdout(),
                HasSubstr("listening on " + server->address()));
    EXPECT_THAT(server->process().Stderr(), HasSubstr("stopped"));
    EXPECT_THAT(server->process().Stderr(),
                HasSubstr("100 samples, fingerprint"));
  }
}

TEST_F(ServerStartTest, ASignalEndsAServerThatHangsWhileItStarts) {
  // Opening a pipe waits for a writer that never comes.
  const std::string pipe = Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  testing::Subprocess server(
      {testing::ProgramPath("server/millrace-server"), "--config=" + pipe});
  // SIGTERM (bit 14) is blocked once the server handles it itself. An allocator
  // that starts a thread of its own blocks all signals for a moment, SIGUSR1
  // (bit 9) too.
  const std::string status = absl::StrCat("/proc/", server.pid(), "/status");
  while (server.Running()) {
    const std::string text = testing::ReadFile(status);
    const size_t at = text.find("SigBlk:");
    if (at == std::string::npos) continue;
    const uint64_t blocked = std::strtoull(text.c_str() + at + 7, nullptr, 16);
    if ((blocked >> 14 & 1) != 0 && (blocked >> 9 & 1) == 0) break;
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 128 + SIGTERM);
  EXPECT_THAT(server.Stderr(), HasSubstr("the process exits at once"));
}

TEST_F(ServerStartTest, AStoppedServersPortIsFreeAtOnce) {
  auto server = Serve({"--dataset=a=" + digits_});
  const int port = server->port();
  ASSERT_TRUE(RpcClient(server->address()).GetStatus().ok());
  EXPECT_EQ(server->Stop(), 0);
  auto again = Serve({"--dataset=a=" + digits_}, port);
  EXPECT_EQ(again->port(), port);
}

}  // namespace
}  // namespace millrace
