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

// That of this name; added where there is none.
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
                    "write NAME=WEIGHT, WEIGHT a number above 0");
  }
  DatasetConfig* dataset = DatasetNamed(text.substr(0, equals), config);
  if (dataset->weight() != 0) {
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
    return BadValue(flag, value, "is no time; write for example 10s or 500ms");
  }
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  if (ms < 1 || ms > 24 * 3600 * 1000) {
    return BadValue(flag, value, "must lie between 1ms and 24h");
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
       "share of the worker time that jobs on the dataset get beside jobs on "
       "others, relative to their weights (1); may be repeated",
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
       "address to listen on; port 0 takes a free one (0.0.0.0:7001)",
       [](const std::string& value, Line line) {
         line->flags.set_listen(value);
         return absl::OkStatus();
       }},
      {"threads", "N",
       "a fixed number of worker threads (as many as pay, by what is measured; "
       "at first the CPUs that the process may use)",
       [](const std::string& value, Line line) {
         return SetCount("threads", value, [&](uint32_t count) {
           line->flags.set_threads(count);
         });
       }},
      {"read_threads", "N",
       "a fixed number of threads that wait for storage beside the worker "
       "threads, where it makes somebody wait; 0: none (as many as pay; at "
       "first 32)",
       [](const std::string& value, Line line) {
         uint32_t threads = 0;
         if (!absl::SimpleAtoi(value, &threads)) {
           return BadValue("read_threads", value, "write a number, 0 for none");
         }
         line->flags.set_read_threads(threads);
         return absl::OkStatus();
       }},
      {"initial_threads", "N",
       "worker threads at first, where their number adapts; for measuring how "
       "fast it does",
       [](const std::string& value, Line line) {
         return SetCount("initial_threads", value, [&](uint32_t count) {
           line->flags.set_initial_threads(count);
         });
       }},
      {"initial_read_threads", "N",
       "the same of the threads that wait for storage",
       [](const std::string& value, Line line) {
         return SetCount("initial_read_threads", value, [&](uint32_t count) {
           line->flags.set_initial_read_threads(count);
         });
       }},
      {"memory_budget", "SIZE",
       "memory for batches, scratch and caches, as 512MiB or 2GiB (half of "
       "what the process may use)",
       [](const std::string& value, Line line) {
         const absl::StatusOr<uint64_t> bytes = ParseByteSize(value);
         if (!bytes.ok()) {
           return BadValue("memory_budget", value,
                           "is no size; write for example 512MiB or 2GiB");
         }
         if (*bytes == 0) {
           return BadValue("memory_budget", value, "must be above 0");
         }
         line->flags.set_memory_budget_bytes(*bytes);
         return absl::OkStatus();
       }},
      {"send_timeout", "TIME",
       "cancel a call whose client takes nothing for so long (10s)",
       [](const std::string& value, Line line) {
         return SetMillis("send_timeout", value, [&](uint32_t ms) {
           line->flags.set_send_timeout_ms(ms);
         });
       }},
      {"admission_timeout", "TIME",
       "refuse a batch that waits longer for memory (5s)",
       [](const std::string& value, Line line) {
         return SetMillis("admission_timeout", value, [&](uint32_t ms) {
           line->flags.set_admission_timeout_ms(ms);
         });
       }},
      {"batch_timeout", "TIME",
       "maximum age of a batch that waits to be sent, while other batches wait "
       "for memory; an older one is taken back from its slow reader and made "
       "again later, unless it is the client's only one (2s)",
       [](const std::string& value, Line line) {
         return SetMillis("batch_timeout", value, [&](uint32_t ms) {
           line->flags.set_batch_timeout_ms(ms);
         });
       }},
      {"max_connections", "N",
       "maximum number of open connections; further ones are closed at once "
       "(by the limit of open files, ulimit -n)",
       [](const std::string& value, Line line) {
         return SetCount("max_connections", value, [&](uint32_t count) {
           line->flags.set_max_connections(count);
         });
       }},
      {"max_connections_per_peer", "N",
       "maximum number of open connections of one address (half of "
       "max_connections)",
       [](const std::string& value, Line line) {
         return SetCount("max_connections_per_peer", value,
                         [&](uint32_t count) {
                           line->flags.set_max_connections_per_peer(count);
                         });
       }},
      {"shutdown_grace", "TIME",
       "how long SIGTERM lets running streams finish (10s)",
       [](const std::string& value, Line line) {
         return SetMillis("shutdown_grace", value, [&](uint32_t ms) {
           line->flags.set_shutdown_grace_ms(ms);
         });
       }},
      {"local_socket", "PATH",
       "where clients of this machine ask for batches in shared memory; @NAME "
       "of the abstract namespace, or off (an abstract socket of a name that "
       "nobody else has)",
       [](const std::string& value, Line line) {
         line->flags.set_local_socket(value);
         return absl::OkStatus();
       }},
      {"refuse_synthetic", "",
       "make no synthetic data (millrace bench --synthetic), which needs no "
       "dataset",
       [](const std::string&, Line line) {
         line->flags.set_refuse_synthetic(true);
         return absl::OkStatus();
       }},
      {"synthetic_only", "",
       "start without a dataset: make synthetic data alone, for measurements",
       [](const std::string&, Line line) {
         line->flags.set_synthetic_only(true);
         return absl::OkStatus();
       }},
      {"config", "FILE",
       "read a configuration (proto/config.proto as text); flags go before it",
       [](const std::string& value, Line line) {
         line->config_file = value;
         return absl::OkStatus();
       }},
      {"port_file", "FILE", "write the port to FILE once it is listened on",
       [](const std::string& value, Line line) {
         line->port_file = value;
         return absl::OkStatus();
       }},
      {"check_config", "",
       "check the configuration, open its datasets, print what it comes to "
       "and exit",
       [](const std::string&, Line line) {
         line->check_config = true;
         return absl::OkStatus();
       }},
      {"check_pipeline", "FILE",
       "with --check_config: also check that the batches of this pipeline (a "
       "spec as text) fit into the memory",
       [](const std::string& value, Line line) {
         line->check_pipeline = value;
         return absl::OkStatus();
       }},
      {"parse_config", "", "as --check_config, without opening the datasets",
       [](const std::string&, Line line) {
         line->parse_config = true;
         return absl::OkStatus();
       }},
      {"version", "", "print the version and exit",
       [](const std::string&, Line line) {
         line->version = true;
         return absl::OkStatus();
       }},
      {"help", "", "print this and exit",
       [](const std::string&, Line line) {
         line->help = true;
         return absl::OkStatus();
       }},
  };
  return *flags;
}

// Edits that make one word of the other.
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
                       "` is no flag; datasets are named with "
                       "--dataset=NAME=URI, --help lists the flags"));
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
  if (!line.check_pipeline.empty() && !line.check_config) {
    return absl::InvalidArgumentError(
        "--check_pipeline needs --check_config: without it nothing is checked "
        "and the server serves");
  }
  return line;
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
      if (dataset.weight() != 0) same->set_weight(dataset.weight());
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
      "Flags (defaults in brackets):\n";
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
