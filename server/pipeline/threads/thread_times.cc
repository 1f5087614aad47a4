#include "server/pipeline/threads/thread_times.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>

#include "common/unique_fd.h"

namespace millrace::pipeline {

std::optional<ThreadTimes> ThreadTimes::Parse(std::string_view text) {
  uint64_t numbers[3];
  const char* at = text.data();
  const char* const end = at + text.size();
  for (uint64_t& number : numbers) {
    while (at != end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  // A kernel that does not count writes zeros. A thread that can be queried has
  // had a CPU at least once.
  if (numbers[2] == 0) return std::nullopt;
  return ThreadTimes{static_cast<double>(numbers[0]) * 1e-9,
                     static_cast<double>(numbers[1]) * 1e-9};
}

std::optional<ThreadTimes> ThreadTimes::Of(pid_t thread) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat",
                static_cast<int>(thread));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[96];
  ssize_t bytes;
  do {
    bytes = read(file, text, sizeof(text));
  } while (bytes < 0 && errno == EINTR);
  close(file);
  if (bytes <= 0) return std::nullopt;
  return Parse(std::string_view(text, static_cast<size_t>(bytes)));
}

int64_t ThisThreadsDelay() {
  static thread_local const UniqueFd file(
      open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  char text[96];
  const ssize_t bytes =
      file.ok() ? pread(file.get(), text, sizeof(text), 0) : 0;
  if (bytes <= 0) return 0;
  const std::optional<ThreadTimes> times =
      ThreadTimes::Parse(std::string_view(text, static_cast<size_t>(bytes)));
  return times.has_value() ? static_cast<int64_t>(times->delayed_seconds * 1e9)
                           : 0;
}

}  // namespace millrace::pipeline
