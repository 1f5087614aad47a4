#include "server/command_line.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/byte_size.h"
#include "common/flag_needs.h"
#include "common/status_macros.h"
#include "server/config.h"

namespace millrace {
namespace {

struct Flag {
  absl::string_view name;
  absl::string_view value;  // what stands after =; empty: a switch
  absl::string_view help;
  // Takes the value; of a switch: none.
  std::function<absl::Status(const std::string&, ServerCommandLine*)> set;
};

absl::Status BadValue(absl::string_view flag, absl::string_view value,
                      absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, ": ", why));
}

// The dataset of this name; added where there is none.
DatasetConfig* DatasetNamed(absl::string_view name, ServerConfig* config) {
  for (DatasetConfig& dataset : *config->mutable_datasets()) {
    if (dataset.name() == name) return &dataset;
  }
  DatasetConfig* dataset = config->add_datasets();
  dataset->set_name(std::string(name));
  return dataset;
}

// "NAME=WEIGHT".
absl::Status SetWeight(const std::string& text, ServerConfig* config) {
  const size_t equals = text.find('=');
  double weight = 0;
  if (equals == std::string::npos || !IsDatasetName(text.substr(0, equals)) ||
      !absl::SimpleAtod(text.substr(equals + 1), &weight) || weight <= 0) {
    return BadValue("dataset_weight", text,
                    "write NAME=WEIGHT, WEIGHT a number from 0.01 to 100");
  }
  DatasetConfig* dataset = DatasetNamed(text.substr(0, equals), config);
  if (dataset->has_weight()) {
    return BadValue("dataset_weight", text,
                    absl::StrCat("`", dataset->name(), "` is given twice"));
  }
  dataset->set_weight(weight);
  return absl::OkStatus();
}

// "NAME=URI", or several separated by commas. A comma inside a path is part of
// it unless NAME=SCHEME: follows.
absl::Status AddDatasets(absl::string_view text, ServerConfig* config) {
  while (true) {
    const size_t equals = text.find('=');
    const absl::string_view name = text.substr(0, equals);
    if (equals == absl::string_view::npos || !IsDatasetName(name)) {
      return BadValue("dataset", text,
                      "write NAME=lmdb:PATH or NAME=parquet:PATH, NAME of "
                      "letters, digits, '_', '-' and '.'");
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
          (absl::StartsWith(after, "lmdb:") ||
           absl::StartsWith(after, "parquet:"))) {
        rest = next;
        uri = uri.substr(0, comma);
        break;
      }
    }
    for (const DatasetConfig& other : config->datasets()) {
      if (other.name() == name && !other.uri().empty()) {
        return BadValue("dataset", text,
                        absl::StrCat("the name `", name, "` is given twice"));
      }
    }
    DatasetNamed(name, config)->set_uri(std::string(uri));
    if (rest.empty()) return absl::OkStatus();
    text = rest;
  }
}

absl::Status SetMillis(absl::string_view flag, const std::string& value,
                       const std::function<void(uint32_t)>& set) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(value, &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(value, &duration)) {
    return BadValue(flag, value, "not a time; write for example 10s or 500ms");
  }
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  if (ms < 1 || ms > 24 * 3600 * 1000) {
    return BadValue(flag, value, "the time must be between 1ms and 24h");
  }
  set(static_cast<uint32_t>(ms));
  return absl::OkStatus();
}

absl::Status SetCount(absl::string_view flag, const std::string& value,
                      const std::function<void(uint32_t)>& set) {
  uint32_t count = 0;
  if (!absl::SimpleAtoi(value, &count) || count == 0) {
    return BadValue(flag, value, "write a number above 0");
  }
  set(count);
  return absl::OkStatus();
}

