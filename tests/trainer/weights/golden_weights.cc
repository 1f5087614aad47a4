#include "tests/trainer/weights/golden_weights.h"

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {

std::string WeightsPath(const std::string& name) {
  return "tests/testdata/trainer/weights/" + name;
}

std::vector<GoldenTensor> GoldenWeights(const std::string& file) {
  std::vector<GoldenTensor> tensors;
  const std::string text = ReadFile(WeightsPath("expected.txt"));
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    if (fields.size() != 5 || fields[0] != file) continue;
    GoldenTensor tensor;
    tensor.name = absl::StrReplaceAll(fields[1], {{"\\n", "\n"}});
    tensor.type = fields[2];
    for (const absl::string_view dim :
         absl::StrSplit(fields[3], ',', absl::SkipEmpty())) {
      tensor.shape.push_back(std::stoll(std::string(dim)));
    }
    tensor.values = absl::StrSplit(fields[4], ' ', absl::SkipEmpty());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace millrace::testing
