// What the files of tests/testdata/trainer/weights hold, as Python wrote it
// down beside them.

#ifndef MILLRACE_TESTS_TRAINER_WEIGHTS_GOLDEN_WEIGHTS_H_
#define MILLRACE_TESTS_TRAINER_WEIGHTS_GOLDEN_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::testing {

struct GoldenTensor {
  std::string name;
  std::string type;  // "float32"
  std::vector<int64_t> shape;
  std::vector<std::string> values;  // as Python prints them
};

std::string WeightsPath(const std::string& name);

// In the order of the file.
std::vector<GoldenTensor> GoldenWeights(const std::string& file);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TRAINER_WEIGHTS_GOLDEN_WEIGHTS_H_
