#include "server/config.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/byte_size.h"
#include "common/clean_text.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "server/outside_budget.h"
#include "server/rpc/listen_address.h"
#include "server/rpc/open_connections.h"
#include "server/storage/schemes.h"

namespace millrace::server {
namespace {

using google::protobuf::TextFormat;

constexpr char kDefaultListen[] = "0.0.0.0:7001";
// Of a server with leases: only this machine's programs use it.
constexpr char kDefaultLeaseListen[] = "127.0.0.1:0";
// Parquet datasets of a server with leases that can be open at the same time:
// each has this part of the cache of row groups. A choice.
constexpr uint64_t kLeasedParquetDatasets = 4;
// The same for image folders and the memory for files that are read.
constexpr uint64_t kLeasedFolders = 4;
// The part of the budget for footers of the datasets that leases add. A choice.
constexpr uint64_t kLeasedMetadataShare = 8;
// Part of the budget for files of image folders that are read at the same time,
// and its upper bound: files of 1 MiB on the max number of read threads. A
// choice.
constexpr uint64_t kFileReadShare = 16;
constexpr uint64_t kMaxFileReadBytes = uint64_t{1} << 30;
constexpr uint32_t kDefaultReadThreads = 32;
constexpr uint32_t kDefaultCachePercent = 25;
constexpr uint32_t kMaxCachePercent = 90;
constexpr double kMinWeight = 0.01;
constexpr double kMaxWeight = 100;
constexpr uint32_t kMaxTimeoutMs = 24 * 3600 * 1000;
// Max length of a Unix socket's path in the system.
constexpr size_t kMaxSocketPath = 107;
// Descriptors of gRPC, the sockets and the accept loop.
constexpr uint64_t kServerFiles = 10;

// A time limit of the configuration, in milliseconds, that has a default.
struct Timeout {
  const char* field;
  bool (ServerConfig::*is_set)() const;
  uint32_t (ServerConfig::*milliseconds)() const;
  uint32_t default_ms;
  absl::Duration ServerSettings::*setting;
};

constexpr Timeout kTimeouts[] = {
    {"send_timeout_ms", &ServerConfig::has_send_timeout_ms,
     &ServerConfig::send_timeout_ms, 10'000, &ServerSettings::send_timeout},
    {"admission_timeout_ms", &ServerConfig::has_admission_timeout_ms,
     &ServerConfig::admission_timeout_ms, 5'000,
     &ServerSettings::admission_timeout},
    {"shutdown_grace_ms", &ServerConfig::has_shutdown_grace_ms,
     &ServerConfig::shutdown_grace_ms, 10'000, &ServerSettings::shutdown_grace},
    {"batch_timeout_ms", &ServerConfig::has_batch_timeout_ms,
     &ServerConfig::batch_timeout_ms, 2'000, &ServerSettings::batch_timeout},
    {"request_timeout_ms", &ServerConfig::has_request_timeout_ms,
     &ServerConfig::request_timeout_ms, 30'000,
     &ServerSettings::request_timeout},
    {"lease_timeout_ms", &ServerConfig::has_lease_timeout_ms,
     &ServerConfig::lease_timeout_ms, 10'000, &ServerSettings::lease_timeout},
};

// Of a message, which may quote a value of any length and bytes.
constexpr size_t kMaxMistakeBytes = 2000;

// Collects mistakes with their places. Lines and columns are counted from 1.
class Mistakes : public google::protobuf::io::ErrorCollector {
 public:
  explicit Mistakes(std::string filename) : filename_(std::move(filename)) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    lines_.push_back(absl::StrCat(filename_, ":", line + 1, ":", column + 1,
                                  ": ", CleanText(message, kMaxMistakeBytes)));
  }
  void AddAt(const TextFormat::ParseLocation& at, const std::string& message) {
    AddError(at.line, at.column, message);
  }
  bool empty() const { return lines_.empty(); }
  absl::Status ToStatus() const {
    return absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
  }

 private:
  const std::string filename_;
  std::vector<std::string> lines_;
};

// Each rule is written once, for files (with places) and for flags.
using Report = std::function<void(const char* field, int dataset_index,
                                  const std::string& message)>;

// Whether the dataset may need a part of the cache of decoded row groups: Arrow
// files do where they are compressed.
bool UsesCache(absl::string_view uri) {
  return absl::StartsWith(uri, "parquet:") || absl::StartsWith(uri, "arrow:");
}

void CheckConfig(const ServerConfig& config, const Report& report) {
  const auto bad = [&report](const char* field, int dataset,
                             const auto&... words) {
    report(field, dataset, CleanText(absl::StrCat(words...), kMaxMistakeBytes));
  };
  const auto at_most = [&bad](const char* field, uint64_t value, uint64_t max,
                              absl::string_view why = "") {
    if (value > max) {
      bad(field, -1, field, " is ", value, "; the maximum is ", max, why);
    }
  };
  std::set<std::string> names;
  for (int i = 0; i < config.datasets_size(); ++i) {
    const DatasetConfig& dataset = config.datasets(i);
    if (!IsDatasetName(dataset.name())) {
      bad("name", i, "dataset name `", dataset.name(),
          "` must consist of letters, digits, '_', '-' and '.'");
    } else if (!names.insert(dataset.name()).second) {
      bad("name", i, "dataset name `", dataset.name(),
          "` is given twice; give each dataset its own name");
    }
    const size_t colon = dataset.uri().find(':');
    if (dataset.uri().empty() && dataset.has_weight()) {
      bad("name", i, "dataset `", dataset.name(),
          "` has a weight and no uri; add the uri with --dataset=NAME=URI, or "
          "in the file of --config");
    } else if (colon == std::string::npos || colon == 0 ||
               colon + 1 == dataset.uri().size()) {
      bad("uri", i, "dataset `", dataset.name(), "` has the uri `",
          dataset.uri(), "`; write ", storage::SchemesText("PATH"));
    }
  }
  for (int i = 0; i < config.datasets_size(); ++i) {
    if (!config.datasets(i).has_weight()) continue;
    const double weight = config.datasets(i).weight();
    if (weight >= kMinWeight && weight <= kMaxWeight) continue;
    bad("weight", i, "dataset `", config.datasets(i).name(),
        "` has the weight ", weight, "; write a number from ", kMinWeight,
        " to ", kMaxWeight, " (default 1)");
  }
  if (!config.listen().empty()) {
    const auto address = rpc::ParseListenAddress(config.listen());
    if (!address.ok()) bad("listen", -1, address.status().message());
  }
  at_most("threads", config.threads(), kMaxThreads);
  at_most("read_threads", config.read_threads(), kMaxReadThreads);
  const std::tuple<const char*, uint32_t, bool> initial[] = {
      {"initial_threads", config.initial_threads(), config.threads() != 0},
      {"initial_read_threads", config.initial_read_threads(),
       config.has_read_threads()},
  };
  for (const auto& [field, value, is_fixed] : initial) {
    at_most(field, value, kMaxInitialThreads);
    if (value > 0 && value <= kMaxInitialThreads && is_fixed) {
      bad(field, -1, field, " and ", field + sizeof("initial_") - 1,
          " cannot be used together, because ", field + sizeof("initial_") - 1,
          " fixes the number: remove one of them");
    }
  }
  if (config.memory_budget_bytes() > INT64_MAX) {
    bad("memory_budget_bytes", -1, "the memory budget is ",
        config.memory_budget_bytes(),
        " bytes, more than any machine has: lower memory_budget_bytes "
        "(--memory_budget)");
  }
  at_most("row_group_cache_percent", config.row_group_cache_percent(),
          kMaxCachePercent, ", because batches need the rest");
  if (config.has_row_group_cache_percent() &&
      config.row_group_cache_percent() == 0) {
    bad("row_group_cache_percent", -1,
        "row_group_cache_percent is 0: it must be 1 .. ", kMaxCachePercent,
        ", or left out for ", kDefaultCachePercent,
        "; Parquet datasets cannot be read without a cache");
  }
  if (config.max_connections() != 0 &&
      config.max_connections_per_peer() > config.max_connections()) {
    bad("max_connections_per_peer", -1, "max_connections_per_peer is ",
        config.max_connections_per_peer(), ", above max_connections, which is ",
        config.max_connections(), ": lower the first or raise the second");
  }
  const std::string& lease = config.lease_socket();
  if (!lease.empty() &&
      (lease.size() < 2 || (lease[0] != '/' && lease[0] != '@') ||
       lease.size() > kMaxSocketPath)) {
    bad("lease_socket", -1, "lease_socket is `", lease,
        "`; write an absolute path or @NAME of at most ", kMaxSocketPath,
        " bytes");
  }
  if (lease.empty() && config.has_lease_timeout_ms()) {
    bad("lease_timeout_ms", -1,
        "lease_timeout_ms has no effect without lease_socket: set "
        "--lease_socket, or remove --lease_timeout");
  }
  const std::string& local = config.local_socket();
  if (!local.empty() && local != "off" &&
      (local.size() < 2 || (local[0] != '/' && local[0] != '@') ||
       local.size() > kMaxSocketPath)) {
    bad("local_socket", -1, "local_socket is `", local,
        "`; write an absolute path or @NAME of at most ", kMaxSocketPath,
        " bytes, or off");
  }
  for (const Timeout& timeout : kTimeouts) {
    const uint32_t value = (config.*timeout.milliseconds)();
    at_most(timeout.field, value, kMaxTimeoutMs, " (one day)");
    if ((config.*timeout.is_set)() && value == 0) {
      bad(timeout.field, -1, timeout.field, " is 0: it must be 1 .. ",
          kMaxTimeoutMs, " (one day), or left out for ", timeout.default_ms);
    }
  }
}

// What is left of `bytes` for the memory budget.
uint64_t WithoutProgram(uint64_t bytes) {
  return bytes - std::min(bytes, kOutsideBudgetBytes);
}

// The smallest automatic budget of a server with leases. A number of threads
// that adapts becomes smaller instead.
uint64_t MinLeaseBudget(const ServerSettings& settings,
                        const Machine& machine) {
  const uint64_t more_threads =
      settings.adapt_threads ? 0 : uint64_t{settings.threads} - 1;
  return std::clamp(
      kMinLeaseBudgetBytes + more_threads * kLeaseBudgetBytesOfThread,
      kMinLeaseBudgetBytes,
      std::max(kMinLeaseBudgetBytes, WithoutProgram(machine.memory_bytes)));
}

}  // namespace

bool IsDatasetName(absl::string_view name) {
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') {
      return false;
    }
  }
  return !name.empty();
}

absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, kMaxTextFileBytes, "the configuration"));
  return ParseServerConfig(text, path);
}

