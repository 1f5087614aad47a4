// millrace-server ends with exit code 1 when new connections to its own port
// fail while its process lives: a supervisor then restarts it. The test shuts
// the server's listening socket down from outside. The watchdog needs 20 to 40
// seconds.

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::ContainsRegex;

bool ListensOn(int fd, int port) {
  int listens = 0;
  socklen_t bytes = sizeof(listens);
  sockaddr_in address = {};
  socklen_t address_bytes = sizeof(address);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 &&
         listens != 0 &&
         getsockname(fd, reinterpret_cast<sockaddr*>(&address),
                     &address_bytes) == 0 &&
         ntohs(address.sin_port) == port;
}

// A descriptor of this process for the socket on which the other one listens.
UniqueFd ListeningSocketOf(pid_t pid, int port) {
  // glibc 2.36 declares its functions for them without extern "C".
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  DIR* const folder = opendir(absl::StrCat("/proc/", pid, "/fd").c_str());
  if (folder == nullptr) return UniqueFd();
  const absl::Cleanup close = [folder] { closedir(folder); };
  while (const dirent* entry = readdir(folder)) {
    UniqueFd fd(static_cast<int>(
        syscall(SYS_pidfd_getfd, process.get(), std::atoi(entry->d_name), 0)));
    if (fd.ok() && ListensOn(fd.get(), port)) return fd;
  }
  return UniqueFd();
}

// Whether this machine has closed a connection to the port: the first one is
// that of the watchdog's first probe.
bool HasClosedConnectionTo(int port) {
  constexpr absl::string_view kTimeWait = "06";
  const std::string remote = absl::StrFormat("0100007F:%04X", port);
  for (const absl::string_view line :
       absl::StrSplit(testing::ReadFile("/proc/net/tcp"), '\n')) {
    // Number, local address, remote address, state.
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() > 3 && words[2] == remote && words[3] == kTimeWait) {
      return true;
    }
  }
  return false;
}

using UnreachableServerTest = testing::ServiceTest;

TEST_F(UnreachableServerTest, EndsWithAnErrorForItsSupervisor) {
  const auto server = Serve({"--synthetic_only"});
  testing::Subprocess& process = server->process();
  const int port = server->port();
  // A server that never reached itself is not watched.
  ASSERT_TRUE(
      Soon([port] { return HasClosedConnectionTo(port); }, absl::Seconds(60)))
      << "no probe was made";
  const UniqueFd listener = ListeningSocketOf(process.pid(), port);
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(shutdown(listener.get(), SHUT_RDWR), 0);
  EXPECT_EQ(process.Wait(absl::Seconds(90)), 1);
  EXPECT_THAT(process.Stderr(), ContainsRegex("3 probes.*Connection refused"));
}

}  // namespace
}  // namespace millrace
