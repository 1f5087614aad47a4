// Questions to servers that are just being restarted.

#include "client/receive/server_queries.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"

namespace millrace::receive {
namespace {

// The documentation promises retries until --timeout, and a trainer that was
// started together with its servers ended after the second refusal.
TEST(ServerQueriesTest, AServerThatCannotBeReachedIsAskedUntilTheTimeout) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 16), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size),
            0);
  std::atomic<int> connections = 0;
  std::thread door([&] {
    for (int fd = 0; (fd = accept(listener, nullptr, nullptr)) >= 0;) {
      ++connections;
      close(fd);
    }
  });
  const absl::Status status =
      DescribeDataset(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)),
                      "photos", absl::Seconds(4))
          .status();
  shutdown(listener, SHUT_RDWR);
  door.join();
  close(listener);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_GT(connections, 2);
}

}  // namespace
}  // namespace millrace::receive
