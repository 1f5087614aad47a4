// The server's configuration: what a file may say, how mistakes are named, and
// what the machine fills in.

#include "server/config.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr Machine kMachine = {.cpus = 6, .memory_bytes = 8 * kGiB};

TEST(ParseServerConfigTest, NamesFileLineAndField) {
  struct Mistake {
    std::string text;
    std::string says;
  };
  const std::string good = "datasets { name: \"a\" uri: \"lmdb:/a\" }\n";
  const std::vector<Mistake> cases = {
      {"listen: 7\n", "s.textproto:1:9: "},
      {good + "listen: \"0.0.0.0:70x\"\n", "s.textproto:2:1: cannot listen on"},
      {good + "thread: 4\n", "s.textproto:2:7: "},
      {good + "thread: 4\n", "\"thread\""},
      {good + "threads: -1\n", "s.textproto:2:10: "},
      {good + "threads: 99999\n", "s.textproto:2:1: threads is 99999"},
      {good + "read_threads: 2000\n", "s.textproto:2:1: read_threads is 2000"},
      {good + "memory_budget_bytes: 18446744073709551615\n",
       "more than any machine has"},
      {good + "row_group_cache_percent: 95\n", "row_group_cache_percent is 95"},
      {good + "send_timeout_ms: 4000000000\n", "send_timeout_ms is 4000000000"},
      {good + "request_timeout_ms: 4000000000\n",
       "request_timeout_ms is 4000000000"},
      // A written 0 became the default, while the flags refused it.
      {good + "shutdown_grace_ms: 0\n",
       "s.textproto:2:1: shutdown_grace_ms is 0: it must be 1 .. 86400000 (one "
       "day), or left out for 10000"},
      {good + "request_timeout_ms: 0\n", "or left out for 30000"},
      {good + "send_timeout_ms: 0\n", "send_timeout_ms is 0"},
      {good + "admission_timeout_ms: 0\n", "admission_timeout_ms is 0"},
      {good + "batch_timeout_ms: 0\n", "batch_timeout_ms is 0"},
      {good + "row_group_cache_percent: 0\n",
       "row_group_cache_percent is 0: it must be 1 .. 90, or left out for 25"},
      {good + "max_connections: 5 max_connections_per_peer: 6\n",
       "s.textproto:2:20: max_connections_per_peer is 6, above "
       "max_connections"},
      {"datasets { name: \"a\" uri: \"lmdb:/a\" weight: 0 }\n",
       "s.textproto:1:37: dataset `a` has the weight 0; write a number from "
       "0.01 to 100 (default 1)"},
      {good + "datasets {\n  name: \"a\"\n  uri: \"lmdb:/b\"\n}\n",
       "s.textproto:3:3: dataset name `a` is given twice"},
      {"datasets { name: \"a b\" uri: \"lmdb:/a\" }\n",
       "s.textproto:1:12: dataset name `a b`"},
      // It was printed as it is, and moved the terminal's cursor.
      {"datasets { name: \"a\\nb\\033[31m\" uri: \"lmdb:/a\" }\n",
       "s.textproto:1:12: dataset name `a\\nb\\033[31m` must consist of "
       "letters, digits, '_', '-' and '.'"},
      {"datasets { name: \"a\" uri: \"\\033[31m\" }\n",
       "s.textproto:1:22: dataset `a` has the uri `\\033[31m`"},
      {"datasets { uri: \"lmdb:/a\" }\n", "s.textproto:1:1: dataset name ``"},
      {"datasets { name: \"a\" uri: \"/a\" }\n",
       "s.textproto:1:22: dataset `a` has the uri `/a`"},
      {"datasets { name: \"a\" }\n",
       "lmdb:PATH, parquet:PATH, arrow:PATH, imagefolder:PATH"},
      {"datasets { name: \"a\"", "s.textproto:1:"},
  };
  for (const Mistake& mistake : cases) {
    const auto config = ParseServerConfig(mistake.text, "s.textproto");
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument)
        << mistake.text;
    EXPECT_THAT(std::string(config.status().message()),
                HasSubstr(mistake.says));
  }
}