absl::StatusOr<ServerConfig> ParseServerConfig(const std::string& text,
                                               const std::string& filename) {
  Mistakes mistakes(filename);
  TextFormat::ParseInfoTree places;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistakes);
  parser.WriteLocationsTo(&places);
  ServerConfig config;
  const bool parsed = parser.ParseFromString(text, &config);
  if (!mistakes.empty()) return mistakes.ToStatus();
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat(
        filename,
        ": the file is not a server configuration (proto/config.proto)"));
  }
  CheckConfig(
      config, [&](const char* field, int index, const std::string& message) {
        const auto* top = ServerConfig::descriptor();
        const auto* datasets =
            top->FindFieldByNumber(ServerConfig::kDatasetsFieldNumber);
        if (index < 0) {
          mistakes.AddAt(places.GetLocation(top->FindFieldByName(field), -1),
                         message);
          return;
        }
        // The place of the field, or that of its dataset if the field is
        // missing.
        TextFormat::ParseLocation at = places.GetLocation(datasets, index);
        if (auto* tree = places.GetTreeForNested(datasets, index)) {
          const TextFormat::ParseLocation inner = tree->GetLocation(
              DatasetConfig::descriptor()->FindFieldByName(field), -1);
          if (inner.line >= 0) at = inner;
        }
        mistakes.AddAt(at, message);
      });
  if (!mistakes.empty()) return mistakes.ToStatus();
  return config;
}

