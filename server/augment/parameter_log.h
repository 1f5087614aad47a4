// ParameterLog takes what a transform has drawn for a sample, for people
// (`millrace-data preview --explain`). Transforms write to it only when they
// are given one: there is none on the way of training.
//
// One thread at a time.
//
//   if (log != nullptr) log->Add(place, "left 12, top 3");

#ifndef MILLRACE_SERVER_AUGMENT_PARAMETER_LOG_H_
#define MILLRACE_SERVER_AUGMENT_PARAMETER_LOG_H_

#include <cstdint>
#include <string>

namespace millrace {

class ParameterLog {
 public:
  virtual ~ParameterLog() = default;
  // "brightness 1.13, hue -0.02"; `place` is the transform's in the spec.
  virtual void Add(uint32_t place, std::string what) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_PARAMETER_LOG_H_