TEST(ParseServerConfigTest, NamesEveryMistake) {
  const auto config =
      ParseServerConfig("threads: 99999\nread_threads: 5000\n", "s.textproto");
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(":1:1: thr"));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("\ns.text"));
}

TEST(ReadServerConfigTest, NamesAFileThatCannotBeRead) {
  const auto missing = ReadServerConfig("/no/such/file.textproto");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("/no/such/file.textproto"));
  EXPECT_FALSE(ReadServerConfig("/").ok());  // a folder
}

TEST(ResolveServerConfigTest, TheMachineFillsInWhatIsLeftOut) {
  ServerConfig config;
  DatasetConfig* dataset = config.add_datasets();
  dataset->set_name("a");
  dataset->set_uri("lmdb:/a");
  const auto settings = ResolveServerConfig(config, kMachine);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->listen, "0.0.0.0:7001");
  EXPECT_EQ(settings->threads, 6);
  EXPECT_EQ(settings->read_threads, 32);
  EXPECT_TRUE(settings->adapt_threads);
  EXPECT_TRUE(settings->adapt_read_threads);
  EXPECT_EQ(settings->memory_budget_bytes, 4 * kGiB);
  EXPECT_EQ(settings->row_group_cache_bytes, 0);  // no Parquet
  EXPECT_EQ(settings->send_timeout, absl::Seconds(10));
  EXPECT_EQ(settings->admission_timeout, absl::Seconds(5));
  EXPECT_EQ(settings->shutdown_grace, absl::Seconds(10));
  EXPECT_EQ(settings->batch_timeout, absl::Seconds(2));
  EXPECT_EQ(settings->max_connections, 0);
  const std::string table = DescribeSettings(*settings, kMachine);
  EXPECT_THAT(table, HasSubstr("4 GiB"));
  EXPECT_THAT(table, Not(HasSubstr("WARNING")));
}

TEST(ResolveServerConfigTest, TheCacheFolderIsOfImageFolders) {
  const auto config = ParseServerConfig(
      "datasets { name: 'a' uri: 'imagefolder:/a' } cache_dir: '/c'", "s");
  ASSERT_TRUE(config.ok()) << config.status();
  auto settings = ResolveServerConfig(*config, kMachine);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->cache_dir, "/c");
  EXPECT_THAT(DescribeSettings(*settings, kMachine),
              HasSubstr("cache folder         /c  "));
  settings->folder_datasets = 0;
  EXPECT_THAT(DescribeSettings(*settings, kMachine),
              Not(HasSubstr("cache folder")));
}

TEST(ResolveServerConfigTest, FilesOfImageFoldersHaveAPartOfTheBudget) {
  const auto bytes = [](const std::string& config) -> uint64_t {
    const auto parsed = ParseServerConfig(config, "s");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    const auto settings = ResolveServerConfig(*parsed, kMachine);
    EXPECT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(FileReadBytes(*settings, settings->memory_budget_bytes),
              settings->file_read_bytes);
    EXPECT_EQ(ReadMemoryBytes(*settings, settings->memory_budget_bytes),
              settings->file_read_bytes + settings->row_group_cache_bytes);
    return settings->file_read_bytes;
  };
  const std::string budget = " memory_budget_bytes: 1600000000";
  EXPECT_EQ(bytes("datasets { name: 'a' uri: 'imagefolder:/a' }" + budget),
            100'000'000);
  EXPECT_EQ(bytes("datasets { name: 'a' uri: 'imagefolder:/a' }"
                  "datasets { name: 'b' uri: 'imagefolder:/b' }"
                  "datasets { name: 'c' uri: 'parquet:/c' }" +
                  budget),
            100'000'000);
  EXPECT_EQ(bytes("datasets { name: 'a' uri: 'lmdb:/a' }" + budget), 0);
  EXPECT_EQ(bytes("lease_socket: '@a'" + budget), 100'000'000);
  EXPECT_EQ(bytes("datasets { name: 'a' uri: 'imagefolder:/a' } "
                  "memory_budget_bytes: 100000000000"),
            uint64_t{1} << 30);
}