const std::vector<Flag>& Flags() {
  using Line = ServerCommandLine*;
  static const auto* const flags = new std::vector<Flag>{
      {"dataset", "NAME=URI",
       "serve a dataset; URI is lmdb:PATH or parquet:PATH, PATH a file, a "
       "folder of shards or a glob; may be repeated",
       [](const std::string& value, Line line) {
         return AddDatasets(value, &line->flags);
       }},
      {"dataset_weight", "NAME=WEIGHT",
       "share of the worker threads' time that jobs on the dataset get beside "
       "jobs on other datasets, relative to their weights: 0.01 to 100 "
       "(default 1); may be repeated",
       [](const std::string& value, Line line) {
         return SetWeight(value, &line->flags);
       }},
      {"operators", "FILE.so",
       "load a library of transforms, decoders and sources "
       "(docs/extending.md); may be repeated",
       [](const std::string& value, Line line) {
         line->flags.add_operators(value);
         return absl::OkStatus();
       }},
      {"listen", "HOST:PORT",
       "address to listen on; port 0 takes a free port (default "
       "0.0.0.0:7001)",
       [](const std::string& value, Line line) {
         line->flags.set_listen(value);
         return absl::OkStatus();
       }},
      {"threads", "N",
       "fixed number of threads that decode and augment (default: adapts to "
       "what is measured, initially one for each CPU that the process may use)",
       [](const std::string& value, Line line) {
         return SetCount("threads", value, [&](uint32_t count) {
           line->flags.set_threads(count);
         });
       }},
      {"read_threads", "N",
       "fixed number of threads that wait for storage, where reads block; 0: "
       "none, the threads that decode wait themselves (default: adapts to what "
       "is measured, initially 32)",
       [](const std::string& value, Line line) {
         uint32_t threads = 0;
         if (!absl::SimpleAtoi(value, &threads)) {
           return BadValue("read_threads", value, "write a number, 0 for none");
         }
         line->flags.set_read_threads(threads);
         return absl::OkStatus();
       }},
      {"initial_threads", "N",
       "initial number of threads that decode, where the number adapts; for "
       "measuring how fast it adapts (default: see --threads)",
       [](const std::string& value, Line line) {
         return SetCount("initial_threads", value, [&](uint32_t count) {
           line->flags.set_initial_threads(count);
         });
       }},
      {"initial_read_threads", "N",
       "initial number of threads that wait for storage, where the number "
       "adapts (default 32)",
       [](const std::string& value, Line line) {
         return SetCount("initial_read_threads", value, [&](uint32_t count) {
           line->flags.set_initial_read_threads(count);
         });
       }},
      {"memory_budget", "SIZE",
       "memory for batches, decoding and caches, as 512MiB or 2GiB; at least "
       "16MiB (default: half of the memory that the process may use)",
       [](const std::string& value, Line line) {
         const absl::StatusOr<uint64_t> bytes = ParseByteSize(value);
         if (!bytes.ok()) {
           return BadValue("memory_budget", value,
                           "not a size; write for example 512MiB or 2GiB");
         }
         if (*bytes == 0) {
           return BadValue("memory_budget", value,
                           "the size must be above 0");
         }
         line->flags.set_memory_budget_bytes(*bytes);
         return absl::OkStatus();
       }},
      {"send_timeout", "TIME",
       "cancel a call whose client takes nothing for this time (default 10s)",
       [](const std::string& value, Line line) {
         return SetMillis("send_timeout", value, [&](uint32_t ms) {
           line->flags.set_send_timeout_ms(ms);
         });
       }},
      {"admission_timeout", "TIME",
       "refuse a batch that waits longer than this for memory (default 5s)",
       [](const std::string& value, Line line) {
         return SetMillis("admission_timeout", value, [&](uint32_t ms) {
           line->flags.set_admission_timeout_ms(ms);
         });
       }},
      {"batch_timeout", "TIME",
       "maximum age of a batch that waits to be sent, while other batches wait "
       "for memory; an older one is dropped and built again later, unless it is "
       "the client's only one (default 2s)",
       [](const std::string& value, Line line) {
         return SetMillis("batch_timeout", value, [&](uint32_t ms) {
           line->flags.set_batch_timeout_ms(ms);
         });
       }},
      {"request_timeout", "TIME",
       "close a connection on which a request has begun and is not complete "
       "after this time (default 30s)",
       [](const std::string& value, Line line) {
         return SetMillis("request_timeout", value, [&](uint32_t ms) {
           line->flags.set_request_timeout_ms(ms);
         });
       }},
      {"max_connections", "N",
       "maximum number of open connections; the server closes further ones at "
       "once (default: follows from the limit of open files, ulimit -n)",
       [](const std::string& value, Line line) {
         return SetCount("max_connections", value, [&](uint32_t count) {
           line->flags.set_max_connections(count);
         });
       }},
      {"max_connections_per_peer", "N",
       "maximum number of open connections of one address, not above "
       "--max_connections (default: half of that)",
       [](const std::string& value, Line line) {
         return SetCount("max_connections_per_peer", value,
                         [&](uint32_t count) {
                           line->flags.set_max_connections_per_peer(count);
                         });
       }},
      {"shutdown_grace", "TIME",
       "time that SIGTERM lets running calls finish (default 10s)",
       [](const std::string& value, Line line) {
         return SetMillis("shutdown_grace", value, [&](uint32_t ms) {
           line->flags.set_shutdown_grace_ms(ms);
         });
       }},
      {"local_socket", "PATH",
       "Unix socket where clients of this machine ask for batches in shared "
       "memory: a path, @NAME in the abstract namespace, or off (default: an "
       "abstract socket with a unique name)",
       [](const std::string& value, Line line) {
         line->flags.set_local_socket(value);
         return absl::OkStatus();
       }},
      {"refuse_synthetic", "",
       "refuse requests for synthetic data (millrace bench --synthetic), which "
       "need no dataset",
       [](const std::string&, Line line) {
         line->flags.set_refuse_synthetic(true);
         return absl::OkStatus();
       }},
      {"synthetic_only", "",
       "start without a dataset and serve synthetic data alone, for "
       "measurements",
       [](const std::string&, Line line) {
         line->flags.set_synthetic_only(true);
         return absl::OkStatus();
       }},
      {"config", "FILE",
       "read settings and datasets from FILE, a protobuf text file "
       "(proto/config.proto describes its fields); a flag overrides the same "
       "setting in FILE",
       [](const std::string& value, Line line) {
         line->config_file = value;
         return absl::OkStatus();
       }},
      {"port_file", "FILE",
       "remove FILE at the start, and write the port to it once the server "
       "listens",
       [](const std::string& value, Line line) {
         line->port_file = value;
         return absl::OkStatus();
       }},
      {"check_config", "",
       "check the configuration, open its datasets, print the resulting "
       "settings, the use of the memory and the datasets, and exit",
       [](const std::string&, Line line) {
         line->check_config = true;
         return absl::OkStatus();
       }},
      {"check_pipeline", "FILE",
       "with --check_config: also check that the batches of the pipeline in "
       "FILE (PipelineSpec of proto/pipeline.proto as text) fit into the memory",
       [](const std::string& value, Line line) {
         line->check_pipeline = value;
         return absl::OkStatus();
       }},
      {"parse_config", "",
       "check the configuration without opening the datasets, print the "
       "resulting settings and exit",
       [](const std::string&, Line line) {
         line->parse_config = true;
         return absl::OkStatus();
       }},
      {"version", "",
       "print the release, the protocol version that clients and servers "
       "compare, and the content revision (servers of one job need the same), "
       "and exit",
       [](const std::string&, Line line) {
         line->version = true;
         return absl::OkStatus();
       }},
      {"help", "", "print this text and exit",
       [](const std::string&, Line line) {
         line->help = true;
         return absl::OkStatus();
       }},
  };
  return *flags;
}

