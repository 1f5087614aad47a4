#include "client/cli/bench_progress.h"

#include "absl/strings/str_cat.h"

namespace millrace::cli {

void BenchProgress::Round(uint32_t round, uint32_t rounds,
                          absl::string_view setting) {
  line_.Show(absl::StrCat("round ", round, " of ", rounds, ": ", setting));
}

}  // namespace millrace::cli
