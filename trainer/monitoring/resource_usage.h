// The resources that this process has used.
//
// Reads the system's counters; safe from any thread.

#ifndef MILLRACE_TRAINER_MONITORING_RESOURCE_USAGE_H_
#define MILLRACE_TRAINER_MONITORING_RESOURCE_USAGE_H_

namespace millrace::monitoring {

// CPU time of all threads, user and system, since the start of the process
// (getrusage). Without children.
double ProcessCpuSeconds();

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_RESOURCE_USAGE_H_
