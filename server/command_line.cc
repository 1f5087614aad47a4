#include "server/command_line.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/program/flag_set.h"
#include "common/status_macros.h"
#include "server/config.h"
#include "server/storage/schemes.h"

namespace millrace::server {
namespace {

template <typename... Words>
absl::Status Bad(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

// The dataset with this name; added if there is none.
DatasetConfig* DatasetNamed(absl::string_view name, ServerConfig* config) {
  for (DatasetConfig& dataset : *config->mutable_datasets()) {
    if (dataset.name() == name) return &dataset;
  }
  DatasetConfig* dataset = config->add_datasets();
  dataset->set_name(std::string(name));
  return dataset;
}

// Parses "NAME=WEIGHT".
absl::Status SetWeight(absl::string_view text, ServerConfig* config) {
  const size_t equals = text.find('=');
  double weight = 0;
  if (equals == text.npos || !IsDatasetName(text.substr(0, equals)) ||
      !absl::SimpleAtod(text.substr(equals + 1), &weight) || weight <= 0) {
    return Bad("expected NAME=WEIGHT, WEIGHT a number from 0.01 to 100");
  }
  DatasetConfig* dataset = DatasetNamed(text.substr(0, equals), config);
  if (dataset->has_weight()) {
    return Bad("`", dataset->name(), "` is given twice");
  }
  dataset->set_weight(weight);
  return absl::OkStatus();
}

// Parses "NAME=URI", or several separated by commas. A comma is a part of the
// path unless NAME=SCHEME: follows.
absl::Status AddDatasets(absl::string_view text, ServerConfig* config) {
  while (true) {
    const size_t equals = text.find('=');
    const absl::string_view name = text.substr(0, equals);
    if (equals == absl::string_view::npos || !IsDatasetName(name)) {
      return Bad("expected ", storage::SchemesText("PATH", "NAME="),
                 ", NAME of letters, digits, '_', '-' and '.'");
    }
    absl::string_view uri = text.substr(equals + 1);
    absl::string_view rest;
    for (size_t comma = uri.find(','); comma != absl::string_view::npos;
         comma = uri.find(',', comma + 1)) {
      const absl::string_view next = uri.substr(comma + 1);
      const size_t next_equals = next.find('=');
      if (next_equals == absl::string_view::npos) break;
      const absl::string_view after = next.substr(next_equals + 1);
      if (IsDatasetName(next.substr(0, next_equals)) &&
          storage::HasScheme(after)) {
        rest = next;
        uri = uri.substr(0, comma);
        break;
      }
    }
    for (const DatasetConfig& other : config->datasets()) {
      if (other.name() == name && !other.uri().empty()) {
        return Bad("the name `", name, "` is given twice");
      }
    }
    DatasetNamed(name, config)->set_uri(std::string(uri));
    if (rest.empty()) return absl::OkStatus();
    text = rest;
  }
}

// Parsers for flags that set a field of the configuration.
using SetNumber = void (ServerConfig::*)(uint32_t);

constexpr uint32_t kNoMax = std::numeric_limits<uint32_t>::max();

program::FlagSet::Parser Count(ServerConfig* config, SetNumber set,
                               uint32_t min = 1, uint32_t max = kNoMax) {
  return [config, set, min, max](absl::string_view text) {
    uint32_t count = 0;
    if (!absl::SimpleAtoi(text, &count) || count < min || count > max) {
      if (max == kNoMax) return Bad("expected a number above 0");
      return Bad("expected a number from ", min, " to ", max,
                 min == 0 ? ", 0 for none" : "");
    }
    (config->*set)(count);
    return absl::OkStatus();
  };
}

program::FlagSet::Parser Millis(ServerConfig* config, SetNumber set) {
  return [config, set](absl::string_view text) {
    absl::Duration time;
    const bool parsed =
        program::FlagSet::ParseTime(text, /*may_be_zero=*/false, &time).ok();
    const int64_t ms = parsed ? absl::ToInt64Milliseconds(time) : 0;
    if (ms < 1 || ms > 24 * 3600 * 1000) {
      // Not what ParseTime() says: its own maximum is longer.
      return Bad(
          "expected a time between 1ms and 24h, for example 5s or 300ms");
    }
    (config->*set)(static_cast<uint32_t>(ms));
    return absl::OkStatus();
  };
}

// The values of the flags. Values of fields without a parser here are copied to
// the configuration afterwards.
struct Values {
  ServerCommandLine line;
  std::string listen;
  std::string local_socket;
  std::string cache_dir;
  std::string lease_socket;
  uint64_t memory_budget_bytes = 0;
  bool refuse_synthetic = false;
  bool synthetic_only = false;
};

void AddDatasetFlags(Values* to, program::FlagSet& flags) {
  ServerConfig* const config = &to->line.flags;
  flags.Group("Datasets");
  flags
      .Add(
          "dataset",
          [config](absl::string_view text) {
            return AddDatasets(text, config);
          },
          "NAME=URI",
          "Dataset to serve; URI is lmdb:PATH, parquet:PATH, arrow:PATH, "
          "tar:PATH, tfrecord:PATH or hdf5:PATH, PATH a file, a folder of "
          "shards, a glob, a range ({000..099}) or a list ({train,extra}); "
          "imagefolder:PATH, PATH a folder of class folders with images; "
          "mds:PATH or litdata:PATH, PATH a folder with index.json; or "
          "csv:PATH, PATH a table of image paths and labels; options follow a "
          "? (docs/formats.md); may be repeated")
      .Repeatable();
  flags
      .Add(
          "dataset_weight",
          [config](absl::string_view text) { return SetWeight(text, config); },
          "NAME=WEIGHT",
          "Weight of a dataset, 0.01 to 100: while jobs on several datasets "
          "compete, they get the worker threads' time in proportion to the "
          "weights; may be repeated")
      .Default("1")
      .Repeatable();
  flags
      .Add(
          "operators",
          [config](absl::string_view text) {
            config->add_operators(std::string(text));
            return absl::OkStatus();
          },
          "FILE.so",
          "Library of transforms, decoders and sources to load "
          "(docs/extending.md); may be repeated")
      .Repeatable();
  flags
      .Add("cache_dir", &to->cache_dir, "DIR",
           "Folder where the server keeps the indexes of imagefolder:, tar:, "
           "tfrecord:, mds:, litdata: and csv: datasets and the content hashes "
           "of arrow: and lmdb: datasets, or off. Decompressed copies of "
           "compressed shards are kept there only if the flag is given")
      .Default("$XDG_CACHE_HOME/millrace, otherwise ~/.cache/millrace");
  flags.Add("refuse_synthetic", &to->refuse_synthetic, "",
            "Refuse requests for synthetic data (millrace bench --synthetic), "
            "which need no dataset");
  flags.Add("synthetic_only", &to->synthetic_only, "",
            "Start without a dataset and serve synthetic data alone, for "
            "measurements");
}

void AddNetworkFlags(Values* to, program::FlagSet& flags) {
  ServerConfig* const config = &to->line.flags;
  flags.Group("Network");
  flags
      .Add("listen", &to->listen, "HOST:PORT",
           "Address to listen on; port 0: any free port")
      .Default("0.0.0.0:7001");
  flags
      .Add("local_socket", &to->local_socket, "PATH",
           "Unix socket where clients of this machine request batches in "
           "shared memory: a path, @NAME in the abstract namespace, or off")
      .Default("an abstract socket with a unique name");
  flags
      .Add("max_connections", Count(config, &ServerConfig::set_max_connections),
           "N",
           "Upper bound of open connections; the server closes further "
           "connections at once")
      .Default("follows from the limit of open files, ulimit -n");
  flags
      .Add("max_connections_per_peer",
           Count(config, &ServerConfig::set_max_connections_per_peer), "N",
           "Upper bound of open connections of one address, not above "
           "--max_connections")
      .Default("half of --max_connections");
  flags
      .Add("send_timeout", Millis(config, &ServerConfig::set_send_timeout_ms),
           "TIME",
           "Maximum time that a call waits for a client that reads nothing; "
           "then the server ends the call")
      .Default("10s");
  flags
      .Add("admission_timeout",
           Millis(config, &ServerConfig::set_admission_timeout_ms), "TIME",
           "Maximum time that a batch waits for memory; then the server "
           "refuses it, and the client retries")
      .Default("5s");
  flags
      .Add("batch_timeout", Millis(config, &ServerConfig::set_batch_timeout_ms),
           "TIME",
           "Maximum age of an unsent batch while other batches wait for "
           "memory; the server drops an older batch and builds it again later, "
           "unless it is the client's only batch")
      .Default("2s");
  flags
      .Add("request_timeout",
           Millis(config, &ServerConfig::set_request_timeout_ms), "TIME",
           "Maximum time between the start of a request and its end; then the "
           "server closes the connection")
      .Default("30s");
  flags
      .Add("shutdown_grace",
           Millis(config, &ServerConfig::set_shutdown_grace_ms), "TIME",
           "Maximum time that calls in flight may take to finish after SIGTERM")
      .Default("10s");
}

void AddLeaseFlags(Values* to, program::FlagSet& flags) {
  ServerConfig* const config = &to->line.flags;
  flags.Group("Leases");
  flags.Add("lease_socket", &to->lease_socket, "PATH",
            "Unix socket where programs of this user take leases and name the "
            "datasets to serve; the server starts without a dataset, listens "
            "on 127.0.0.1 and ends after the last lease. The client for Python "
            "starts such servers (docs/operations.md)");
  flags
      .Add("lease_timeout", Millis(config, &ServerConfig::set_lease_timeout_ms),
           "TIME",
           "Time without a lease after which the server ends, and after which "
           "it closes a dataset that no lease holds")
      .Default("10s");
}

void AddResourceFlags(Values* to, program::FlagSet& flags) {
  ServerConfig* const config = &to->line.flags;
  flags.Group("Threads and memory");
  flags
      .Add("threads",
           Count(config, &ServerConfig::set_threads, /*min=*/1, kMaxThreads),
           "N",
           absl::StrCat("Fixed number of worker threads, which decode and "
                        "augment; maximum ",
                        kMaxThreads))
      .Default(
          "adjusted automatically to the load, initially one for each CPU that "
          "the process may use");
  flags
      .Add("read_threads",
           Count(config, &ServerConfig::set_read_threads, /*min=*/0,
                 kMaxReadThreads),
           "N",
           absl::StrCat("Fixed number of read threads, which wait for storage "
                        "when reads block; 0: none, the worker threads read "
                        "themselves; maximum ",
                        kMaxReadThreads))
      .Default("adjusted automatically to the load, initially 32");
  flags
      .Add("initial_threads",
           Count(config, &ServerConfig::set_initial_threads, /*min=*/1,
                 kMaxInitialThreads),
           "N",
           absl::StrCat("Initial number of worker threads if --threads does "
                        "not fix it; for measurements of the adjustment; "
                        "maximum ",
                        kMaxInitialThreads))
      .Default("see --threads");
  flags
      .Add("initial_read_threads",
           Count(config, &ServerConfig::set_initial_read_threads, /*min=*/1,
                 kMaxInitialThreads),
           "N",
           absl::StrCat("Initial number of read threads if --read_threads "
                        "does not fix it; for measurements of the adjustment; "
                        "maximum ",
                        kMaxInitialThreads))
      .Default("32");
  flags
      .Add("memory_budget", program::FlagSet::Bytes{&to->memory_budget_bytes},
           "SIZE",
           "Memory for batches, decoding and caches, for example 2GiB; minimum "
           "16MiB")
      .Default(
          "half of the memory that the process may use; with --lease_socket a "
          "quarter, less 200MiB for the program itself, minimum 64MiB, and "
          "40MiB more for each further thread of --threads");
}

void AddConfigFlags(Values* to, program::FlagSet& flags) {
  ServerCommandLine* const line = &to->line;
  flags.Group("Configuration");
  flags.Add("config", &line->config_file, "FILE",
            "File with settings and datasets, a protobuf text file "
            "(proto/config.proto describes its fields); a flag overrides the "
            "same setting in FILE");
  flags.Add("port_file", &line->port_file, "FILE",
            "File into which the server writes its port when it listens; the "
            "server removes an old port file when it starts, and refuses the "
            "path of any other file");
  flags.Add("check_config", &line->check_config, "",
            "Check the configuration, open its datasets, print the resulting "
            "settings, the memory use and the datasets, and exit");
  flags
      .Add("check_pipeline", &line->check_pipeline, "FILE",
           "Also check that the batches of the pipeline in FILE (PipelineSpec "
           "of proto/pipeline.proto as text) fit into the memory")
      .Needs({"check_config"});
  flags.Add("parse_config", &line->parse_config, "",
            "Check the configuration without opening the datasets, print the "
            "resulting settings and exit");
  flags.Add("version", &line->version, "",
            "Print the release, the protocol version that clients and servers "
            "compare, and the content revision (servers of one job need the "
            "same), and exit");
}

program::FlagSet::Options Program() {
  return {.command = "millrace-server",
          .summary =
              "Reads datasets, decodes and augments their samples and "
              "streams batches to clients.",
          .examples = {"millrace-server --dataset=photos=lmdb:/srv/photos.lmdb",
                       "millrace-server --config=server.textproto "
                       "--memory_budget=2GiB"},
          .notes =
              "SIGTERM or SIGINT stops the server gracefully; a second signal "
              "stops it at once.\nExit codes: 0 stopped by a signal, 1 error, "
              "2 mistake on the command line or in a file that it names "
              "(configuration, operators, pipeline).",
          .no_argument_hint = "name a dataset with --dataset=NAME=URI"};
}

void AddFlags(Values* to, program::FlagSet& flags) {
  AddDatasetFlags(to, flags);
  AddNetworkFlags(to, flags);
  AddLeaseFlags(to, flags);
  AddResourceFlags(to, flags);
  AddConfigFlags(to, flags);
}

}  // namespace

absl::StatusOr<ServerCommandLine> ParseCommandLine(
    const std::vector<std::string>& arguments) {
  Values values;
  program::FlagSet flags(Program());
  AddFlags(&values, flags);
  MR_RETURN_IF_ERROR(flags.Parse(arguments));
  ServerCommandLine& line = values.line;
  line.help = flags.help_wanted();
  if (line.check_config && line.parse_config) {
    return Bad(
        "--parse_config and --check_config cannot be used together, because "
        "--check_config checks more: remove one of them");
  }
  line.flags.set_listen(values.listen);
  line.flags.set_local_socket(values.local_socket);
  line.flags.set_cache_dir(values.cache_dir);
  line.flags.set_lease_socket(values.lease_socket);
  line.flags.set_memory_budget_bytes(values.memory_budget_bytes);
  line.flags.set_refuse_synthetic(values.refuse_synthetic);
  line.flags.set_synthetic_only(values.synthetic_only);
  return std::move(line);
}

std::string PortFileToRemove(const std::vector<std::string>& arguments) {
  ServerCommandLine line;
  // One word, and its value, at a time: a mistake ends the parsing of its word
  // alone. Flags that are not added count as mistakes.
  for (size_t i = 0; i < arguments.size(); ++i) {
    program::FlagSet flags({});
    flags.Add("port_file", &line.port_file, "FILE", "");
    flags.Add("check_config", &line.check_config, "", "");
    flags.Add("parse_config", &line.parse_config, "", "");
    flags.Add("version", &line.version, "", "");
    flags.Parse(absl::MakeSpan(arguments).subspan(i, 2)).IgnoreError();
    line.help |= flags.help_wanted();
  }
  const bool only_prints =
      line.check_config || line.parse_config || line.help || line.version;
  return only_prints ? "" : line.port_file;
}

ServerConfig MergeConfig(ServerConfig file, const ServerConfig& flags) {
  ServerConfig rest = flags;
  rest.clear_datasets();
  file.MergeFrom(rest);
  for (const DatasetConfig& dataset : flags.datasets()) {
    const auto same = std::find_if(
        file.mutable_datasets()->begin(), file.mutable_datasets()->end(),
        [&](const DatasetConfig& d) { return d.name() == dataset.name(); });
    if (same != file.mutable_datasets()->end()) {
      if (!dataset.uri().empty()) same->set_uri(dataset.uri());
      if (dataset.has_weight()) same->set_weight(dataset.weight());
    } else {
      *file.add_datasets() = dataset;
    }
  }
  return file;
}

std::string HelpText() {
  Values unused;
  program::FlagSet flags(Program());
  AddFlags(&unused, flags);
  return flags.Help();
}

}  // namespace millrace::server
