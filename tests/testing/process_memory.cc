#include "tests/testing/process_memory.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {

uint64_t AnonymousBytes(pid_t pid) {
  uint64_t bytes = 0;
  const std::string status = ReadFile(absl::StrCat("/proc/", pid, "/status"));
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t kib = 0;
    if (words.size() == 3 &&
        (words[0] == "RssAnon:" || words[0] == "RssShmem:") &&
        absl::SimpleAtoi(words[1], &kib)) {
      bytes += kib << 10;
    }
  }
  return bytes;
}

}  // namespace millrace::testing
