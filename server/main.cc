// millrace-server: parses flags, reads the configuration, opens the datasets,
// starts the engine and gRPC, and waits for a signal. With --lease_socket, the
// programs that hold leases name the datasets, and the server also ends after
// the last lease.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_budget.h"
#include "common/byte_size.h"
#include "common/cgroup.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/cpu_check.h"
#include "common/log_level.h"
#include "common/logging.h"
#include "common/malloc_tuning.h"
#include "common/program/exit_code.h"
#include "common/standard_output.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "common/version.h"
#include "proto/config.pb.h"
#include "proto/library_logs.h"
#include "proto/read_spec.h"
#include "proto/wire/version.h"
#include "server/budget_advice.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/file_limit.h"
#include "server/lease/lease_server.h"
#include "server/memory_report.h"
#include "server/opening_advice.h"
#include "server/operators/operator_ref.h"
#include "server/operators/operators.h"
#include "server/pipeline/engine.h"
#include "server/plan/content_revision.h"
#include "server/port_file.h"
#include "server/rpc/rpc_server.h"
#include "server/storage/dataset_files.h"
#include "server/storage/memory/array_source.h"
#include "server/storage/open.h"
#include "server/storage/schemes.h"

namespace millrace::server {
namespace {

// A dataset whose footers, or whose list of files, take more than this part of
// the budget cause a warning.
constexpr uint64_t kLargeFootersShare = 8;
// Max time that the end of the server waits for datasets that are being opened.
constexpr absl::Duration kOpeningGrace = absl::Seconds(1);

// A configuration error may have several lines. Other messages may contain text
// from files of the datasets.
int Fail(const absl::Status& status) {
  const std::string text(status.message());
  absl::FPrintF(stderr, "millrace-server: %s\n",
                IsUsageError(status) ? text : CleanText(text, kMaxLogBytes));
  return program::ExitCode(status);
}

// The setting that gives each Parquet dataset a cache of `bytes`.
std::string CacheAdvice(const ServerSettings& settings, uint64_t bytes) {
  const uint64_t budget = BudgetForCache(settings, bytes);
  if (budget == 0) return "";
  return absl::StrCat(
      "give the server --memory_budget=", budget >> 20,
      "MiB or more (row_group_cache_percent in the configuration is ",
      settings.row_group_cache_percent, ")");
}

// The setting that is large enough for datasets whose footers take `bytes`.
std::string FooterAdvice(const ServerSettings& settings,
                         const pipeline::Engine::Options& engine,
                         uint64_t bytes) {
  const uint64_t budget = BudgetForFooters(settings, engine, bytes);
  return budget == 0
             ? ""
             : absl::StrCat("give the server --memory_budget=", budget >> 20,
                            "MiB or more");
}

// A glob may combine train/ and val/ into one dataset.
void WarnOfFiles(const ServerSettings::Dataset& dataset) {
  const absl::StatusOr<storage::DatasetFiles> files =
      storage::FindDatasetFiles(dataset.uri);
  if (!files.ok()) return;  // removed in the meantime
  for (const std::string& warning : files->Warnings()) {
    MR_LOG(WARNING) << "dataset " << dataset.name << " (" << dataset.uri
                    << "): " << warning;
  }
}

// Footers and lists of files take memory while the server runs, whatever is
// read.
void WarnOfFooters(const ServerSettings::Dataset& dataset,
                   const DatasetInfo& info, uint64_t bytes, uint64_t budget) {
  if (bytes <= budget / kLargeFootersShare) return;
  MR_LOG(WARNING) << "dataset " << dataset.name << " (" << dataset.uri << "): "
                  << (info.format() == "parquet"
                          ? "the footers of its Parquet files use "
                      : info.format() == "arrow"
                          ? "the schemas of its Arrow files and the lists of "
                            "their record batches use "
                      : info.format() == "imagefolder"
                          ? "the list of its files and its largest file use "
                          : "its index and its largest record use ")
                  << FormatByteSize(bytes) << " of the memory budget of "
                  << FormatByteSize(budget)
                  << (info.format() == "parquet"
                          ? "; files with larger row groups or fewer columns "
                            "use less"
                      : info.format() == "arrow"
                          ? "; files with larger record batches use less"
                          : "; a packed dataset needs none");
}

// Parts of the budget for what datasets hold.
struct ReadBudgets {
  ByteBudget caches;   // decoded row groups
  ByteBudget files;    // of image folders, while they are read
  ByteBudget footers;  // of Parquet files; lists of image folders
  // The same while a lease looks at a dataset that is open: the second program
  // of a job needs no memory of the budget. What is open fits into a budget of
  // the size of `footers`, and so does another look at it.
  ByteBudget looks;
};

// `engine`: the options of the server's engine. All must outlive the sources.
storage::OpenSourceOptions SourceOptions(
    const ServerSettings& settings, const operators::Operators& operators,
    const pipeline::Engine::Options& engine, ReadBudgets* budgets) {
  return {
      .cache_budget = &budgets->caches,
      .cache_bytes = settings.row_group_cache_bytes_each,
      .cache_advice =
          [&settings](uint64_t bytes) { return CacheAdvice(settings, bytes); },
      .metadata_budget = &budgets->footers,
      .metadata_advice =
          [&settings, &engine, budgets](uint64_t bytes, const DatasetInfo*) {
            const uint64_t all = budgets->footers.used() + bytes;
            if (settings.lease_socket.empty()) {
              return FooterAdvice(settings, engine, all);
            }
            return absl::StrCat("give the server --memory_budget=",
                                BudgetForLeasedMetadata(all) >> 20,
                                "MiB or more");
          },
      .read_budget = &budgets->files,
      .read_bytes = settings.file_read_bytes /
                    std::max<uint64_t>(1, settings.folder_datasets),
      .cache_dir = settings.cache_dir,
      .operators = &operators};
}

// `engine`: as for SourceOptions().
absl::StatusOr<pipeline::DatasetCatalog> OpenDatasets(
    const ServerSettings& settings, const pipeline::Engine::Options& engine,
    const storage::OpenSourceOptions& sources) {
  const OpeningAdvice advice(settings, engine, sources);
  pipeline::DatasetCatalog catalog;
  for (const ServerSettings::Dataset& dataset : settings.datasets) {
    storage::OpenSourceOptions options = sources;
    // What a folder holds is known without its list, so that the smallest
    // budget can be named. Of Parquet files it is not.
    if (storage::ReadsFiles(dataset.uri)) {
      options.metadata_advice = [&](uint64_t bytes, const DatasetInfo* known) {
        return advice.Sentence(catalog, dataset.name, bytes, known);
      };
    }
    absl::StatusOr<std::unique_ptr<storage::RecordSource>> source =
        storage::OpenRecordSource(dataset.uri, options);
    if (!source.ok()) {
      absl::Status failed(
          source.status().code(),
          absl::StrCat("cannot serve dataset ", dataset.name, " (", dataset.uri,
                       "): ", source.status().message()));
      return IsUsageError(source.status()) ? UsageError(failed) : failed;
    }
    WarnOfFooters(dataset, (*source)->info(), (*source)->metadata_bytes(),
                  settings.memory_budget_bytes);
    catalog[dataset.name] = *std::move(source);
    WarnOfFiles(dataset);
  }
  return catalog;
}

std::string DescribeDatasets(const pipeline::DatasetCatalog& catalog) {
  if (catalog.empty()) return "";
  std::string text =
      absl::StrFormat("\n%-20s %-14s %s\n", "DATASET", "FORMAT", "CONTENT");
  for (const auto& [name, source] : catalog) {
    const DatasetInfo& info = source->info();
    absl::StrAppendFormat(&text, "%-20s %-14s %s, %s, fingerprint %s\n", name,
                          info.format(), CountText(info.samples(), "sample"),
                          CountText(info.shards_size(), "shard"),
                          info.fingerprint());
  }
  return text;
}

std::map<std::string, double> WeightsOf(const ServerSettings& settings) {
  std::map<std::string, double> weights;
  for (const ServerSettings::Dataset& dataset : settings.datasets) {
    weights[dataset.name] = dataset.weight;
  }
  return weights;
}

std::string DescribeOperators(const operators::Operators& operators) {
  if (operators.List().empty()) return "";
  std::string text =
      absl::StrFormat("\n%-20s %-14s %s\n", "OPERATOR", "VERSION", "FILE");
  for (const operators::Operators::Entry& entry : operators.List()) {
    absl::StrAppendFormat(&text, "%-20s %-14s %s, library %s\n",
                          absl::StrCat(entry.kind, " ", entry.ref.name()),
                          entry.ref.version(), entry.file,
                          entry.ref.library_hash());
  }
  return text;
}

// The pipeline of --check_pipeline; none if the flag is not given.
absl::StatusOr<std::optional<PipelineSpec>> ReadCheckPipeline(
    const ServerCommandLine& line, const pipeline::DatasetCatalog& catalog) {
  if (line.check_pipeline.empty()) return std::nullopt;
  MR_ASSIGN_OR_RETURN(PipelineSpec spec, ReadSpecFile(line.check_pipeline));
  // A pipeline file names no dataset if the program has a flag for it.
  if (spec.sources().empty() && catalog.size() == 1) {
    spec.add_sources()->set_dataset(catalog.begin()->first);
  }
  return spec;
}

// The memory of batches of the datasets' presets, and of the named pipeline.
absl::StatusOr<std::string> DescribeAllBatches(
    pipeline::Engine& engine, const ServerCommandLine& line,
    const std::optional<PipelineSpec>& spec, const BudgetAdvice& advice) {
  MR_ASSIGN_OR_RETURN(std::string text, DescribePresets(engine, advice));
  if (spec.has_value()) {
    MR_ASSIGN_OR_RETURN(
        const std::string named,
        DescribePipeline(engine, *spec, line.check_pipeline, advice));
    text += named;
  }
  if (text.empty()) return text;
  return absl::StrFormat("\n%-20s %-14s %s\n%s", "BATCHES OF", "SIZE OF ONE",
                         "CONTENT", text);
}

// Returns "2 worker threads (up to 17), 32 read threads (up to 512)".
std::string DescribeThreads(const pipeline::Engine::Stats& stats) {
  const auto up_to = [](uint32_t now, uint32_t max) {
    return max > now ? absl::StrCat(" (up to ", max, ")") : std::string();
  };
  return absl::StrCat(CountText(stats.threads, "worker thread"),
                      up_to(stats.threads, stats.max_threads), ", ",
                      CountText(stats.read_threads, "read thread"),
                      up_to(stats.read_threads, stats.max_read_threads));
}

// `sources`, `looks` and `engine` must outlive the result.
absl::StatusOr<std::unique_ptr<lease::LeaseServer>> StartLeases(
    const ServerSettings& settings, std::string address,
    const storage::OpenSourceOptions& sources, ByteBudget& looks,
    pipeline::Engine& engine) {
  return lease::LeaseServer::Start(
      {.socket = settings.lease_socket,
       .address = std::move(address),
       .datasets = {
           .open = [&sources, &looks](const std::string& uri, bool to_look)
               -> absl::StatusOr<lease::LeasedDatasets::Source> {
             storage::OpenSourceOptions options = sources;
             if (to_look) {
               options.cache_budget = nullptr;
               options.read_budget = nullptr;
               options.metadata_budget = &looks;
             }
             MR_ASSIGN_OR_RETURN(std::unique_ptr<storage::RecordSource> source,
                                 storage::OpenRecordSource(uri, options));
             return lease::LeasedDatasets::Source(std::move(source));
           },
           .open_arrays = [&sources](int file)
               -> absl::StatusOr<lease::LeasedDatasets::Source> {
             MR_ASSIGN_OR_RETURN(std::unique_ptr<storage::RecordSource> source,
                                 storage::OpenArrays(file, sources));
             return lease::LeasedDatasets::Source(std::move(source));
           },
           .add =
               [&engine](const std::string& name,
                         lease::LeasedDatasets::Source source) {
                 return engine.AddDataset(name, std::move(source));
               },
           .remove =
               [&engine](const std::string& name) {
                 engine.RemoveDataset(name);
               },
           .keep_unused = settings.lease_timeout},
       .linger = settings.lease_timeout});
}

// Serves until a signal or, with leases (null: none), until the last one ends.
// True: there is no lease any more.
bool AwaitEnd(const ServerSettings& settings, StopSignals& signals,
              lease::LeaseServer* leases) {
  bool unused = false;
  int signal_number = 0;
  if (leases == nullptr) {
    signal_number = signals.Await();
  } else {
    signals.OnSignal([leases] { leases->Stop(); });
    unused = leases->Run();
    signals.OnSignal(nullptr);
    signal_number = StopSignals::signal();
  }
  const std::string why =
      unused ? absl::StrCat("no program has held a lease for ",
                            absl::FormatDuration(settings.lease_timeout))
             : absl::StrCat("signal ", signal_number);
  MR_LOG(INFO) << why << ": the server stops"
               << (unused ? ""
                          : absl::StrCat(
                                "; calls in flight must finish within ",
                                absl::FormatDuration(settings.shutdown_grace)));
  return unused;
}

// Ends the process at once, because nothing in a process that does not answer
// can be relied upon to end. Clients use other servers, and this one after its
// supervisor has restarted it.
void EndUnreachable(const absl::Status& why) {
  MR_LOG(ERROR) << why.message() << "; the server exits: restart it";
  _exit(program::kExitFailed);
}

absl::Status Serve(const ServerSettings& settings, const Machine& machine,
                   const ServerCommandLine& line, StopSignals& signals) {
  // First: a pipe that no program reads is an error before datasets are opened.
  PortFile port_file;
  if (!line.check_config) {
    MR_ASSIGN_OR_RETURN(port_file, PortFile::Open(line.port_file));
  }
  // Destroyed last, because everything below is charged to it. CheckMemory()
  // refuses a budget below the minimum after the datasets are open, and then
  // names a budget that works.
  ByteBudget budget(std::max(settings.memory_budget_bytes, kMinBudgetBytes));
  // The datasets' part is reserved once, and batches cannot use it. If row
  // groups were charged one by one, caches would be emptied whenever batches
  // wait for memory, that is, under the highest load.
  const uint64_t read_memory =
      settings.row_group_cache_bytes + settings.file_read_bytes;
  ByteBudget::Reservation share;
  MR_CHECK(budget.TryReserve(read_memory, &share));
  // Footers larger than the rest of the budget are refused before they are
  // parsed.
  const bool has_leases = !settings.lease_socket.empty();
  const uint64_t leased_bytes =
      LeasedMetadataBytes(settings, budget.capacity());
  const uint64_t footer_bytes =
      has_leases ? leased_bytes : budget.capacity() - read_memory;
  ReadBudgets budgets = {.caches = ByteBudget(settings.row_group_cache_bytes),
                         .files = ByteBudget(settings.file_read_bytes),
                         .footers = ByteBudget(footer_bytes),
                         .looks = ByteBudget(footer_bytes)};
  MR_ASSIGN_OR_RETURN(
      const std::shared_ptr<const operators::Operators> operators,
      UsageError(operators::Operators::Load(settings.operators)));
  pipeline::Engine::Options options = {
      .threads = settings.threads,
      .read_threads = settings.read_threads,
      .adapt_threads = settings.adapt_threads,
      .adapt_read_threads = settings.adapt_read_threads,
      .budget = &budget,
      .budget_held_elsewhere_bytes = read_memory,
      .admission_timeout = settings.admission_timeout,
      .dataset_weights = WeightsOf(settings),
      .operators = operators.get(),
      .refuse_synthetic = settings.refuse_synthetic,
      .datasets_change = has_leases,
      .added_metadata_bytes = leased_bytes};
  const storage::OpenSourceOptions sources =
      SourceOptions(settings, *operators, options, &budgets);
  MR_ASSIGN_OR_RETURN(pipeline::DatasetCatalog catalog,
                      OpenDatasets(settings, options, sources));
  const std::string datasets = DescribeDatasets(catalog);
  const std::string loaded = DescribeOperators(*operators);
  MR_ASSIGN_OR_RETURN(const pipeline::MemoryNeeds needs,
                      pipeline::Engine::Needs(options, catalog));
  // --check_config tries and names the smallest budget.
  if (!line.check_config) {
    // The engine knows the part for the datasets of leases at this budget; a
    // larger budget has a larger one.
    options.held_elsewhere_of = [&settings, leased_bytes](uint64_t bytes) {
      return ReadMemoryBytes(settings, bytes) +
             LeasedMetadataBytes(settings, bytes) - leased_bytes;
    };
  }
  MR_ASSIGN_OR_RETURN(const std::optional<PipelineSpec> pipeline,
                      ReadCheckPipeline(line, catalog));
  BudgetAdvice advice(settings, options, catalog, needs);
  if (pipeline.has_value()) advice.Add(*pipeline);
  MR_RETURN_IF_ERROR(UsageError(CheckMemory(settings, needs, advice)));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<pipeline::Engine> engine,
                      pipeline::Engine::Create(options, catalog));
  if (line.check_config) {
    MR_ASSIGN_OR_RETURN(const std::string batches,
                        DescribeAllBatches(*engine, line, pipeline, advice));
    Machine now = machine;
    now.open_files = OpenFiles();  // with those of the datasets
    absl::PrintF(
        "%s%s%s%s%s", DescribeSettings(settings, now),
        DescribeMemory(pipeline::PlanMemory(needs, settings.memory_budget_bytes,
                                            read_memory),
                       settings.file_read_bytes),
        loaded, datasets, batches);
    return FlushStandardOutput();
  }
  if (const std::string warning = BudgetWarning(settings, machine);
      !warning.empty()) {
    MR_LOG(WARNING) << warning;
  }
  MR_ASSIGN_OR_RETURN(
      const std::unique_ptr<rpc::RpcServer> server,
      rpc::RpcServer::Start(
          {.listen = settings.listen,
           .engine = engine.get(),
           .budget = &budget,
           .send_timeout = settings.send_timeout,
           .batch_timeout = settings.batch_timeout,
           .request_timeout = settings.request_timeout,
           .shutdown_grace = settings.shutdown_grace,
           .max_connections = settings.max_connections,
           .max_connections_per_peer = settings.max_connections_per_peer,
           .only_own_user = has_leases,
           .on_unreachable = &EndUnreachable,
           .content_revision = plan::kContentRevision,
           .local_socket = settings.local_socket}));
  MR_LOG(INFO) << "millrace-server " << kMillraceVersion << " (protocol "
               << wire::kProtocolVersion << ", content revision "
               << plan::kContentRevision << ", image decoders "
               << engine->decoder_digest() << ") listens on "
               << server->address() << "; " << DescribeThreads(engine->stats())
               << ", memory budget "
               << FormatByteSize(settings.memory_budget_bytes);
  for (const operators::Operators::Entry& entry : operators->List()) {
    MR_LOG(INFO) << entry.kind << " " << operators::FormatOperator(entry.ref)
                 << " (" << entry.file << ")";
  }
  for (const ServerSettings::Dataset& dataset : settings.datasets) {
    const DatasetInfo& info = engine->catalog().at(dataset.name)->info();
    MR_LOG(INFO) << "dataset " << dataset.name << " (" << dataset.uri
                 << "): " << CountText(info.samples(), "sample")
                 << ", fingerprint " << info.fingerprint();
  }
  std::unique_ptr<lease::LeaseServer> leases;  // null: there are none
  if (has_leases) {
    MR_ASSIGN_OR_RETURN(leases, StartLeases(settings, server->address(),
                                            sources, budgets.looks, *engine));
  }
  // A process that reads the port may stop the server, so signals must already
  // lead to a graceful end.
  signals.Hold();
  MR_RETURN_IF_ERROR(port_file.Write(server->port()));
  absl::PrintF("listening on %s\n", server->address());
  if (const absl::Status printed = FlushStandardOutput(); !printed.ok()) {
    MR_LOG(WARNING) << printed.message() << "; the server continues";
  }