absl::StatusOr<ServerSettings> ResolveServerConfig(const ServerConfig& config,
                                                   const Machine& machine) {
  std::vector<std::string> mistakes;
  CheckConfig(config, [&](const char*, int, const std::string& message) {
    mistakes.push_back(message);
  });
  if (!mistakes.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(mistakes, "\n"));
  }
  if (config.synthetic_only() && config.datasets_size() > 0) {
    return absl::InvalidArgumentError(
        "synthetic_only serves no dataset: remove synthetic_only "
        "(--synthetic_only) or the datasets");
  }
  if (config.synthetic_only() && config.refuse_synthetic()) {
    return absl::InvalidArgumentError(
        "synthetic_only and refuse_synthetic cannot be used together: remove "
        "one of them (--synthetic_only, --refuse_synthetic)");
  }
  const bool leases = !config.lease_socket().empty();
  if (leases && (config.datasets_size() > 0 || config.synthetic_only())) {
    return absl::InvalidArgumentError(
        "with lease_socket, programs name the datasets: remove the datasets "
        "and synthetic_only (--dataset, --synthetic_only), or lease_socket");
  }
  if (config.datasets_size() == 0 && !config.synthetic_only() && !leases) {
    return absl::InvalidArgumentError(
        absl::StrCat("no dataset to serve; name one with ",
                     storage::SchemesText("PATH", "--dataset=NAME="),
                     ", or in the file of --config"));
  }
  ServerSettings settings;
  settings.listen = !config.listen().empty() ? config.listen()
                    : leases                 ? kDefaultLeaseListen
                                             : kDefaultListen;
  settings.lease_socket = config.lease_socket();
  uint64_t parquet = leases ? kLeasedParquetDatasets : 0;
  settings.folder_datasets = leases ? kLeasedFolders : 0;
  for (const DatasetConfig& dataset : config.datasets()) {
    settings.datasets.push_back({dataset.name(), dataset.uri(),
                                 dataset.has_weight() ? dataset.weight() : 1});
    parquet += UsesCache(dataset.uri());
    settings.folder_datasets += storage::ReadsFiles(dataset.uri());
  }
  settings.operators.assign(config.operators().begin(),
                            config.operators().end());
  settings.cache_dir = config.cache_dir();
  settings.refuse_synthetic = config.refuse_synthetic();
  settings.threads = config.threads();
  settings.threads_reason = "as configured";
  if (settings.threads == 0) {
    settings.adapt_threads = true;
    settings.threads = config.initial_threads();
    settings.threads_reason =
        "initial number, adjusted automatically to the load (--threads=N fixes "
        "it)";
    if (settings.threads == 0) {
      settings.threads = machine.cpus;
      settings.threads_reason =
          "initially one for each CPU that this process may use, adjusted "
          "automatically to the load (--threads=N fixes it)";
    }
  }
  settings.adapt_read_threads = !config.has_read_threads();
  settings.read_threads = config.has_read_threads() ? config.read_threads()
                          : config.initial_read_threads() > 0
                              ? config.initial_read_threads()
                              : kDefaultReadThreads;
  settings.memory_budget_bytes = config.memory_budget_bytes();
  settings.memory_reason = "as configured";
  if (settings.memory_budget_bytes == 0 && leases) {
    // The program of the user needs the machine, too.
    const uint64_t quarter = WithoutProgram(machine.memory_bytes / 4);
    const uint64_t minimum = MinLeaseBudget(settings, machine);
    settings.memory_budget_bytes = std::max(quarter, minimum);
    settings.memory_reason = absl::StrCat(
        "a quarter of the ", FormatByteSize(machine.memory_bytes),
        " that this process may use, less the program itself, minimum ",
        FormatByteSize(minimum));
  }
  if (settings.memory_budget_bytes == 0) {
    settings.memory_budget_bytes = machine.memory_bytes / 2;
    settings.memory_reason =
        absl::StrCat("half of the ", FormatByteSize(machine.memory_bytes),
                     " that this process may use");
    if (settings.memory_budget_bytes < kMinBudgetBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("half of the ", FormatByteSize(machine.memory_bytes),
                       " that this process may use is below ",
                       FormatByteSize(kMinBudgetBytes),
                       "; give the process more memory, or set "
                       "--memory_budget"));
    }
  }
  if (parquet > 0) {
    const uint32_t percent = config.has_row_group_cache_percent()
                                 ? config.row_group_cache_percent()
                                 : kDefaultCachePercent;
    settings.parquet_datasets = parquet;
    settings.row_group_cache_percent = percent;
    settings.row_group_cache_bytes = RowGroupCacheBytes(
        settings, std::max(settings.memory_budget_bytes, kMinBudgetBytes));
    settings.row_group_cache_bytes_each =
        settings.row_group_cache_bytes / parquet;
  }
  settings.file_read_bytes = FileReadBytes(
      settings, std::max(settings.memory_budget_bytes, kMinBudgetBytes));
  for (const Timeout& timeout : kTimeouts) {
    settings.*timeout.setting = absl::Milliseconds(
        (config.*timeout.is_set)() ? (config.*timeout.milliseconds)()
                                   : timeout.default_ms);
  }
  settings.max_connections = config.max_connections();
  settings.max_connections_per_peer = config.max_connections_per_peer();
  if (config.local_socket() != "off") {
    settings.local_socket = config.local_socket();
  }
  return settings;
}

