#include "server/config.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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
#include "common/status_macros.h"
#include "server/rpc/listen_address.h"

namespace millrace {
namespace {

using google::protobuf::TextFormat;

constexpr char kDefaultListen[] = "0.0.0.0:7001";
constexpr uint32_t kMaxThreads = 4096;
constexpr uint32_t kDefaultReadThreads = 32;
constexpr uint32_t kMaxReadThreads = 1024;
constexpr uint32_t kMostAdaptingThreads = 512;
constexpr uint64_t kMinBudgetBytes = 16 << 20;
constexpr uint32_t kDefaultCachePercent = 25;
constexpr uint32_t kMaxCachePercent = 90;
constexpr double kMinWeight = 0.01;
constexpr double kMaxWeight = 100;
constexpr uint32_t kMaxTimeoutMs = 24 * 3600 * 1000;
// What the system takes for a Unix socket.
constexpr size_t kMaxSocketPath = 107;
// Code, libraries, gRPC's own buffers: what comes on top of the budget.
constexpr uint64_t kOutsideBudgetBytes = 200 << 20;

// Mistakes with their places, lines and columns counted from 1.
class Mistakes : public google::protobuf::io::ErrorCollector {
 public:
  explicit Mistakes(std::string filename) : filename_(std::move(filename)) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    lines_.push_back(
        absl::StrCat(filename_, ":", line + 1, ":", column + 1, ": ", message));
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

// Each rule is written once: here, for a file (with places) and for flags.
using Report = std::function<void(const char* field, int dataset_index,
                                  const std::string& message)>;

bool IsParquet(absl::string_view uri) {
  return absl::StartsWith(uri, "parquet:");
}

void CheckConfig(const ServerConfig& config, const Report& report) {
  std::set<std::string> names;
  for (int i = 0; i < config.datasets_size(); ++i) {
    const DatasetConfig& dataset = config.datasets(i);
    if (!IsDatasetName(dataset.name())) {
      report("name", i,
             absl::StrCat("dataset name `", dataset.name(),
                          "` must be letters, digits, '_', '-' and '.'"));
    } else if (!names.insert(dataset.name()).second) {
      report("name", i,
             absl::StrCat("dataset name `", dataset.name(),
                          "` is given twice; give each dataset its own"));
    }
    const size_t colon = dataset.uri().find(':');
    if (dataset.uri().empty() && dataset.weight() != 0) {
      report("name", i,
             absl::StrCat("dataset `", dataset.name(),
                          "` has a weight and no uri; name it with "
                          "--dataset=NAME=URI, too"));
    } else if (colon == std::string::npos || colon == 0 ||
               colon + 1 == dataset.uri().size()) {
      report("uri", i,
             absl::StrCat("dataset `", dataset.name(), "` has the uri `",
                          dataset.uri(), "`; write lmdb:PATH or parquet:PATH"));
    }
  }
  for (int i = 0; i < config.datasets_size(); ++i) {
    const double weight = config.datasets(i).weight();
    if (weight == 0 || (weight >= kMinWeight && weight <= kMaxWeight)) continue;
    report("weight", i,
           absl::StrCat("dataset `", config.datasets(i).name(),
                        "` has the weight ", weight, "; write a number from ",
                        kMinWeight, " to ", kMaxWeight));
  }
  if (!config.listen().empty()) {
    const auto address = ParseListenAddress(config.listen());
    if (!address.ok()) {
      report("listen", -1, std::string(address.status().message()));
    }
  }
  if (config.threads() > kMaxThreads) {
    report("threads", -1,
           absl::StrCat("threads is ", config.threads(), ", at most ",
                        kMaxThreads, " make sense"));
  }
  if (config.read_threads() > kMaxReadThreads) {
    report("read_threads", -1,
           absl::StrCat("read_threads is ", config.read_threads(), ", at most ",
                        kMaxReadThreads, " make sense"));
  }
  const std::tuple<const char*, uint32_t, bool> initial[] = {
      {"initial_threads", config.initial_threads(), config.threads() != 0},
      {"initial_read_threads", config.initial_read_threads(),
       config.has_read_threads()},
  };
  for (const auto& [field, value, is_fixed] : initial) {
    const char* const number = field + sizeof("initial_") - 1;
    if (value > kMostAdaptingThreads) {
      report(field, -1,
             absl::StrCat(field, " is ", value, ", at most ",
                          kMostAdaptingThreads, " make sense"));
    } else if (value > 0 && is_fixed) {
      report(field, -1,
             absl::StrCat(field, " is where a number that adapts begins, but ",
                          number, " fixes it: leave one of both out"));
    }
  }
  if (config.memory_budget_bytes() != 0 &&
      config.memory_budget_bytes() < kMinBudgetBytes) {
    report("memory_budget_bytes", -1,
           absl::StrCat("memory_budget_bytes is ", config.memory_budget_bytes(),
                        " bytes, at least ", FormatByteSize(kMinBudgetBytes),
                        " is needed"));
  }
  if (config.memory_budget_bytes() > INT64_MAX) {
    report("memory_budget_bytes", -1,
           absl::StrCat("memory_budget_bytes is ", config.memory_budget_bytes(),
                        " bytes, which no machine has"));
  }
  if (config.row_group_cache_percent() > kMaxCachePercent) {
    report("row_group_cache_percent", -1,
           absl::StrCat("row_group_cache_percent is ",
                        config.row_group_cache_percent(), ", at most ",
                        kMaxCachePercent, " leaves room for batches"));
  }
  const std::pair<const char*, uint32_t> timeouts[] = {
      {"send_timeout_ms", config.send_timeout_ms()},
      {"admission_timeout_ms", config.admission_timeout_ms()},
      {"shutdown_grace_ms", config.shutdown_grace_ms()},
      {"batch_timeout_ms", config.batch_timeout_ms()},
  };
  const std::string& local = config.local_socket();
  if (!local.empty() && local != "off" &&
      (local.size() < 2 || (local[0] != '/' && local[0] != '@') ||
       local.size() > kMaxSocketPath)) {
    report("local_socket", -1,
           absl::StrCat("local_socket is `", local,
                        "`; write an absolute path or @NAME of at most ",
                        kMaxSocketPath, " bytes, or off"));
  }
  for (const auto& [field, value] : timeouts) {
    if (value > kMaxTimeoutMs) {
      report(field, -1,
             absl::StrCat(field, " is ", value, " ms, at most a day (",
                          kMaxTimeoutMs, ") makes sense"));
    }
  }
}

absl::Duration MillisOr(uint32_t ms, absl::Duration otherwise) {
  return ms == 0 ? otherwise : absl::Milliseconds(ms);
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
                      ReadTextFile(path, "the configuration"));
  return ParseServerConfig(text, path);
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         absl::string_view what) {
  std::string text;
  errno = 0;
  // Not a stream: those throw when the path is a folder.
  std::FILE* file = std::fopen(path.c_str(), "re");
  bool failed = file == nullptr;
  while (!failed) {
    char buffer[4096];
    const size_t bytes = std::fread(buffer, 1, sizeof(buffer), file);
    text.append(buffer, bytes);
    failed = std::ferror(file) != 0;
    if (bytes == 0) break;
  }
  const int reason = errno;
  if (file != nullptr) std::fclose(file);
  if (failed) {
    const std::string message = absl::StrCat("cannot read ", what, " ", path,
                                             ": ", std::strerror(reason));
    return reason == ENOENT   ? absl::NotFoundError(message)
           : reason == EACCES ? absl::PermissionDeniedError(message)
                              : absl::InvalidArgumentError(message);
  }
  return text;
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
    return absl::InvalidArgumentError(
        absl::StrCat(filename, ": this is no server configuration"));
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
        // The field's own place, or its dataset's when it is missing.
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
        "synthetic_only serves no dataset: leave it out, or the datasets");
  }
  if (config.synthetic_only() && config.refuse_synthetic()) {
    return absl::InvalidArgumentError(
        "synthetic_only and refuse_synthetic leave nothing to serve: take one "
        "of both out");
  }
  if (config.datasets_size() == 0 && !config.synthetic_only()) {
    return absl::InvalidArgumentError(
        "no dataset to serve; name one with --dataset=NAME=lmdb:PATH or "
        "--dataset=NAME=parquet:PATH, or in the file of --config");
  }
  ServerSettings settings;
  settings.listen = config.listen().empty() ? kDefaultListen : config.listen();
  uint64_t parquet = 0;
  for (const DatasetConfig& dataset : config.datasets()) {
    settings.datasets.push_back({dataset.name(), dataset.uri(),
                                 dataset.weight() == 0 ? 1 : dataset.weight()});
    parquet += IsParquet(dataset.uri());
  }
  settings.operators.assign(config.operators().begin(),
                            config.operators().end());
  settings.refuse_synthetic = config.refuse_synthetic();
  settings.threads = config.threads();
  settings.threads_reason = "as configured";
  if (settings.threads == 0) {
    settings.adapt_threads = true;
    settings.threads = config.initial_threads();
    settings.threads_reason =
        "at first; adapts to what is measured (--threads=N fixes it)";
    if (settings.threads == 0) {
      settings.threads = machine.cpus;
      settings.threads_reason =
          "at first, the CPUs that this process may use; adapts to what is "
          "measured (--threads=N fixes it)";
    }
  }
  settings.adapt_read_threads = !config.has_read_threads();
  settings.read_threads = config.has_read_threads() ? config.read_threads()
                          : config.initial_read_threads() > 0
                              ? config.initial_read_threads()
                              : kDefaultReadThreads;
  settings.memory_budget_bytes = config.memory_budget_bytes();
  settings.memory_reason = "as configured";
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
                       "; give it more memory or set --memory_budget"));
    }
  }
  if (parquet > 0) {
    const uint32_t percent = config.row_group_cache_percent() == 0
                                 ? kDefaultCachePercent
                                 : config.row_group_cache_percent();
    settings.row_group_cache_percent = percent;
    settings.row_group_cache_bytes_each =
        RowGroupCacheBytes(settings, settings.memory_budget_bytes) / parquet;
    settings.row_group_cache_bytes =
        settings.row_group_cache_bytes_each * parquet;
  }
  settings.send_timeout = MillisOr(config.send_timeout_ms(), absl::Seconds(10));
  settings.admission_timeout =
      MillisOr(config.admission_timeout_ms(), absl::Seconds(5));
  settings.shutdown_grace =
      MillisOr(config.shutdown_grace_ms(), absl::Seconds(10));
  settings.batch_timeout =
      MillisOr(config.batch_timeout_ms(), absl::Seconds(2));
  settings.max_connections = config.max_connections();
  settings.max_connections_per_peer = config.max_connections_per_peer();
  if (config.local_socket() != "off") {
    settings.local_socket = config.local_socket();
  }
  return settings;
}

