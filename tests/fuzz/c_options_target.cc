// Fuzz target of the options of the C interface: names and values as a program
// may pass them, one "name=value" on each line, and what a loader would be
// opened with. A 0 byte ends an argument, as in C.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/c/millrace.h"
#include "client/c/options.h"
#include "common/logging.h"
#include "common/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

// More would only take time: an unknown name is compared with every known one.
constexpr size_t kMaxLines = 40;

struct FreeOptions {
  void operator()(millrace_options* options) const {
    millrace_options_free(options);
  }
};

// An error is whole: it has the status, and a sentence in UTF-8.
void CheckError(millrace_status status, millrace_error* error) {
  MR_CHECK((status == MILLRACE_STATUS_OK) == (error == nullptr));
  if (error == nullptr) return;
  MR_CHECK(status == MILLRACE_STATUS_INVALID_ARGUMENT) << status;
  MR_CHECK(millrace_error_status(error) == status);
  const char* const message = millrace_error_message(error);
  MR_CHECK(std::strlen(message) > 0 && IsUtf8(message));
  MR_CHECK(std::strcmp(millrace_error_detail(error), "{}") == 0);
  millrace_error_free(error);
}

bool Run(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const std::unique_ptr<millrace_options, FreeOptions> options(
      millrace_options_new());
  bool all = lines.size() <= kMaxLines;
  if (!all) lines.resize(kMaxLines);
  for (const std::string& line : lines) {
    const size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    const std::string value =
        equals == line.npos ? "" : line.substr(equals + 1);
    millrace_error* error = nullptr;
    const millrace_status status = millrace_options_set(
        options.get(), name.c_str(), value.c_str(), &error);
    all = all && status == MILLRACE_STATUS_OK;
    CheckError(status, error);
  }
  millrace_error* error = nullptr;
  const millrace_status valid =
      millrace_options_validate(options.get(), &error);
  CheckError(valid, error);
  const absl::StatusOr<c::LoadRequest> request =
      c::MakeLoadRequest(options->values);
  MR_CHECK(request.ok() == (valid == MILLRACE_STATUS_OK)) << request.status();
  if (!request.ok()) return false;
  // What the rest of the client relies on.
  MR_CHECK(request->options.Validate().ok());
  MR_CHECK(request->options.spec.batch_size() > 0);
  MR_CHECK(request->options.spec.sources_size() > 0);
  return all;
}

std::vector<std::string> Seeds() {
  const std::string least =
      "endpoint=data-1:7001,[::1]:7002\ndataset=photos\nbatch_size=64\n";
  return {
      least + "preset=imagenet_train",
      least + "seed=18446744073709551615\nshuffle=sequential\nlast_batch=pad",
      least + "pipeline=seed: 7 transforms { decode_image {} }\noutputs=a,b",
      least + "rank=1\nworld_size=2\nstart_epoch=3\nstart_step=4\nepochs=0",
      least + "window=16\nsame_host=auto\nverify_payload=false",
      least + "window_bytes=1GiB\ninitial_window=8\nmemory=offered",
      least +
          "open_timeout=1s\nnext_timeout=5m\nstep_timeout=2.5\n"
          "hedge_share=0.1\nhedge_floor=0",
      least +
          "expected_plan_hash=00ff\nexpected_fingerprint=abc\n"
          "read_only=true\ncompression=zstd",
  };
}

std::vector<std::string> Words() {
  std::vector<std::string> words;
  for (size_t i = 0; i < millrace_option_count(); ++i) {
    words.push_back(std::string(millrace_option_name(i)) + "=");
  }
  return words;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds, .words = Words};
  return target;
}

}  // namespace millrace
