// ResetServer speaks just enough HTTP/2 to end every stream with RST_STREAM, as
// proxies do when the server behind them is gone: connections stand and look
// healthy, and no call succeeds. It reads no header and answers no call.
//
// Thread-safe. Owns a thread, and one for each connection.
//
//   ResetServer server(/*code=*/2);  // INTERNAL_ERROR, RFC 9113, section 7
//   Connect(server.address());

#ifndef MILLRACE_TESTS_TESTING_RESET_SERVER_H_
#define MILLRACE_TESTS_TESTING_RESET_SERVER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace millrace::testing {

class ResetServer {
 public:
  explicit ResetServer(uint32_t code);
  ~ResetServer();
  ResetServer(const ResetServer&) = delete;
  ResetServer& operator=(const ResetServer&) = delete;

  std::string address() const;
  // Streams that were reset.
  uint64_t resets() const { return resets_; }

 private:
  void Accept();
  void Serve(int fd);

  const uint32_t code_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> resets_{0};
  // Of the accepting thread; read after it has ended.
  std::vector<int> connections_;
  std::vector<std::thread> serving_;
  std::thread thread_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_RESET_SERVER_H_
