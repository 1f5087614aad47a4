// A job over a link that flips bits which TCP's checksum lets pass. One server,
// so that no other can help: what was damaged is sent again once, and a link
// that damages the same step again ends the job with DataLoss, never as if the
// user had made a mistake. What spoils a connection of HTTP/2 ends with that
// connection.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "client/receive/server_queries.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/tcp_gate.h"

namespace millrace {
namespace {

using ::millrace::testing::TcpGate;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSamples = 1000;
constexpr uint64_t kBatch = 50;
constexpr uint64_t kSteps = kSamples / kBatch;
constexpr int kAlways = 1'000'000;

class DamagedLinkTest : public testing::ServiceTest {
 protected:
  DamagedLinkTest() : server_(Serve()), gate_(server_->port()) {
    const auto loader = Open(Options());
    plan_ = loader->plan();
    payloads_ = ReceiveBytes(*loader, kSteps);
  }

  static std::unique_ptr<testing::ServerProcess> Serve() {
    return ServiceTest::Serve({Digits(kSamples), "--threads=2",
                               "--memory_budget=256MiB", "--send_timeout=1s"});
  }
  HostLoaderOptions Options() const {
    return ServiceTest::Options(gate_.address(), kBatch);
  }

  // The status of OpenHostLoader(), or of the Next() that failed, or OK for the
  // whole epoch.
  absl::Status Receive() { return Receive(Options()); }
  absl::Status Receive(const HostLoaderOptions& options) {
    auto loader = receive::OpenHostLoader(options);
    if (!loader.ok()) return loader.status();
    for (uint64_t step = 0; step < kSteps; ++step) {
      const absl::StatusOr<HostBatch> batch = (*loader)->Next();
      if (!batch.ok()) return batch.status();
      EXPECT_EQ(BytesOf(*batch), payloads_[step]) << "step " << step;
    }
    return absl::OkStatus();
  }

  // The same, and what was logged meanwhile.
  absl::Status Receive(const HostLoaderOptions& options, std::string& log) {
    ::testing::internal::CaptureStderr();
    const absl::Status status = Receive(options);
    log = ::testing::internal::GetCapturedStderr();
    return status;
  }

  // `pattern` passes the link unharmed but for the first time, then never.
  void ExpectOneMoreTry(const std::string& pattern) {
    gate_.Damage(pattern, 1);
    std::string log;
    const absl::Status once = Receive(Options(), log);
    EXPECT_TRUE(once.ok()) << once;
    EXPECT_EQ(gate_.damages(), 1);
    EXPECT_THAT(log, AllOf(HasSubstr("server " + gate_.address() + ": "),
                           HasSubstr("once")));

    gate_.Damage(pattern, kAlways);
    const absl::Status always = Receive();
    EXPECT_TRUE(absl::IsDataLoss(always)) << always;
    EXPECT_THAT(always.message(),
                AllOf(HasSubstr("server " + gate_.address() + ": "),
                      HasSubstr("damaged")));
    EXPECT_GE(gate_.damages(), 2);
  }

