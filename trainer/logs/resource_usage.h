// What this process has taken of the machine so far.
//
// Pure look at the system; safe from any thread.

#ifndef MILLRACE_TRAINER_LOGS_RESOURCE_USAGE_H_
#define MILLRACE_TRAINER_LOGS_RESOURCE_USAGE_H_

namespace millrace {

// CPU time of all threads, user and system, since the start of the process
// (getrusage). Children, as data servers of the same machine, are not in it.
double ProcessCpuSeconds();

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOGS_RESOURCE_USAGE_H_
