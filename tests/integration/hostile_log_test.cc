// A real server and peers that write what they like where HTTP/2 is expected.
// gRPC logs what it does not understand: on its own with the peer's bytes as
// they came, which forged lines, and a line each, which was 127 MB of one peer.

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/raw_http2.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/service.h"

namespace millrace {
namespace {

using testing::BigEndian;
using testing::ConnectTo;
using ::testing::HasSubstr;
using testing::Http2Field;
using testing::Http2Frame;
using testing::Http2Preface;
using testing::kHttp2Ack;
using testing::kHttp2EndHeaders;
using testing::kHttp2EndStream;
using testing::kHttp2Headers;
using testing::kHttp2Ping;
using testing::kHttp2Reset;
using testing::RpcClient;

// Ends the line that it stands in and looks like two of the server's own.
constexpr absl::string_view kForged =
    "x\nI 2026-11-23T00:00:00.000Z 1 main.cc:9] all is well, said a peer\n"
    "\x1b[2Jforged";

// Sends `bytes` and reads until `until` came, or the server closed the
// connection. What it sends is read all the time: it must not wait for us.
void Talk(const UniqueFd& fd, absl::string_view bytes,
          const std::string& until) {
  std::string received;
  char buffer[1 << 16];
  while (true) {
    pollfd polled = {fd.get(), POLLIN, 0};
    if (!bytes.empty()) polled.events |= POLLOUT;
    ASSERT_EQ(poll(&polled, 1, 60'000), 1) << "the server reads no more";
    if ((polled.revents & POLLIN) != 0) {
      const ssize_t n = recv(fd.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) return;
      received.append(buffer, n);
      if (!until.empty() && received.find(until) != std::string::npos) return;
    } else if ((polled.revents & POLLOUT) != 0) {
      const ssize_t n = send(fd.get(), bytes.data(), bytes.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) return;
      bytes.remove_prefix(n);
    } else {
      return;
    }
  }
}

// What a client says first, `frames`, and a ping whose answer shows that the
// server has read them.
void SpeakHttp2(int port, absl::string_view frames) {
  const std::string bytes = absl::StrCat(
      Http2Preface(), frames, Http2Frame(kHttp2Ping, 0, 0, "millrace"));
  Talk(ConnectTo(port), bytes,
       Http2Frame(kHttp2Ping, kHttp2Ack, 0, "millrace"));
}

// Each call has many fields that gRPC reads, does not understand and logs: one
// that is long, some that forge a line, and the rest for their number.
constexpr int kCalls = 200;
constexpr int kForgedFields = 10;
constexpr int kShortFields = 400;

std::string CallsWithBadMetadata() {
  std::string fields = Http2Field("te", std::string(3000, 'x'));
  for (int i = 0; i < kForgedFields; ++i) fields += Http2Field("te", kForged);
  for (int i = 0; i < kShortFields; ++i) fields += Http2Field("te", "x");
  std::string frames;
  for (int i = 0; i < kCalls; ++i) {
    const uint32_t stream = 2 * i + 1;
    frames += Http2Frame(kHttp2Headers, kHttp2EndStream | kHttp2EndHeaders,
                         stream, fields);
    frames += Http2Frame(kHttp2Reset, 0, stream, BigEndian(8, 4));
  }
  return frames;
}

void Attack(int port) {
  for (int i = 0; i < 50; ++i) Talk(ConnectTo(port), kForged, "");
  SpeakHttp2(port, CallsWithBadMetadata());
}

// Of text that is no UTF-8, too: protobuf has a log of its own.
void AskForADatasetOfNoName(const std::string& address, int times) {
  RpcClient client(address);
  for (int i = 0; i < times; ++i) {
    grpc::ClientContext context;
    DescribeDatasetRequest request;
    request.set_dataset("\xff\n");
    DescribeDatasetResponse response;
    EXPECT_EQ(client.stub()
                  .DescribeDataset(&context, request, &response)
                  .error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
}

// The lines of the place that logs `text`, with those that it says it has left
// out.
int LinesTold(const std::vector<std::string>& lines, const std::string& text) {
  std::string place;  // " hpack_parser.cc:1210"
  int told = 0;
  for (const std::string& line : lines) {
    const size_t end = line.find("] ");
    if (end == std::string::npos) continue;
    const size_t begin = line.rfind(' ', end);
    const std::string of = line.substr(begin, end - begin);
    const bool has_text = line.find(text) != std::string::npos;
    if (has_text) place = of;
    if (of != place) continue;
    told += has_text;
    std::smatch count;
    if (std::regex_search(line, count, std::regex("(\\d+) more of these"))) {
      told += std::stoi(count[1]);
    }
  }
  return told;
}

using HostileLogTest = testing::ServiceTest;

TEST_F(HostileLogTest, PeersNeitherForgeLinesNorFillTheLog) {
  auto server = Serve({"--synthetic_only"});
  Attack(server->port());
  AskForADatasetOfNoName(server->address(), 100);
  EXPECT_TRUE(RpcClient(server->address()).GetStatus().ok());
  EXPECT_EQ(server->Stop(), 0);

  const std::string log = server->process().Stderr();
  EXPECT_LT(log.size(), 20'000) << log.substr(0, 4000);
  const std::regex ours(
      R"re([IWEF] \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+ \S+:\d+\] )re");
  const std::vector<std::string> lines =
      absl::StrSplit(log, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    ASSERT_TRUE(
        std::regex_search(line, ours, std::regex_constants::match_continuous))
        << line;
    ASSERT_NE(line.rfind("I 2026-11-23T00:00:00.000Z", 0), 0) << line;
    ASSERT_EQ(line.find('\x1b'), std::string::npos) << line;
    ASSERT_LT(line.size(), 700) << line;
  }
  // What a peer did can be seen, and how often.
  EXPECT_THAT(log, HasSubstr("gRPC: Error parsing metadata"));
  EXPECT_THAT(log, HasSubstr("value=x\\nI 2026"));
  EXPECT_EQ(LinesTold(lines, "Error parsing metadata"),
            kCalls * (1 + kForgedFields + kShortFields));
  EXPECT_THAT(log, HasSubstr("protobuf: String field"));
}

}  // namespace
}  // namespace millrace
