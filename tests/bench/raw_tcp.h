// One plain TCP stream of ready bytes, the measure for what gRPC makes of a
// link: the server writes one buffer again and again, the client reads it into
// another. No frames, no flow control but TCP's, the system's own buffers.
//
//   int port = ServeRawTcp("127.0.0.1", buffer);   // threads that never end
//   RawTcpStream stream("127.0.0.1:7002");
//   while (...) stream.Read(slot);

#ifndef MILLRACE_TESTS_BENCH_RAW_TCP_H_
#define MILLRACE_TESTS_BENCH_RAW_TCP_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace millrace {

// Listens on a free port of `host` (IPv4) and writes `bytes`, which must live
// as long as the process, to whoever connects. Dies when it cannot.
int ServeRawTcp(const std::string& host, absl::Span<const uint8_t> bytes);

class RawTcpStream {
 public:
  // Connects; dies when it cannot.
  explicit RawTcpStream(const std::string& address);
  ~RawTcpStream();
  RawTcpStream(const RawTcpStream&) = delete;
  RawTcpStream& operator=(const RawTcpStream&) = delete;

  // Fills `bytes`.
  void Read(absl::Span<uint8_t> bytes);

 private:
  int fd_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_BENCH_RAW_TCP_H_