// Number of edits that turn one word into the other.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

absl::Status UnknownFlag(absl::string_view name) {
  const auto nearest = std::min_element(
      Flags().begin(), Flags().end(), [&](const Flag& a, const Flag& b) {
        return Distance(name, a.name) < Distance(name, b.name);
      });
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", name,
                   Distance(name, nearest->name) <= 3
                       ? absl::StrCat("; did you mean --", nearest->name, "?")
                       : std::string("; --help lists the flags")));
}

}  // namespace

absl::StatusOr<ServerCommandLine> ParseCommandLine(
    const std::vector<std::string>& arguments) {
  ServerCommandLine line;
  std::set<absl::string_view> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    if (!absl::ConsumePrefix(&text, "--") || text.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", arguments[i],
                       "` is no flag; name a dataset with --dataset=NAME=URI, "
                       "--help lists the flags"));
    }
    const size_t equals = text.find('=');
    const absl::string_view name = text.substr(0, equals);
    const auto flag =
        std::find_if(Flags().begin(), Flags().end(),
                     [&](const Flag& known) { return known.name == name; });
    if (flag == Flags().end()) return UnknownFlag(name);
    if (!seen.insert(flag->name).second && flag->name != "dataset" &&
        flag->name != "dataset_weight" && flag->name != "operators") {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " is given twice"));
    }
    std::string value;
    if (flag->value.empty()) {
      if (equals != absl::string_view::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, " takes no value"));
      }
    } else {
      if (equals != absl::string_view::npos) {
        value = std::string(text.substr(equals + 1));
      } else if (i + 1 < arguments.size() &&
                 !absl::StartsWith(arguments[i + 1], "--")) {
        value = arguments[++i];
      }
      if (value.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--", name, " needs a value: --", name, "=", flag->value));
      }
    }
    MR_RETURN_IF_ERROR(flag->set(value, &line));
  }
  const std::vector<FlagNeed> needs = {{"check_pipeline", {"check_config"}}};
  MR_RETURN_IF_ERROR(CheckFlagNeeds(
      needs, [&](absl::string_view name) { return seen.contains(name); }));
  if (line.check_config && line.parse_config) {
    return absl::InvalidArgumentError(
        "--parse_config has no effect beside --check_config, which checks more: "
        "leave one of them out");
  }
  return line;
}

