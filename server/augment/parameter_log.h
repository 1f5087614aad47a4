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

  // Of a spec with several sources: the next samples are of this one.
  virtual void BeginSource(uint32_t /*source*/) {}
  // What is added from here on was drawn for this sample; before the first one,
  // for the batch. A bad sample may be followed by what takes its place.
  virtual void BeginSample(int64_t /*index*/, uint64_t /*key*/) {}
  // From here on for this field of the sample.
  virtual void BeginField(const std::string& /*field*/) {}

  // "brightness 1.13, hue -0.02"; `place` is the transform's in the spec.
  virtual void Add(uint32_t place, std::string what) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_PARAMETER_LOG_H_