uint64_t RowGroupCacheBytes(const ServerSettings& settings,
                            uint64_t memory_budget_bytes) {
  return memory_budget_bytes / 100 * settings.row_group_cache_percent;
}

uint64_t BudgetForCache(const ServerSettings& settings, uint64_t bytes) {
  constexpr uint64_t kMiB = 1 << 20;
  const uint64_t each = settings.row_group_cache_bytes_each;
  const uint64_t percent = settings.row_group_cache_percent;
  // No machine has more.
  constexpr uint64_t kMaxBytes = uint64_t{1} << 50;
  if (each == 0 || percent == 0 || bytes > kMaxBytes) return 0;
  const uint64_t datasets = settings.row_group_cache_bytes / each;
  // As RowGroupCacheBytes() divides.
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
  line("listen", settings.listen, "");
  line("threads", absl::StrCat(settings.threads), settings.threads_reason);
  line("read threads", absl::StrCat(settings.read_threads),
       settings.read_threads == 0
           ? "none: the threads that decode wait for storage"
       : settings.adapt_read_threads
           ? "at first, while storage makes somebody wait; adapts to what is "
             "measured (--read_threads=N fixes it)"
           : "at most, while storage makes somebody wait");
  line("memory budget", FormatByteSize(budget), settings.memory_reason);
  if (settings.row_group_cache_bytes > 0) {
    line("  row group cache", FormatByteSize(settings.row_group_cache_bytes),
         "at most, decoded Parquet row groups");
  }
  line("  batches, scratch",
       FormatByteSize(budget - settings.row_group_cache_bytes), "at least");
  line("expected memory", FormatByteSize(budget + kOutsideBudgetBytes),
       absl::StrCat("at most: the budget and ",
                    FormatByteSize(kOutsideBudgetBytes),
                    " for code, libraries and gRPC; pages of LMDB files are "
                    "the kernel's and not counted"));
  if (budget + kOutsideBudgetBytes > machine.memory_bytes) {
    line("WARNING", "",
         absl::StrCat("this process may use ",
                      FormatByteSize(machine.memory_bytes),
                      " only: it may be killed for want of memory"));
  }
  line("send timeout", absl::FormatDuration(settings.send_timeout), "");
  line("admission timeout", absl::FormatDuration(settings.admission_timeout),
       "");
  line("shutdown grace", absl::FormatDuration(settings.shutdown_grace), "");
  line("batch timeout", absl::FormatDuration(settings.batch_timeout),
       "while others wait for memory");
  const auto connections = [&line](absl::string_view name, uint64_t limit) {
    line(name, limit == 0 ? "by open files" : absl::StrCat(limit), "at most");
  };
  connections("connections", settings.max_connections);
  connections("  of one address", settings.max_connections_per_peer);
  if (settings.local_socket.has_value() && !settings.local_socket->empty()) {
    line("local socket", *settings.local_socket, "");
  }
  return out;
}

}  // namespace millrace