TEST(ResolveServerConfigTest, LocalSockets) {
  ServerConfig config;
  DatasetConfig* dataset = config.add_datasets();
  dataset->set_name("a");
  dataset->set_uri("lmdb:/a");
  const auto socket = [&](const std::string& value) {
    config.set_local_socket(value);
    return ResolveServerConfig(config, kMachine);
  };
  EXPECT_EQ(socket("")->local_socket, "");
  EXPECT_EQ(socket("/run/m.sock")->local_socket, "/run/m.sock");
  EXPECT_EQ(socket("@m")->local_socket, "@m");
  EXPECT_FALSE(socket("off")->local_socket.has_value());
  for (const std::string& bad :
       {std::string("run/m.sock"), std::string("@"), std::string("/"),
        "/" + std::string(107, 'x')}) {
    EXPECT_THAT(std::string(socket(bad).status().message()),
                HasSubstr("local_socket"))
        << bad;
  }
}

TEST(ResolveServerConfigTest, WhatIsConfiguredStands) {
  const auto config = ParseServerConfig(
      "listen: '127.0.0.1:0' threads: 3 read_threads: 0 memory_budget_bytes: "
      "1000000000 "
      "row_group_cache_percent: 40 send_timeout_ms: 1 batch_timeout_ms: 7 "
      "max_connections: 500 max_connections_per_peer: 40 "
      "datasets { name: 'a' uri: 'parquet:/a' } "
      "datasets { name: 'b' uri: 'parquet:/b' } "
      "datasets { name: 'c' uri: 'lmdb:/c' }",
      "s.textproto");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto settings = ResolveServerConfig(*config, kMachine);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->listen, "127.0.0.1:0");
  EXPECT_EQ(settings->threads, 3);
  EXPECT_EQ(settings->read_threads, 0);
  EXPECT_FALSE(settings->adapt_threads);
  EXPECT_FALSE(settings->adapt_read_threads);
  EXPECT_EQ(settings->memory_budget_bytes, 1000000000);
  // Two Parquet datasets share 40 % of the budget.
  EXPECT_EQ(settings->row_group_cache_bytes, 400000000);
  EXPECT_EQ(settings->row_group_cache_bytes_each, 200000000);
  for (const uint64_t bytes : {5000000, 12345678, 200000001}) {
    const uint64_t budget = BudgetForCache(*settings, bytes);
    EXPECT_GE(RowGroupCacheBytes(*settings, budget) / 2, bytes);
    EXPECT_LT(RowGroupCacheBytes(*settings, budget - (2 << 20)) / 2, bytes);
    EXPECT_EQ(budget % (1 << 20), 0);
  }
  EXPECT_EQ(BudgetForCache(*settings, UINT64_MAX), 0);
  EXPECT_EQ(settings->send_timeout, absl::Milliseconds(1));
  EXPECT_EQ(settings->batch_timeout, absl::Milliseconds(7));
  EXPECT_EQ(settings->max_connections, 500);
  EXPECT_EQ(settings->max_connections_per_peer, 40);
}

