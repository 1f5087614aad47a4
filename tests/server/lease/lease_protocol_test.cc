// The packets of leases, as docs/protocol.md has them.

#include "server/lease/lease_protocol.h"

#include <fcntl.h>
#include <unistd.h>

#include <random>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::lease {
namespace {

using ::testing::HasSubstr;

// A string with the zero bytes of a literal.
template <size_t n>
std::string Bytes(const char (&literal)[n]) {
  return std::string(literal, n - 1);
}

TEST(LeaseProtocolTest, RequestsWithAndWithoutAName) {
  const auto plain =
      ParseLeaseRequest(Bytes("millrace-lease-1\0add\0lmdb:/data/a b\nc\0"));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->uri, "lmdb:/data/a b\nc");
  EXPECT_EQ(plain->name, "");
  const auto named =
      ParseLeaseRequest(Bytes("millrace-lease-1\0add\0lmdb:/a\0photos"));
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->name, "photos");
}

TEST(LeaseProtocolTest, OtherRequestsAreRefusedWithTheProtocolsName) {
  for (const std::string& packet :
       {Bytes(""), Bytes("GET / HTTP/1.1\r\n"), Bytes("millrace-lease-2\0add"),
        Bytes("millrace-lease-1"), Bytes("millrace-lease-1\0add\0lmdb:/a"),
        Bytes("millrace-lease-1\0add\0\0name"),
        Bytes("millrace-lease-1\0drop\0lmdb:/a\0"),
        Bytes("millrace-lease-1\0add\0lmdb:/a\0name\0more"),
        std::string(kMaxLeasePacketBytes + 1, 'a')}) {
    const auto request = ParseLeaseRequest(packet);
    ASSERT_FALSE(request.ok()) << packet;
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(request.status().message()),
                HasSubstr("this server speaks millrace-lease-1"));
  }
}

TEST(LeaseProtocolTest, ArraysHaveAFileAndOtherDataHaveNone) {
  const std::string arrays =
      Bytes("millrace-lease-1\0add\0memory:image,label\0");
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto taken = ParseLeaseRequest(arrays, UniqueFd(dup(file.get())));
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->uri, "memory:image,label");
  ASSERT_NE(taken->arrays, nullptr);
  EXPECT_TRUE(taken->arrays->ok());
  EXPECT_THAT(std::string(ParseLeaseRequest(arrays).status().message()),
              HasSubstr("no file attached"));
  EXPECT_THAT(
      std::string(ParseLeaseRequest(Bytes("millrace-lease-1\0add\0lmdb:/a\0"),
                                    UniqueFd(dup(file.get())))
                      .status()
                      .message()),
      HasSubstr("has a file attached"));
}

TEST(LeaseProtocolTest, AnyBytesAreParsed) {
  std::mt19937_64 random(7);
  const std::string good = Bytes("millrace-lease-1\0add\0lmdb:/a\0name");
  for (int i = 0; i < 20'000; ++i) {
    std::string packet = good;
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      packet[random() % packet.size()] = static_cast<char>(random());
    }
    packet.resize(random() % (packet.size() + 1));
    const auto request = ParseLeaseRequest(packet);
    if (request.ok()) {
      EXPECT_NE(request->uri, "");
      EXPECT_EQ(request->uri.find('\0'), std::string::npos);
    }
  }
}

TEST(LeaseProtocolTest, Answers) {
  EXPECT_EQ(EncodeLeaseAdded("127.0.0.1:7", {"data-1", "abc"}),
            Bytes("millrace-lease-1\0added\0"
                  "127.0.0.1:7\0data-1\0abc"));
  EXPECT_EQ(EncodeLeaseOpening(), Bytes("millrace-lease-1\0opening"));
  EXPECT_EQ(EncodeLeaseError(absl::NotFoundError(Bytes("no\0file"))),
            Bytes("millrace-lease-1\0error\0NOT_FOUND\0no\\000file"));
  const std::string cut =
      EncodeLeaseError(absl::DataLossError(std::string(100'000, 'x')));
  EXPECT_LE(cut.size(), kMaxLeasePacketBytes);
}

}  // namespace
}  // namespace millrace::lease