  const bool unused = AwaitEnd(settings, signals, leases.get());
  // Without a lease, a call in flight is that of a program that was killed,
  // whose connection a forked child keeps open.
  server->Shutdown(/*at_once=*/unused);
  if (leases != nullptr && !leases->AwaitOpening(kOpeningGrace)) {
    MR_LOG(WARNING) << "a dataset is still being opened; the server ends all "
                       "the same";
    _exit(program::kExitOk);
  }
  MR_LOG(INFO) << "stopped";
  return absl::OkStatus();
}

// The output is the only purpose of the program here, so a failed write is an
// error.
int Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  const absl::Status printed = FlushStandardOutput();
  return printed.ok() ? program::kExitOk : Fail(printed);
}

// `path`: the value of --port_file; empty: no such flag.
template <typename Datasets>
absl::Status CheckNoDataset(const std::string& path, const Datasets& datasets) {
  for (const DatasetConfig& dataset : datasets) {
    MR_RETURN_IF_ERROR(
        CheckPortFileIsNoDataset(path, dataset.name(), dataset.uri()));
  }
  return absl::OkStatus();
}

int Main(const std::vector<std::string>& arguments) {
  ReturnLargeBlocks();
  RouteLibraryLogs();
  if (const absl::Status level = UseLogLevelOfEnvironment(); !level.ok()) {
    return Fail(level);
  }
  const absl::StatusOr<ServerCommandLine> line =
      UsageError(ParseCommandLine(arguments));
  if (const std::string port_file = PortFileToRemove(arguments);
      !port_file.empty()) {
    absl::Status removed;
    if (line.ok()) {
      removed = CheckNoDataset(port_file, line->flags.datasets());
    }
    if (removed.ok()) removed = RemovePortFile(port_file);
    if (!removed.ok()) return Fail(removed);
  }
  if (!line.ok()) return Fail(line.status());
  if (line->help) return Print(HelpText());
  if (line->version) {
    return Print(absl::StrFormat(
        "millrace-server %s (protocol %d, content revision %d)\n",
        kMillraceVersion, wire::kProtocolVersion, plan::kContentRevision));
  }
  StopSignals signals({.same_request = absl::ZeroDuration(), .hold = false});
  IgnoreWriteSignals();
  const uint64_t open_file_limit = RaiseFileLimit();
  ServerConfig config;
  if (!line->config_file.empty()) {
    auto file = UsageError(ReadServerConfig(line->config_file));
    if (!file.ok()) return Fail(file.status());
    config = *std::move(file);
  }
  config = MergeConfig(std::move(config), line->flags);
  absl::Status port_file = CheckNoDataset(line->port_file, config.datasets());
  if (port_file.ok()) port_file = CheckPortFile(line->port_file);
  if (!port_file.ok()) return Fail(port_file);
  const Machine machine = {.cpus = AvailableCpus(),
                           .memory_bytes = AvailableMemoryBytes(),
                           .open_file_limit = open_file_limit,
                           .open_files = OpenFiles()};
  const absl::StatusOr<ServerSettings> settings =
      UsageError(ResolveServerConfig(config, machine));
  if (!settings.ok()) return Fail(settings.status());
  if (line->parse_config) {
    const absl::Status enough = UsageError(CheckMinBudget(*settings));
    if (!enough.ok()) return Fail(enough);
    return Print(DescribeSettings(*settings, machine));
  }
  // gRPC aborts the process when it gets no descriptor.
  const absl::Status enough_files =
      CheckFileLimit(machine.open_file_limit, machine.open_files);
  if (!enough_files.ok()) return Fail(enough_files);
  const absl::Status status = Serve(*settings, machine, *line, signals);
  return status.ok() ? program::kExitOk : Fail(status);
}

}  // namespace
}  // namespace millrace::server

MR_CHECK_CPU("millrace-server")

int main(int argc, char** argv) {
  millrace::HoldStandardStreams();
  return millrace::server::Main({argv + 1, argv + argc});
}