TEST(ResolveServerConfigTest, NumbersThatAdaptMayBeginElsewhere) {
  ServerConfig config;
  config.set_synthetic_only(true);
  config.set_initial_threads(64);
  config.set_initial_read_threads(1);
  const auto settings = ResolveServerConfig(config, kMachine);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->threads, 64);
  EXPECT_EQ(settings->read_threads, 1);
  EXPECT_TRUE(settings->adapt_threads);
  EXPECT_TRUE(settings->adapt_read_threads);
  EXPECT_THAT(DescribeSettings(*settings, kMachine),
              HasSubstr("initial number"));
  const auto refused = [&config] {
    return std::string(
        ResolveServerConfig(config, kMachine).status().message());
  };
  config.set_threads(4);
  EXPECT_THAT(refused(),
              HasSubstr("initial_threads and threads cannot be used together, "
                        "because threads fixes the number"));
  config.clear_threads();
  config.set_read_threads(0);
  EXPECT_THAT(refused(), HasSubstr("because read_threads fixes the number"));
  config.clear_read_threads();
  config.set_initial_read_threads(513);
  EXPECT_THAT(refused(), HasSubstr("initial_read_threads is 513"));
}

TEST(ResolveServerConfigTest, RefusesWhatCannotRun) {
  ServerConfig config;
  EXPECT_THAT(
      std::string(ResolveServerConfig(config, kMachine).status().message()),
      HasSubstr("--dataset=NAME=lmdb:PATH"));
  DatasetConfig* dataset = config.add_datasets();
  dataset->set_name("a");
  dataset->set_uri("lmdb:/a");
  const auto tiny =
      ResolveServerConfig(config, {.cpus = 1, .memory_bytes = 20 << 20});
  EXPECT_THAT(std::string(tiny.status().message()),
              HasSubstr("half of the 20 MiB"));
}

TEST(ResolveServerConfigTest, SyntheticDataNeedNoDatasetWhenTheyAreAlone) {
  ServerConfig config;
  config.set_synthetic_only(true);
  const auto settings = ResolveServerConfig(config, kMachine);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(settings->datasets.empty());
  EXPECT_FALSE(settings->refuse_synthetic);
  config.set_refuse_synthetic(true);
  EXPECT_THAT(
      std::string(ResolveServerConfig(config, kMachine).status().message()),
      HasSubstr("synthetic_only and refuse_synthetic cannot be used"));
  config.set_refuse_synthetic(false);
  DatasetConfig* dataset = config.add_datasets();
  dataset->set_name("a");
  dataset->set_uri("lmdb:/a");
  EXPECT_THAT(
      std::string(ResolveServerConfig(config, kMachine).status().message()),
      HasSubstr("synthetic_only serves no dataset"));
  config.set_synthetic_only(false);
  config.set_refuse_synthetic(true);
  EXPECT_TRUE(ResolveServerConfig(config, kMachine)->refuse_synthetic);
}

TEST(ResolveServerConfigTest, LeasesNeedNoDatasetAndTakeAQuarterOfTheMemory) {
  ServerConfig config;
  config.set_lease_socket("/run/m/lease.socket");
  const auto settings = ResolveServerConfig(config, kMachine);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->listen, "127.0.0.1:0");
  EXPECT_EQ(settings->lease_socket, "/run/m/lease.socket");
  EXPECT_EQ(settings->lease_timeout, absl::Seconds(10));
  // Less what the program takes beside its budget.
  EXPECT_EQ(settings->memory_budget_bytes,
            kMachine.memory_bytes / 4 - (200 << 20));
  EXPECT_EQ(settings->parquet_datasets, 4);
  EXPECT_EQ(settings->row_group_cache_bytes_each * 4,
            settings->row_group_cache_bytes);
  const std::string table = DescribeSettings(*settings, kMachine);
  EXPECT_THAT(table, HasSubstr("lease socket         /run/m/lease.socket "));
  EXPECT_THAT(table, HasSubstr("lease timeout        10s "));
  EXPECT_THAT(table, HasSubstr("synthetic data       served "));
  EXPECT_THAT(table, HasSubstr("a quarter of the 8 GiB"));
  // A machine for which a quarter is too little.
  EXPECT_EQ(ResolveServerConfig(config, {.cpus = 1, .memory_bytes = 400 << 20})
                ->memory_budget_bytes,
            64 << 20);
  EXPECT_THAT(DescribeSettings(
                  *ResolveServerConfig(config, {.cpus = 1, .memory_bytes = 1}),
                  kMachine),
              HasSubstr("minimum 64 MiB"));
  config.set_lease_timeout_ms(1500);
  config.set_listen("127.0.0.1:7001");
  config.set_memory_budget_bytes(1 << 30);
  const auto chosen = ResolveServerConfig(config, kMachine);
  EXPECT_EQ(chosen->lease_timeout, absl::Milliseconds(1500));
  EXPECT_EQ(chosen->listen, "127.0.0.1:7001");
  EXPECT_EQ(chosen->memory_budget_bytes, 1 << 30);
}

