// Runs programs in tests as their users do. A process ends with the test that
// started it, however the test ends.
//
//   ProgramResult r = RunProgram({ProgramPath("server/millrace-server"),
//                                 "--version"});
//   EXPECT_EQ(r.exit_code, 0);
//
// Not thread-safe; one thread handles a process.

#ifndef MILLRACE_TESTS_TESTING_SUBPROCESS_H_
#define MILLRACE_TESTS_TESTING_SUBPROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace millrace::testing {

// Path of a program that the test names in `data`, for example
// "server/millrace-server".
std::string ProgramPath(const std::string& target);

// A folder of the test's own, empty, removed by Bazel.
std::string NewTempDir();

std::string ReadFile(const std::string& path);  // "" when it cannot be read
void WriteFile(const std::string& path, const std::string& content);

// A running program whose output goes to files.
class Subprocess {
 public:
  // `arguments[0]` is the program's path. `environment`: NAME=VALUE, added to
  // the test's.
  explicit Subprocess(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment = {});
  ~Subprocess();  // kills it when it still runs
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number);
  bool Running();

  // Waits for the end: the exit code, or 128 + the signal's number. At
  // `timeout` it is killed and -1 is returned.
  int Wait(absl::Duration timeout = absl::Minutes(2));

  std::string Stdout() const { return ReadFile(stdout_path_); }
  std::string Stderr() const { return ReadFile(stderr_path_); }

 private:
  std::string stdout_path_;
  std::string stderr_path_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = -1;
};

struct ProgramResult {
  int exit_code = -1;  // as Subprocess::Wait
  std::string out;
  std::string err;
};

ProgramResult RunProgram(const std::vector<std::string>& arguments,
                         absl::Duration timeout = absl::Minutes(2));

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_SUBPROCESS_H_
