// AllocationMeter says how much memory this program has allocated at most since
// it was made: the peak of what malloc and its relatives gave and did not get
// back, of all threads and libraries. Pages that are never touched count, too.
//
// One at a time. Linking it replaces malloc in the test; under sanitizers it
// listens to theirs.
//
//   AllocationMeter meter;
//   Decode(bytes);
//   EXPECT_LT(meter.peak(), 1 << 20);

#ifndef MILLRACE_TESTS_TESTING_ALLOCATION_METER_H_
#define MILLRACE_TESTS_TESTING_ALLOCATION_METER_H_

#include <cstdint>

namespace millrace {

class AllocationMeter {
 public:
  AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;

  // Bytes above what was allocated when the meter was made.
  int64_t peak() const;

 private:
  int64_t start_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTING_ALLOCATION_METER_H_