// With a fixed number of threads, the budget of a small machine left nothing
// for batches, and the server was refused. tests/integration/budget_advice_test
// starts servers with these budgets.
TEST(ResolveServerConfigTest, FixedThreadsRaiseTheBudgetOfASmallMachine) {
  ServerConfig config;
  config.set_lease_socket("@m");
  const auto mib = [&config](uint64_t memory_mib) {
    const auto settings = ResolveServerConfig(
        config, {.cpus = 2, .memory_bytes = memory_mib << 20});
    EXPECT_TRUE(settings.ok()) << settings.status();
    return settings.ok() ? settings->memory_budget_bytes >> 20 : 0;
  };
  config.set_threads(1);
  EXPECT_EQ(mib(512), 64);
  config.set_threads(2);
  EXPECT_EQ(mib(512), 104);
  EXPECT_EQ(mib(1024), 104);
  EXPECT_EQ(mib(4096), 824) << "a quarter, less the program";
  config.set_threads(8);
  EXPECT_EQ(mib(1024), 344);
  // No more than the machine has beside the program.
  EXPECT_EQ(mib(512), 312);
  EXPECT_EQ(mib(128), 64);
  // A number that adapts becomes smaller instead.
  config.clear_threads();
  config.set_initial_threads(8);
  EXPECT_EQ(mib(1024), 64);
}

// The part is reserved whatever the leases bring, and grows with the budget.
TEST(ResolveServerConfigTest, DatasetsOfLeasesHaveAPartForTheirFooters) {
  ServerConfig config;
  config.set_lease_socket("@m");
  const auto leases = ResolveServerConfig(config, kMachine);
  ASSERT_TRUE(leases.ok()) << leases.status();
  EXPECT_EQ(LeasedMetadataBytes(*leases, 800), 100);
  EXPECT_EQ(BudgetForLeasedMetadata((1 << 20) + 1), (8 << 20) + (1 << 20));
  config.clear_lease_socket();
  config.set_synthetic_only(true);
  const auto none = ResolveServerConfig(config, kMachine);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(LeasedMetadataBytes(*none, 800), 0);
}

TEST(ResolveServerConfigTest, LeasesRefuseWhatContradictsThem) {
  ServerConfig config;
  config.set_lease_socket("@m");
  const auto refused = [&config] {
    return std::string(
        ResolveServerConfig(config, kMachine).status().message());
  };
  config.set_synthetic_only(true);
  EXPECT_THAT(refused(), HasSubstr("with lease_socket, programs name"));
  config.clear_synthetic_only();
  DatasetConfig* dataset = config.add_datasets();
  dataset->set_name("a");
  dataset->set_uri("lmdb:/a");
  EXPECT_THAT(refused(), HasSubstr("with lease_socket, programs name"));
  config.clear_datasets();
  for (const std::string& path :
       {std::string("relative"), std::string("@"), std::string(200, '/')}) {
    config.set_lease_socket(path);
    EXPECT_THAT(refused(), HasSubstr("lease_socket is `" + path));
  }
  config.clear_lease_socket();
  config.set_synthetic_only(true);
  config.set_lease_timeout_ms(5);
  EXPECT_THAT(refused(), HasSubstr("no effect without lease_socket"));
}