std::string PortFileToRemove(const std::vector<std::string>& arguments) {
  std::string port_file;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    for (const char* const other :
         {"--check_config", "--parse_config", "--help", "--version"}) {
      if (text == other) return "";
    }
    if (!absl::ConsumePrefix(&text, "--port_file")) continue;
    if (absl::ConsumePrefix(&text, "=")) {
      port_file = std::string(text);
    } else if (text.empty() && i + 1 < arguments.size() &&
               !absl::StartsWith(arguments[i + 1], "--")) {
      port_file = arguments[i + 1];
    }
  }
  return port_file;
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
  std::string text =
      "millrace-server reads datasets, decodes and augments their samples and\n"
      "streams batches.\n\n"
      "  millrace-server --dataset=NAME=lmdb:PATH "
      "[--dataset=NAME2=parquet:PATH ...]\n"
      "                  [--listen=HOST:PORT] [--threads=N] "
      "[--memory_budget=2GiB]\n"
      "  millrace-server --config=FILE.textproto\n\n"
      "Flags:\n";
  for (const Flag& flag : Flags()) {
    const std::string name =
        flag.value.empty() ? absl::StrCat("--", flag.name)
                           : absl::StrCat("--", flag.name, "=", flag.value);
    // Help wraps at 80 columns, behind the names.
    std::string row = absl::StrFormat("  %-27s", name);
    size_t column = row.size();
    absl::string_view help = flag.help;
    while (!help.empty()) {
      const size_t space = std::min(help.find(' '), help.size());
      if (column + space + 1 > 80) {
        absl::StrAppend(&row, "\n", std::string(29, ' '));
        column = 29;
      }
      absl::StrAppend(&row, " ", help.substr(0, space));
      column += space + 1;
      help.remove_prefix(std::min(space + 1, help.size()));
    }
    absl::StrAppend(&text, row, "\n");
  }
  absl::StrAppend(
      &text,
      "\nSIGTERM or SIGINT stops gracefully, a second one at once.\n"
      "Exit codes: 0 stopped as asked, 1 an error, 2 a mistake on "
      "the command line or\n"
      "in a file that it names (configuration, operators, pipeline).\n");
  return text;
}

}  // namespace millrace
