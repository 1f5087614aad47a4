// A TCP socket of the loopback that listens on a port of its own. Nobody ever
// accepts, which the kernel's answer to a connection does not need: a server
// that never says a word, or a port that is taken.
//
//   const Listener listener;
//   ASSERT_TRUE(listener.good());
//   ... listener.address() ...

#ifndef MILLRACE_TESTS_TESTING_LISTENER_H_
#define MILLRACE_TESTS_TESTING_LISTENER_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace millrace {

class Listener {
 public:
  explicit Listener(bool v6 = false)
      : fd_(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0)) {
    sockaddr_storage storage = {};
    socklen_t length = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    storage.ss_family = v6 ? AF_INET6 : AF_INET;
    if (v6) {
      reinterpret_cast<sockaddr_in6*>(&storage)->sin6_addr = in6addr_loopback;
    } else {
      reinterpret_cast<sockaddr_in*>(&storage)->sin_addr.s_addr =
          htonl(INADDR_LOOPBACK);
    }
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    good_ = fd_ >= 0 && bind(fd_, address, length) == 0 &&
            listen(fd_, 16) == 0 && getsockname(fd_, address, &length) == 0;
    port_ = ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  }
  ~Listener() { Close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  bool good() const { return good_; }
  int fd() const { return fd_; }
  int port() const { return port_; }
  // Of the IPv4 one.
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int fd_;
  bool good_ = false;
  int port_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTING_LISTENER_H_
