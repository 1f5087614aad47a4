// The server's configuration: read from a file, completed by the resources of
// the machine, and checked. It opens only that file.
//
//   MR_ASSIGN_OR_RETURN(ServerConfig config, ReadServerConfig("s.textproto"));
//   config.set_threads(8);                       // what flags say
//   MR_ASSIGN_OR_RETURN(ServerSettings settings,
//                       ResolveServerConfig(config, {cpus, memory_bytes}));

#ifndef MILLRACE_SERVER_CONFIG_H_
#define MILLRACE_SERVER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/config.pb.h"
#include "proto/names.h"

namespace millrace::server {

// No server takes a smaller memory budget.
inline constexpr uint64_t kMinBudgetBytes = 16 << 20;
// The smallest automatic budget of a server with leases: enough for its parts
// (server/pipeline/memory_use.h) and small batches, with one thread. A fixed
// number of threads takes more for each further one, as far as the memory of
// the machine allows.
inline constexpr uint64_t kMinLeaseBudgetBytes = 64 << 20;
inline constexpr uint64_t kLeaseBudgetBytesOfThread = 40 << 20;

// Max numbers of threads.
inline constexpr uint32_t kMaxThreads = 4096;
inline constexpr uint32_t kMaxReadThreads = 1024;
inline constexpr uint32_t kMaxInitialThreads = 512;  // of both kinds

// The resources that the process may use (common/cgroup.h).
struct Machine {
  uint32_t cpus = 1;
  uint64_t memory_bytes = 0;
  uint64_t open_file_limit = 0;  // 0: unknown
  uint64_t open_files = 0;       // now
};

// A complete configuration: 0 no longer means a default, except for limits of
// connections, which depend on the files that are open when the server listens.
struct ServerSettings {
  struct Dataset {
    std::string name;
    std::string uri;
    double weight = 1;  // of jobs on it beside jobs on others
  };
  std::string listen;
  // Names differ; none with synthetic_only alone.
  std::vector<Dataset> datasets;
  std::vector<std::string> operators;  // files
  std::string cache_dir;               // storage::OpenSourceOptions::cache_dir
  bool refuse_synthetic = false;
  uint32_t threads = 0;
  uint32_t read_threads = 0;  // may be 0
  // The numbers are initial numbers and adapt to measurements.
  bool adapt_threads = false;
  bool adapt_read_threads = false;
  // May be below kMinBudgetBytes: the sufficient budget depends on the datasets
  // (server/memory_report.h). The sizes of the caches assume at least the
  // minimum.
  uint64_t memory_budget_bytes = 0;
  uint64_t parquet_datasets = 0;
  // Part of the budget: of all Parquet datasets together, and of each.
  uint64_t row_group_cache_bytes = 0;
  uint64_t row_group_cache_bytes_each = 0;
  // Percent of the budget that they are; 0: there is no Parquet dataset.
  uint32_t row_group_cache_percent = 0;
  uint64_t folder_datasets = 0;  // image folders, and records in files
  // Part of the budget for the files and records that threads read at the same
  // time, beside the largest one of each dataset: of all of these together.
  uint64_t file_read_bytes = 0;
  absl::Duration send_timeout;
  absl::Duration admission_timeout;
  absl::Duration shutdown_grace;
  // RpcServer::Options of the same names; 0 stands for limits by open files.
  absl::Duration batch_timeout;
  absl::Duration request_timeout;
  uint64_t max_connections = 0;
  uint64_t max_connections_per_peer = 0;
  // RpcServer::Options::local_socket.
  std::optional<std::string> local_socket;
  // Where programs take leases; empty: the datasets above are served.
  std::string lease_socket;
  absl::Duration lease_timeout;
  // Where `threads` and the budget come from, for people.
  std::string threads_reason;
  std::string memory_reason;
};

// NotFound, PermissionDenied, InvalidArgument: the file cannot be read, or each
// mistake as "FILE:LINE:COLUMN: ..." with the field's name.
absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path);

// The same from text; `filename` is for messages.
absl::StatusOr<ServerConfig> ParseServerConfig(const std::string& text,
                                               const std::string& filename);

// InvalidArgument, naming the field: no dataset and no lease_socket, a name
// given twice, a number that is absurd on this machine.
absl::StatusOr<ServerSettings> ResolveServerConfig(const ServerConfig& config,
                                                   const Machine& machine);

// row_group_cache_bytes and row_group_cache_bytes_each for another budget.
uint64_t RowGroupCacheBytes(const ServerSettings& settings,
                            uint64_t memory_budget_bytes);
uint64_t RowGroupCacheBytesEach(const ServerSettings& settings,
                                uint64_t memory_budget_bytes);

// file_read_bytes for another budget.
uint64_t FileReadBytes(const ServerSettings& settings,
                       uint64_t memory_budget_bytes);

// Bytes of a budget that datasets take for what they read: row group caches and
// files of image folders.
uint64_t ReadMemoryBytes(const ServerSettings& settings,
                         uint64_t memory_budget_bytes);

// Part of a budget for the footers and lists of the datasets that leases add;
// 0 without leases.
uint64_t LeasedMetadataBytes(const ServerSettings& settings,
                             uint64_t memory_budget_bytes);

// The smallest memory budget, in whole MiB, of which that part has `bytes`.
uint64_t BudgetForLeasedMetadata(uint64_t bytes);

// A warning if the memory budget exceeds the memory that the process may use.
// Empty: it fits.
std::string BudgetWarning(const ServerSettings& settings,
                          const Machine& machine);

// The smallest memory budget, in whole MiB, with which each Parquet dataset has
// a cache of `bytes`; 0: there is none.
uint64_t BudgetForCache(const ServerSettings& settings, uint64_t bytes);

// The settings as a table for people, with warnings.
std::string DescribeSettings(const ServerSettings& settings,
                             const Machine& machine);

// Whether `name` can be a dataset's: letters, digits, _ - . and not empty.
bool IsDatasetName(absl::string_view name);

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_CONFIG_H_
