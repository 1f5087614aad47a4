#include "tests/testing/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/time/clock.h"

namespace millrace::testing {
namespace {

std::string TestTempDir() {
  const char* folder = std::getenv("TEST_TMPDIR");
  return folder == nullptr ? "/tmp" : folder;
}

void Redirect(const std::string& path, int to) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || dup2(fd, to) < 0) _exit(126);
  close(fd);
}

}  // namespace

std::string ProgramPath(const std::string& target) {
  const char* root = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (root == nullptr || workspace == nullptr) return target;
  return std::string(root) + "/" + workspace + "/" + target;
}

std::string NewTempDir() {
  std::string path = TestTempDir() + "/test_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    std::perror("mkdtemp");
    std::abort();
  }
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    std::abort();
  }
}

Subprocess::Subprocess(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& environment) {
  const std::string folder = NewTempDir();
  stdout_path_ = folder + "/stdout";
  stderr_path_ = folder + "/stderr";
  // All memory is taken before the fork: other threads may hold locks of the
  // allocator then.
  std::vector<char*> argv;
  for (const std::string& a : arguments)
    argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (char** at = environ; *at != nullptr; ++at) envp.push_back(*at);
  for (const std::string& e : environment)
    envp.push_back(const_cast<char*>(e.c_str()));
  envp.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    std::perror("fork");
    std::abort();
  }
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    Redirect("/dev/null", STDIN_FILENO);
    Redirect(stdout_path_, STDOUT_FILENO);
    Redirect(stderr_path_, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
}

Subprocess::~Subprocess() {
  if (!ended_) {
    Signal(SIGKILL);
    Wait();
  }
}

void Subprocess::Signal(int number) {
  if (!ended_) kill(pid_, number);
}

bool Subprocess::Running() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  ended_ = true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

int Subprocess::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (Running()) {
    if (absl::Now() > deadline) {
      Signal(SIGKILL);
      waitpid(pid_, nullptr, 0);
      ended_ = true;
      return -1;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return exit_code_;
}

ProgramResult RunProgram(const std::vector<std::string>& arguments,
                         absl::Duration timeout) {
  Subprocess process(arguments);
  ProgramResult result;
  result.exit_code = process.Wait(timeout);
  result.out = process.Stdout();
  result.err = process.Stderr();
  return result;
}

}  // namespace millrace::testing
