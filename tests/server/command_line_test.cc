// The flags of millrace-server.

#include "server/command_line.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Mistake(const std::vector<std::string>& arguments) {
  const auto line = ParseCommandLine(arguments);
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(line.status().message());
}

TEST(CommandLineTest, ReadsEveryFlag) {
  const auto line = ParseCommandLine(
      {"--dataset=a=lmdb:/data/a", "--dataset", "b=parquet:/data/b/*.parquet",
       "--listen=127.0.0.1:0", "--threads=4", "--memory_budget=2GiB",
       "--send_timeout=1.5s", "--admission_timeout=250ms", "--shutdown_grace=3",
       "--batch_timeout=1.5s", "--request_timeout=20s", "--max_connections=500",
       "--max_connections_per_peer=40", "--local_socket=/run/m.sock",
       "--lease_socket=/run/l.sock", "--lease_timeout=2s",
       "--config=s.textproto", "--port_file=/tmp/p", "--check_config"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->flags.datasets_size(), 2);
  EXPECT_EQ(line->flags.datasets(0).name(), "a");
  EXPECT_EQ(line->flags.datasets(0).uri(), "lmdb:/data/a");
  EXPECT_EQ(line->flags.datasets(1).uri(), "parquet:/data/b/*.parquet");
  EXPECT_EQ(line->flags.listen(), "127.0.0.1:0");
  EXPECT_EQ(line->flags.threads(), 4);
  EXPECT_EQ(line->flags.memory_budget_bytes(), uint64_t{2} << 30);
  EXPECT_EQ(line->flags.send_timeout_ms(), 1500);
  EXPECT_EQ(line->flags.admission_timeout_ms(), 250);
  EXPECT_EQ(line->flags.shutdown_grace_ms(), 3000);
  EXPECT_EQ(line->flags.batch_timeout_ms(), 1500);
  EXPECT_EQ(line->flags.request_timeout_ms(), 20000);
  EXPECT_EQ(line->flags.max_connections(), 500);
  EXPECT_EQ(line->flags.max_connections_per_peer(), 40);
  EXPECT_EQ(line->flags.local_socket(), "/run/m.sock");
  EXPECT_EQ(line->flags.lease_socket(), "/run/l.sock");
  EXPECT_EQ(line->flags.lease_timeout_ms(), 2000);
  EXPECT_EQ(line->config_file, "s.textproto");
  EXPECT_EQ(line->port_file, "/tmp/p");
  EXPECT_TRUE(line->check_config);
  EXPECT_TRUE(ParseCommandLine({"--parse_config"})->parse_config);
  EXPECT_FALSE(line->help);
  EXPECT_TRUE(ParseCommandLine({"-h"})->help);
}

TEST(CommandLineTest, DatasetsMayBeSeparatedByCommas) {
  const auto line =
      ParseCommandLine({"--dataset=a=lmdb:/x,y=1,b=parquet:/z{1,2},c=lmdb:/c"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->flags.datasets_size(), 3);
  EXPECT_EQ(line->flags.datasets(0).uri(), "lmdb:/x,y=1");  // part of the path
  EXPECT_EQ(line->flags.datasets(1).uri(), "parquet:/z{1,2}");
  EXPECT_EQ(line->flags.datasets(2).name(), "c");
}

TEST(CommandLineTest, ImageFolders) {
  const auto line = ParseCommandLine(
      {"--dataset=a=imagefolder:/x,y,b=imagefolder:/z", "--cache_dir=/c"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->flags.datasets_size(), 2);
  EXPECT_EQ(line->flags.datasets(0).uri(), "imagefolder:/x,y");
  EXPECT_EQ(line->flags.datasets(1).uri(), "imagefolder:/z");
  ServerConfig file;
  file.set_cache_dir("/of/the/file");
  EXPECT_EQ(MergeConfig(file, line->flags).cache_dir(), "/c");
  EXPECT_EQ(MergeConfig(file, ServerConfig()).cache_dir(), "/of/the/file");
}

TEST(CommandLineTest, WeightsMayStandBeforeAndWithoutTheDataset) {
  const auto line = ParseCommandLine({"--dataset_weight=b=2.5",
                                      "--dataset=a=lmdb:/a,b=lmdb:/b",
                                      "--dataset_weight=c=3"});
  ASSERT_TRUE(line.ok()) << line.status();
  ServerConfig file;
  file.add_datasets()->set_name("c");
  file.mutable_datasets(0)->set_uri("lmdb:/c");
  file.add_datasets()->set_name("b");
  file.mutable_datasets(1)->set_uri("lmdb:/other");
  const ServerConfig merged = MergeConfig(file, line->flags);
  ASSERT_EQ(merged.datasets_size(), 3);
  EXPECT_EQ(merged.datasets(0).uri(), "lmdb:/c");
  EXPECT_EQ(merged.datasets(0).weight(), 3);
  EXPECT_EQ(merged.datasets(1).uri(), "lmdb:/b");
  EXPECT_EQ(merged.datasets(1).weight(), 2.5);
  EXPECT_EQ(merged.datasets(2).name(), "a");
  EXPECT_FALSE(merged.datasets(2).has_weight());
}

TEST(CommandLineTest, NamesMistakes) {
  EXPECT_THAT(Mistake({"--check_pipeline=p.textproto"}),
              HasSubstr("has no effect without --check_config"));
  EXPECT_THAT(
      Mistake({"--check_config", "--parse_config"}),
      HasSubstr("--parse_config and --check_config cannot be used together"));
  EXPECT_THAT(Mistake({"--dataset_weight=a"}), HasSubstr("NAME=WEIGHT"));
  EXPECT_THAT(Mistake({"--dataset_weight=a=0"}), HasSubstr("from 0.01 to 100"));
  EXPECT_THAT(Mistake({"--dataset_weight=a=1", "--dataset_weight=a=2"}),
              HasSubstr("given twice"));
  EXPECT_THAT(Mistake({"--thread=4"}), HasSubstr("did you mean --threads?"));
  EXPECT_THAT(Mistake({"--colour"}), HasSubstr("unknown flag --colour"));
  EXPECT_THAT(Mistake({"serve"}),
              HasSubstr("unexpected argument `serve`; name a dataset with "
                        "--dataset=NAME=URI"));
  EXPECT_THAT(Mistake({"--"}), HasSubstr("unexpected argument `--`"));
  EXPECT_THAT(Mistake({"--threads"}), HasSubstr("--threads=N"));
  EXPECT_THAT(Mistake({"--threads="}), HasSubstr("expected a value"));
  EXPECT_THAT(Mistake({"--threads", "--help"}), HasSubstr("needs a value"));
  // "Above 0" was said of a number above the maximum.
  for (const char* const threads :
       {"--threads=0", "--threads=4097", "--threads=4294967296"}) {
    EXPECT_THAT(Mistake({threads}), HasSubstr("expected a number from 1 to "
                                              "4096"));
  }
  for (const char* const initial :
       {"--initial_threads=0", "--initial_threads=513",
        "--initial_read_threads=x", "--initial_read_threads=513"}) {
    EXPECT_THAT(Mistake({initial}), HasSubstr("expected a number from 1 to "
                                              "512"));
  }
  for (const char* const read : {"--read_threads=-1", "--read_threads=1025"}) {
    EXPECT_THAT(Mistake({read}),
                HasSubstr("expected a number from 0 to 1024, 0 for none"));
  }
  EXPECT_THAT(Mistake({"--threads=two"}), HasSubstr("--threads=two"));
  EXPECT_THAT(Mistake({"--threads=1", "--threads=2"}),
              HasSubstr("given twice"));
  EXPECT_THAT(Mistake({"--memory_budget=lots"}), HasSubstr("512MiB"));
  EXPECT_THAT(Mistake({"--memory_budget=0"}), HasSubstr("above 0"));
  EXPECT_THAT(Mistake({"--send_timeout=soon"}), HasSubstr("5s or 300ms"));
  EXPECT_THAT(Mistake({"--max_connections=0"}), HasSubstr("above 0"));
  EXPECT_THAT(Mistake({"--max_connections_per_peer=many"}),
              HasSubstr("--max_connections_per_peer=many"));
  // "At most one year" was refused again.
  for (const char* const grace :
       {"--shutdown_grace=25h", "--shutdown_grace=inf", "--shutdown_grace=-1s",
        "--shutdown_grace=0"}) {
    EXPECT_THAT(Mistake({grace}), HasSubstr("expected a time between 1ms and "
                                            "24h, for example 5s or 300ms"));
  }
  EXPECT_THAT(Mistake({"--help=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(Mistake({"--dataset=/data/a"}), HasSubstr("NAME=lmdb:PATH"));
  EXPECT_THAT(Mistake({"--dataset=a b=lmdb:/x"}), HasSubstr("NAME of"));
  EXPECT_THAT(Mistake({"--dataset=a=lmdb:/x", "--dataset=a=lmdb:/y"}),
              HasSubstr("`a` is given twice"));
}

TEST(PortFileToRemoveTest, IsThatOfAServerThatServes) {
  EXPECT_EQ(PortFileToRemove({"--threads=4", "--port_file=/tmp/p"}), "/tmp/p");
  EXPECT_EQ(PortFileToRemove({"--port_file", "/tmp/p", "--treads=4"}),
            "/tmp/p");
  EXPECT_EQ(PortFileToRemove({"--treads=4", "-x", "--threads", "--port_file",
                              "/tmp/p", "more", "--listen"}),
            "/tmp/p");
  EXPECT_EQ(PortFileToRemove({"-port_file=/tmp/p"}), "/tmp/p");
  EXPECT_EQ(PortFileToRemove({"--port_file=/tmp/p", "--noparse_config"}),
            "/tmp/p");
  EXPECT_EQ(PortFileToRemove({"--threads=4"}), "");
  EXPECT_EQ(PortFileToRemove({"--port_file"}), "");
  EXPECT_EQ(PortFileToRemove({"--port_file", "--threads=4"}), "");
  EXPECT_EQ(PortFileToRemove({"--port_files=/tmp/p"}), "");
  // Those print something beside a server that may run.
  for (const char* const flag :
       {"--check_config", "--parse_config", "--help", "-h", "--version"}) {
    EXPECT_EQ(PortFileToRemove({"--port_file=/tmp/p", flag}), "") << flag;
  }
}

TEST(MergeConfigTest, FlagsGoBeforeTheFile) {
  ServerConfig file;
  file.set_listen("0.0.0.0:1");
  file.set_threads(9);
  DatasetConfig* a = file.add_datasets();
  a->set_name("a");
  a->set_uri("lmdb:/file/a");
  *file.add_datasets() = *a;
  file.mutable_datasets(1)->set_name("b");
  const auto line = ParseCommandLine(
      {"--listen=0.0.0.0:2", "--dataset=b=lmdb:/flag/b,c=lmdb:/flag/c"});
  ASSERT_TRUE(line.ok()) << line.status();
  const ServerConfig merged = MergeConfig(file, line->flags);
  EXPECT_EQ(merged.listen(), "0.0.0.0:2");
  EXPECT_EQ(merged.threads(), 9);
  ASSERT_EQ(merged.datasets_size(), 3);
  EXPECT_EQ(merged.datasets(0).uri(), "lmdb:/file/a");
  EXPECT_EQ(merged.datasets(1).uri(), "lmdb:/flag/b");
  EXPECT_EQ(merged.datasets(2).name(), "c");
}

TEST(MergeConfigTest, LibrariesOfOperatorsAddUp) {
  ServerConfig file;
  file.add_operators("/file/a.so");
  const auto line =
      ParseCommandLine({"--operators=b.so", "--operators", "/c, d.so"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(MergeConfig(file, line->flags).operators(),
              ElementsAre("/file/a.so", "b.so", "/c, d.so"));
  EXPECT_THAT(Mistake({"--operators"}), HasSubstr("--operators=FILE.so"));
}

TEST(HelpTextTest, FitsATerminalAndNamesEveryFlag) {
  const std::string help = HelpText();
  for (const char* flag :
       {"--dataset=NAME=URI", "--memory_budget=SIZE", "--check_config",
        "--port_file=FILE", "--operators=FILE.so"}) {
    EXPECT_THAT(help, HasSubstr(flag));
  }
  size_t begin = 0;
  while (begin < help.size()) {
    const size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 80) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

}  // namespace
}  // namespace millrace::server