uint64_t RowGroupCacheBytes(const ServerSettings& settings,
                            uint64_t memory_budget_bytes) {
  return settings.parquet_datasets *
         RowGroupCacheBytesEach(settings, memory_budget_bytes);
}

uint64_t RowGroupCacheBytesEach(const ServerSettings& settings,
                                uint64_t memory_budget_bytes) {
  if (settings.parquet_datasets == 0) return 0;
  return memory_budget_bytes / 100 * settings.row_group_cache_percent /
         settings.parquet_datasets;
}

uint64_t FileReadBytes(const ServerSettings& settings,
                       uint64_t memory_budget_bytes) {
  if (settings.folder_datasets == 0) return 0;
  return std::min(memory_budget_bytes / kFileReadShare, kMaxFileReadBytes);
}

uint64_t ReadMemoryBytes(const ServerSettings& settings,
                         uint64_t memory_budget_bytes) {
  return RowGroupCacheBytes(settings, memory_budget_bytes) +
         FileReadBytes(settings, memory_budget_bytes);
}

uint64_t LeasedMetadataBytes(const ServerSettings& settings,
                             uint64_t memory_budget_bytes) {
  if (settings.lease_socket.empty()) return 0;
  return memory_budget_bytes / kLeasedMetadataShare;
}

uint64_t BudgetForLeasedMetadata(uint64_t bytes) {
  constexpr uint64_t kMiB = 1 << 20;
  return (bytes * kLeasedMetadataShare + kMiB - 1) / kMiB * kMiB;
}