  const std::unique_ptr<testing::ServerProcess> server_;
  TcpGate gate_;
  OpenResponse plan_;
  std::vector<std::string> payloads_;
};

// Lines of a log that have `text`.
size_t CountLines(const std::string& log, const std::string& text) {
  size_t count = 0;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    count += absl::StrContains(line, text) ? 1 : 0;
  }
  return count;
}

// Every later call over the connection named the damaged method by its place in
// HPACK's table, and the job waited until its timeout.
TEST_F(DamagedLinkTest, AMethodThatWasDamagedSpoilsOneConnection) {
  const std::string method = "DataService/GetBatches";
  gate_.Damage(method, 1);
  std::string log;
  const absl::Status once = Receive(Options(), log);
  EXPECT_TRUE(once.ok()) << once;
  EXPECT_EQ(gate_.damages(), 1);
  EXPECT_EQ(CountLines(log, "over a new connection"), 1) << log;
  EXPECT_THAT(log, AllOf(HasSubstr("server " + gate_.address() + ": "),
                         HasSubstr("probably damaged on the way")));

  gate_.Damage(method, kAlways);
  HostLoaderOptions options = Options();
  options.next_timeout = absl::Seconds(2);
  const absl::Status always = Receive(options);
  EXPECT_FALSE(always.ok());
  EXPECT_THAT(always.message(), AllOf(HasSubstr(gate_.address()),
                                      HasSubstr("connections in a row"),
                                      HasSubstr("the link to it damages "
                                                "bytes")));
  // One connection for each backoff, which doubles up to 2 s.
  EXPECT_LE(gate_.damages(), 20);
}

// It was left out as one that does not serve the plan.
TEST_F(DamagedLinkTest, AServerBehindADamagedMethodIsNotLeftOut) {
  const auto other = Serve();
  HostLoaderOptions options = Options();
  absl::StrAppend(&options.endpoint, ",", other->address());
  gate_.Damage("DataService/GetBatches", 1);
  std::string log;
  const absl::Status status = Receive(options, log);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(gate_.damages(), 1);
  EXPECT_THAT(log, AllOf(HasSubstr("over a new connection"),
                         Not(HasSubstr("is not used"))));
}

// The server may send nothing more over a connection whose window it does not
// see grow.
TEST_F(DamagedLinkTest, AWindowThatWasDamagedSpoilsOneConnection) {
  // The head of a frame of 4 bytes, WINDOW_UPDATE, of stream 0, which is the
  // connection: it becomes one of stream 1 (RFC 9113, sections 4.1 and 6.9).
  const std::string head("\0\0\4\x8\0\0\0\0\0", 9);
  gate_.Damage(head, kAlways, /*connections=*/1);
  HostLoaderOptions options = Options();
  options.next_timeout = absl::Seconds(30);
  std::string log;
  const absl::Status status = Receive(options, log);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(gate_.damages(), 1);
  EXPECT_THAT(log, AllOf(HasSubstr("has taken nothing for 1s"),
                         HasSubstr("probably damaged on the way"),
                         HasSubstr("over a new connection")));
}

// The program ended with "no millrace-server answers there".
TEST_F(DamagedLinkTest, HeadersOfOpenThatWereDamagedAreSentAgain) {
  for (const char* header : {"DataService/Open", "trailers"}) {
    SCOPED_TRACE(header);
    gate_.Damage(header, 1);
    std::string log;
    const absl::Status once = Receive(Options(), log);
    EXPECT_TRUE(once.ok()) << once;
    EXPECT_EQ(gate_.damages(), 1);
    EXPECT_EQ(CountLines(log, "over a new connection"), 1) << log;
  }
  gate_.Damage("DataService/Open", kAlways);
  const absl::Status always = Receive();
  EXPECT_TRUE(absl::IsUnimplemented(always)) << always;
  EXPECT_THAT(always.message(),
              AllOf(HasSubstr("server " + gate_.address() + ": "),
                    HasSubstr("the second connection failed, too"),
                    HasSubstr("the link to it damages bytes")));
  EXPECT_EQ(gate_.damages(), 2);
}

// "No data server answers: check that millrace-server runs there", of the head
// of the first frame that a server sends.
TEST_F(DamagedLinkTest, TheBeginningOfAConnectionThatWasDamagedIsMadeAnew) {
  for (const bool to_server : {false, true}) {
    SCOPED_TRACE(to_server);
    // The type of the first frame; a letter of the preface of HTTP/2. gRPC
    // connects again by itself, or the client says that it does.
    gate_.DamageBit(to_server, 3, 0);
    const auto info = receive::DescribeDataset(gate_.address(), "digits");
    EXPECT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(gate_.damages(), 1);
  }
}

// The preset that DescribeDataset recommends was dropped, and a name that was
// damaged on the way to the server was a mistake of the user.
TEST_F(DamagedLinkTest, AnAnswerAboutADatasetIsRequestedAgain) {
  const auto good = receive::DescribeDataset(gate_.address(), "digits");
  ASSERT_TRUE(good.ok()) << good.status();
  ASSERT_FALSE(good->train_preset().empty());
  for (const std::string& pattern :
       {good->train_preset(), good->fingerprint(), good->name()}) {
    SCOPED_TRACE(pattern);
    gate_.Damage(pattern, 1);
    ::testing::internal::CaptureStderr();
    const auto once = receive::DescribeDataset(gate_.address(), "digits");
    const std::string log = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(once.ok()) << once.status();
    EXPECT_EQ(once->SerializeAsString(), good->SerializeAsString());
    EXPECT_EQ(gate_.damages(), 1);
    EXPECT_THAT(log, HasSubstr("damaged on the way"));

    gate_.Damage(pattern, kAlways);
    const absl::Status always =
        receive::DescribeDataset(gate_.address(), "digits").status();
    EXPECT_TRUE(absl::IsDataLoss(always)) << always;
    EXPECT_THAT(always.message(),
                AllOf(HasSubstr("damaged"), Not(HasSubstr("unknown dataset"))));
  }
}

// "This server has no dataset `digitr`", and "unknown preset".
TEST_F(DamagedLinkTest, ARequestToOpenIsNoMistakeOfTheUser) {
  ExpectOneMoreTry("digits");
  ExpectOneMoreTry("mnist");
}

// "The data differ": the only server was refused for good.
TEST_F(DamagedLinkTest, ARequestForBatchesIsSentAgain) {
  // Field 4, expected_fingerprint: OpenResponse has it as another field.
  ASSERT_EQ(plan_.fingerprint().size(), 32);
  ExpectOneMoreTry("\x22\x20" + plan_.fingerprint());
}

// The job ended with the only server.
TEST_F(DamagedLinkTest, ABatchIsRequestedAgain) {
  ASSERT_EQ(payloads_.size(), kSteps);
  const std::string& payload = payloads_[kSteps / 2];
  // In the first image, where pixels are not 0.
  const size_t pixels = payload.find_first_not_of('\0');
  ASSERT_NE(pixels, std::string::npos);
  ExpectOneMoreTry(payload.substr(pixels, 40));
}

}  // namespace
}  // namespace millrace
