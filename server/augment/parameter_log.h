// ParameterLog receives the values that transforms draw for a sample, for
// display (`millrace-data preview --explain`). A transform writes to a log only
// if it gets one. During training there is no log.
//
// One thread at a time.
//
//   if (log != nullptr) log->Add(place, "left 12, top 3");

#ifndef MILLRACE_SERVER_AUGMENT_PARAMETER_LOG_H_
#define MILLRACE_SERVER_AUGMENT_PARAMETER_LOG_H_

#include <cstdint>
#include <string>

namespace millrace::augment {

class ParameterLog {
 public:
  virtual ~ParameterLog() = default;

  // In a spec with several sources: the next samples belong to this source.
  virtual void BeginSource(uint32_t /*source*/) {}
  // The values added from here on were drawn for this sample; values before the
  // first call were drawn for the batch. A bad sample may be followed by its
  // substitute.
  virtual void BeginSample(int64_t /*index*/, uint64_t /*key*/) {}
  // The values added from here on were drawn for this field of the sample.
  virtual void BeginField(const std::string& /*field*/) {}

  // `what`: "brightness 1.13, hue -0.02". `place`: the place of the transform
  // in the spec.
  virtual void Add(uint32_t place, std::string what) = 0;
};

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_PARAMETER_LOG_H_
