// A client that writes HTTP/2 frames itself, to say what no HTTP/2 library
// would let it say.
//
//   const UniqueFd fd = ConnectTo(port);
//   Send(fd, Http2Preface() + Http2Frame(kHttp2Ping, 0, 0, "millrace"));

#ifndef MILLRACE_TESTS_TESTING_RAW_HTTP2_H_
#define MILLRACE_TESTS_TESTING_RAW_HTTP2_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/unique_fd.h"

namespace millrace::testing {

// Types and flags of frames: RFC 9113, 6.
inline constexpr uint8_t kHttp2Data = 0, kHttp2Headers = 1, kHttp2Reset = 3,
                         kHttp2Settings = 4, kHttp2Ping = 6;
inline constexpr uint8_t kHttp2EndStream = 1, kHttp2EndHeaders = 4,
                         kHttp2Ack = 1;

// A connection to this port of 127.0.0.1; a failure is one of the test.
UniqueFd ConnectTo(int port);

// Writes all of it, waiting for the peer to read.
void Send(const UniqueFd& fd, absl::string_view bytes);

std::string BigEndian(uint64_t value, int bytes);

// What a client says first.
std::string Http2Preface();

// RFC 9113, 4.1.
std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream,
                       absl::string_view payload);

// A header field that no table remembers (RFC 7541, 6.2.2), of any length,
// without Huffman's code.
std::string Http2Field(absl::string_view name, absl::string_view value);

// The header of a gRPC call of `method`, "/PACKAGE.SERVICE/NAME".
std::string GrpcHeader(absl::string_view method);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_RAW_HTTP2_H_