// The table had neither weights nor operators, and a local socket only with a
// path.
TEST(DescribeSettingsTest, HasEverySetting) {
  const auto table = [](const std::string& text) {
    const auto config = ParseServerConfig(
        text +
            " datasets { name: 'a' uri: 'lmdb:/a' } "
            "datasets { name: 'b' uri: 'lmdb:/b' weight: 2.5 }",
        "s.textproto");
    EXPECT_TRUE(config.ok()) << config.status();
    const auto settings = ResolveServerConfig(*config, kMachine);
    EXPECT_TRUE(settings.ok()) << settings.status();
    return DescribeSettings(*settings, kMachine);
  };
  const std::string plain = table("");
  EXPECT_THAT(plain, HasSubstr("local socket         abstract "));
  EXPECT_THAT(plain, HasSubstr("synthetic data       served "));
  EXPECT_THAT(plain, HasSubstr("weight               1              of dataset "
                               "a: "));
  EXPECT_THAT(plain, HasSubstr("weight               2.5            of dataset "
                               "b: "));
  EXPECT_THAT(plain, Not(HasSubstr("operators")));
  const std::string all = table(
      "local_socket: 'off' refuse_synthetic: true operators: '/o/crop.so'");
  EXPECT_THAT(all, HasSubstr("local socket         off "));
  EXPECT_THAT(all, HasSubstr("synthetic data       refused "));
  EXPECT_THAT(all, HasSubstr("operators            library        /o/crop.so"));
  EXPECT_THAT(table("local_socket: '@m'"),
              HasSubstr("local socket         @m "));
}

TEST(DescribeSettingsTest, WarnsOfABudgetThatTheMachineDoesNotHave) {
  const auto config = ParseServerConfig(
      "memory_budget_bytes: 8500000000 "
      "datasets { name: 'a' uri: 'lmdb:/a' }",
      "s.textproto");
  const auto settings = ResolveServerConfig(*config, kMachine);
  ASSERT_TRUE(settings.ok());
  EXPECT_THAT(DescribeSettings(*settings, kMachine), HasSubstr("WARNING"));
  EXPECT_THAT(BudgetWarning(*settings, kMachine),
              HasSubstr("exceed the 8 GiB that this process may use"));
  EXPECT_THAT(BudgetWarning(*settings, kMachine), HasSubstr("7.9"));
  EXPECT_EQ(BudgetWarning(*settings, {.cpus = 1, .memory_bytes = 9 * kGiB}),
            "");
}

TEST(DescribeSettingsTest, ShowsTheConnectionsThatTheLimitOfOpenFilesLeaves) {
  ServerConfig config;
  config.set_synthetic_only(true);
  Machine machine = kMachine;
  const auto table = [&] {
    const auto settings = ResolveServerConfig(config, machine);
    EXPECT_TRUE(settings.ok()) << settings.status();
    return DescribeSettings(*settings, machine);
  };
  EXPECT_THAT(table(), HasSubstr("connections          automatic "));
  machine.open_file_limit = 1024;
  machine.open_files = 3;
  EXPECT_THAT(table(), HasSubstr("connections          883 "));
  EXPECT_THAT(table(), HasSubstr("of one address     441 "));
  EXPECT_THAT(table(), HasSubstr("1024 (ulimit -n)"));
  EXPECT_THAT(table(), Not(HasSubstr("automatic ")));
  EXPECT_THAT(table(), Not(HasSubstr("WARNING")));
  machine.open_file_limit = 64;
  EXPECT_THAT(table(), HasSubstr("WARNING"));
  EXPECT_THAT(table(), HasSubstr("at most 8 connections, 4 of one address"));
  config.set_max_connections_per_peer(50);
  EXPECT_THAT(table(),
              HasSubstr("fewer than --max_connections_per_peer, which is 50"));
  config.set_max_connections(60);
  EXPECT_THAT(table(), Not(HasSubstr("WARNING")));
}

}  // namespace
}  // namespace millrace::server
