// The numbers of tests/testdata/trainer/optim.txt, which make_optim_golden.py
// beside it had Python's torch compute. Keys and numbers; no libtorch.

#ifndef MILLRACE_TESTS_TRAINER_OPTIM_GOLDEN_H_
#define MILLRACE_TESTS_TRAINER_OPTIM_GOLDEN_H_

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace millrace::testing {

class Golden {
 public:
  Golden() {
    std::ifstream file("tests/testdata/trainer/optim.txt");
    EXPECT_TRUE(file.is_open());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string key;
      words >> key;
      for (double value; words >> value;) numbers_[key].push_back(value);
    }
  }

  const std::vector<double>& operator[](const std::string& key) const {
    static const std::vector<double> kNone;
    const auto found = numbers_.find(key);
    EXPECT_NE(found, numbers_.end()) << key;
    return found == numbers_.end() ? kNone : found->second;
  }

 private:
  std::map<std::string, std::vector<double>> numbers_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TRAINER_OPTIM_GOLDEN_H_