std::string BudgetWarning(const ServerSettings& settings,
                          const Machine& machine) {
  const uint64_t expected = settings.memory_budget_bytes + kOutsideBudgetBytes;
  if (expected <= machine.memory_bytes) return "";
  return absl::StrCat("the memory budget of ",
                      FormatByteSize(settings.memory_budget_bytes), " and ",
                      FormatByteSize(kOutsideBudgetBytes),
                      " for the program itself exceed the ",
                      FormatByteSize(machine.memory_bytes),
                      " that this process may use: the system may kill the "
                      "process; lower --memory_budget");
}

uint64_t BudgetForCache(const ServerSettings& settings, uint64_t bytes) {
  constexpr uint64_t kMiB = 1 << 20;
  const uint64_t datasets = settings.parquet_datasets;
  const uint64_t percent = settings.row_group_cache_percent;
  // Larger than the memory of any machine.
  constexpr uint64_t kMaxBytes = uint64_t{1} << 50;
  if (datasets == 0 || bytes > kMaxBytes) return 0;
  // The inverse of RowGroupCacheBytesEach().
  const uint64_t budget = (bytes * datasets + percent - 1) / percent * 100;
  return (budget + kMiB - 1) / kMiB * kMiB;
}

std::string DescribeSettings(const ServerSettings& settings,
                             const Machine& machine) {
  std::string out;
  const auto line = [&out](absl::string_view name, absl::string_view value,
                           absl::string_view why) {
    absl::StrAppendFormat(&out, "%-20s %-14s %s\n", name, value, why);
  };
  const uint64_t budget = settings.memory_budget_bytes;
  line("SETTING", "VALUE", "MEANING");
  line("listen", settings.listen, "address and port for clients");
  line("threads", absl::StrCat(settings.threads),
       absl::StrCat("decode and augment; ", settings.threads_reason));
  line("read threads", absl::StrCat(settings.read_threads),
       settings.read_threads == 0
           ? "none: the worker threads read and wait for storage themselves"
       : settings.adapt_read_threads
           ? "wait for storage when reads block; initial number, adjusted "
             "automatically to the load (--read_threads=N fixes it)"
           : "wait for storage when reads block; as configured");
  line("memory budget", FormatByteSize(budget), settings.memory_reason);
  if (settings.row_group_cache_bytes > 0) {
    line("  row group cache", FormatByteSize(settings.row_group_cache_bytes),
         "maximum, for decoded Parquet row groups and Arrow batches");
  }
  if (settings.file_read_bytes > 0) {
    line("  file reads", FormatByteSize(settings.file_read_bytes),
         "for files of image folders and records in files while they are read");
  }
  line("  batches, scratch",
       FormatByteSize(budget - std::min(budget, settings.row_group_cache_bytes +
                                                    settings.file_read_bytes)),
       "minimum, for batches and decoding");
  if (settings.folder_datasets > 0) {
    line("cache folder",
         settings.cache_dir.empty() ? "default" : settings.cache_dir,
         "indexes of image folders and of records in files; default: "
         "$XDG_CACHE_HOME/millrace, otherwise ~/.cache/millrace");
  }
  line("expected memory", FormatByteSize(budget + kOutsideBudgetBytes),
       absl::StrCat("maximum: the budget and ",
                    FormatByteSize(kOutsideBudgetBytes),
                    " for code, libraries and gRPC; the kernel's pages of LMDB "
                    "files are not counted"));
  if (const std::string warning = BudgetWarning(settings, machine);
      !warning.empty()) {
    line("WARNING", "", warning);
  }
  line("send timeout", absl::FormatDuration(settings.send_timeout),
       "maximum time that a call waits for a client that reads nothing");
  line("admission timeout", absl::FormatDuration(settings.admission_timeout),
       "maximum time that a batch waits for memory");
  line("shutdown grace", absl::FormatDuration(settings.shutdown_grace),
       "maximum time for calls in flight to finish after SIGTERM");
  line("batch timeout", absl::FormatDuration(settings.batch_timeout),
       "maximum age of an unsent batch while other batches wait for memory");
  line("request timeout", absl::FormatDuration(settings.request_timeout),
       "maximum time between the start of a request and its end");
  const rpc::ConnectionLimits asked = {
      .total = settings.max_connections,
      .per_peer = settings.max_connections_per_peer};
  const rpc::ConnectionLimits limits = rpc::DefaultConnectionLimits(
      machine.open_file_limit, machine.open_files + kServerFiles, asked);
  const auto connections = [&](absl::string_view name, uint64_t set,
                               uint64_t limit, absl::string_view otherwise) {
    if (set > 0) return line(name, absl::StrCat(set), "maximum");
    line(name,
         limits.open_files > 0 && machine.open_file_limit == 0
             ? "automatic"
             : absl::StrCat(limit),
         absl::StrCat("maximum: ", otherwise));
  };
  connections("connections", asked.total, limits.total,
              machine.open_file_limit == 0
                  ? "follows from the limit of open files"
                  : absl::StrCat("follows from the limit of open files, ",
                                 machine.open_file_limit,
                                 " (ulimit -n); may be a few less when the "
                                 "server listens"));
  connections("  of one address", asked.per_peer, limits.per_peer,
              "half of the connections");
  if (const std::string warning = rpc::ConnectionsWarning(limits);
      machine.open_file_limit > 0 && !warning.empty()) {
    line("WARNING", "", warning);
  }
  line("local socket",
       !settings.local_socket.has_value() ? "off"
       : settings.local_socket->empty()   ? "abstract"
                                          : *settings.local_socket,
       settings.local_socket.has_value()
           ? "for clients on this machine, which receive batches in shared "
             "memory; abstract: a unique name in the abstract namespace"
           : "clients on this machine receive batches over the network");
  if (!settings.lease_socket.empty()) {
    line("lease socket", settings.lease_socket,
         "where programs of this user name the datasets to serve");
    line("lease timeout", absl::FormatDuration(settings.lease_timeout),
         "time without a lease after which the server ends");
  }
  line("synthetic data",
       settings.refuse_synthetic                                    ? "refused"
       : settings.datasets.empty() && settings.lease_socket.empty() ? "alone"
                                                                    : "served",
       "for requests that need no dataset, such as millrace bench --synthetic");
  for (const ServerSettings::Dataset& dataset : settings.datasets) {
    line("weight", absl::StrCat(dataset.weight),
         absl::StrCat("of dataset ", dataset.name,
                      ": its part of the worker threads' time while jobs on "
                      "several datasets compete"));
  }
  for (const std::string& file : settings.operators) {
    line("operators", "library", CleanText(file, kMaxMistakeBytes));
  }
  return out;
}

}  // namespace millrace::server
