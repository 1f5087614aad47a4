// A ParameterLog that keeps what was said last, and reads numbers from it.

#ifndef MILLRACE_TESTS_SERVER_AUGMENT_RECORDING_LOG_H_
#define MILLRACE_TESTS_SERVER_AUGMENT_RECORDING_LOG_H_

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "server/augment/parameter_log.h"

namespace millrace::augment {

class RecordingLog final : public ParameterLog {
 public:
  void Add(uint32_t place, std::string what) override {
    place_ = place;
    what_ = std::move(what);
    ++lines_;
  }

  uint32_t place() const { return place_; }
  const std::string& what() const { return what_; }
  int lines() const { return lines_; }

  // The number behind a word: 1.13 of "brightness 1.13; ...".
  std::optional<double> Number(const std::string& word) const {
    const size_t at = what_.rfind(word + " ");
    if (at == std::string::npos) return std::nullopt;
    return std::strtod(what_.c_str() + at + word.size() + 1, nullptr);
  }

 private:
  uint32_t place_ = 0;
  std::string what_;
  int lines_ = 0;
};

}  // namespace millrace::augment

#endif  // MILLRACE_TESTS_SERVER_AUGMENT_RECORDING_LOG_H_
