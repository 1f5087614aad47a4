// Rolling upgrades: this release's client and server against what the first
// ones of protocol version 1 said (tests/testdata/protocol), and against peers
// that know more than this release does. A fleet is upgraded server by server
// under running jobs, so each must understand the other, or leave it out.
//
// The recording was written by this test, with MILLRACE_WRITE_PROTOCOL naming
// the folder. It is not written anew: that old peers are understood is the
// point. A later protocol version gets files of its own beside it. When the
// content revision is raised, the plan's hash and revision in the files are
// replaced, and nothing else.

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "proto/error_detail.h"
#include "proto/wire/version.h"
#include "tests/testing/recorded_server.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::google::protobuf::Message;
using ::google::protobuf::util::MessageDifferencer;
using ::millrace::testing::ProgramPath;
using ::millrace::testing::ReadRecording;
using ::millrace::testing::ReceivedBatch;
using ::millrace::testing::RecordedServer;
using ::millrace::testing::Recording;
using ::millrace::testing::RpcClient;
using ::millrace::testing::ServerProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The fingerprint in the recording is that of these digits.
constexpr int kSamples = 26;
constexpr uint64_t kBatch = 8;
constexpr uint64_t kSteps = 3;
// A field number that no version of any message has.
constexpr int kLaterField = 1000;

PipelineSpec RecordedSpec() {
  PipelineSpec spec;
  spec.set_preset("mnist");
  spec.add_sources()->set_dataset("digits");
  spec.set_batch_size(kBatch);
  spec.set_seed(3);
  return spec;
}

// What `old` says is said by `now`, too; fields that came later may be there.
std::string Missing(const Message& old, const Message& now) {
  MessageDifferencer differencer;
  differencer.set_scope(MessageDifferencer::PARTIAL);
  std::string report;
  differencer.ReportDifferencesToString(&report);
  if (differencer.Compare(old, now)) return "";
  return report.empty() ? "differs" : report;
}

void AddLaterField(Message* message) {
  message->GetReflection()->MutableUnknownFields(message)->AddVarint(
      kLaterField, 7);
}

std::vector<std::string> LinesWith(const std::string& text,
                                   const std::string& part) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StrContains(line, part)) lines.emplace_back(line);
  }
  return lines;
}

class UpgradeTest : public testing::ServiceTest {
 protected:
  static std::unique_ptr<ServerProcess> Serve() {
    return ServiceTest::Serve({Digits(kSamples)});
  }

  static HostLoaderOptions Options(const std::vector<std::string>& addresses) {
    HostLoaderOptions options;
    options.endpoint = absl::StrJoin(addresses, ",");
    options.spec = RecordedSpec();
    options.verify_payload = true;
    options.window = 2;
    options.next_timeout = absl::Seconds(30);
    return options;
  }

  // Receives the epoch and compares it with the recorded one.
  void ExpectTheRecordedEpoch(HostLoader& loader) const {
    for (uint64_t step = 0; step < kSteps; ++step) {
      const absl::StatusOr<HostBatch> batch = loader.Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      EXPECT_EQ(batch->position, (Position{0, step}));
      EXPECT_EQ(BytesOf(*batch), RecordedPayload(step));
    }
    EXPECT_TRUE(absl::IsOutOfRange(loader.Next().status()));
  }

  std::string RecordedPayload(uint64_t step) const {
    std::string payload;
    for (const Frame& frame : recording_.frames) {
      if (frame.step() == step) payload += frame.data();
    }
    return payload;
  }

  const Recording recording_ =
      ReadRecording(ProgramPath("tests/testdata/protocol"));
};

TEST_F(UpgradeTest, TheRecordingIsOfAVersionThatIsStillSpoken) {
  EXPECT_GE(recording_.request.protocol_version(), wire::kMinProtocolVersion);
  EXPECT_LE(recording_.request.protocol_version(), wire::kProtocolVersion);
  // Every version that is spoken has a recording.
  EXPECT_EQ(wire::kMinProtocolVersion, 1);
  EXPECT_EQ(wire::kProtocolVersion, 1);
}

TEST_F(UpgradeTest, TheClientTakesWhatAnEarlierServerSends) {
  RecordedServer old(recording_);
  const auto loader = Open(Options({old.address()}));
  ExpectTheRecordedEpoch(*loader);
}

TEST_F(UpgradeTest, TheServerAnswersAnEarlierClientAsItsOwnServerDid) {
  const std::unique_ptr<ServerProcess> server = Serve();
  RpcClient client(server->address());
  {
    grpc::ClientContext context;
    OpenResponse now;
    const grpc::Status status =
        client.stub().Open(&context, recording_.open_request, &now);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(Missing(recording_.open, now), "");
  }
  // Also when it has never opened anything: a restart in the middle.
  std::vector<ReceivedBatch> batches;
  const absl::Status status = client.GetBatches(recording_.request, &batches);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(batches.size(), kSteps);
  for (const ReceivedBatch& batch : batches) {
    const uint64_t step = batch.header.step();
    EXPECT_EQ(batch.payload, RecordedPayload(step));
    const auto first = std::find_if(
        recording_.frames.begin(), recording_.frames.end(),
        [step](const Frame& f) { return f.has_header() && f.step() == step; });
    ASSERT_NE(first, recording_.frames.end());
    EXPECT_EQ(Missing(first->header(), batch.header), "");
  }
}

TEST_F(UpgradeTest, ABusyServerIsAskedToOpenAgainAfterTheDelayThatItNames) {
  ErrorDetail detail = MakeErrorDetail("plan");
  detail.set_retry_delay_ms(50);
  const absl::Status busy = WithErrorDetail(
      absl::ResourceExhaustedError("no room for pipelines"), detail);
  RecordedServer server(recording_);
  server.RefuseOpens(2, busy);
  const auto loader = Open(Options({server.address()}));
  ExpectTheRecordedEpoch(*loader);
  // Without a delay the refusal is final.
  RecordedServer full(recording_);
  full.RefuseOpens(1, absl::ResourceExhaustedError("never"));
  EXPECT_TRUE(absl::IsResourceExhausted(
      receive::OpenHostLoader(Options({full.address()})).status()));
}

TEST_F(UpgradeTest, AnEarlierServerThatGoesIsFollowedByThisOne) {
  auto old = std::make_unique<RecordedServer>(recording_);
  const std::unique_ptr<ServerProcess> server = Serve();
  const auto loader = Open(Options({old->address(), server->address()}));
  old.reset();
  ExpectTheRecordedEpoch(*loader);
}

TEST_F(UpgradeTest, ThisServerThatGoesIsFollowedByAnEarlierOne) {
  RecordedServer old(recording_);
  std::unique_ptr<ServerProcess> server = Serve();
  const auto loader = Open(Options({server->address(), old.address()}));
  Kill(*server);
  ExpectTheRecordedEpoch(*loader);
  EXPECT_GT(old.batches_sent(), 0);
}

TEST_F(UpgradeTest, FieldsOfALaterServerAreSkipped) {
  Recording later = recording_;
  AddLaterField(&later.open);
  AddLaterField(later.open.mutable_tensors(0));
  for (Frame& frame : later.frames) {
    AddLaterField(&frame);
    if (frame.has_header()) AddLaterField(frame.mutable_header());
  }
  RecordedServer server(later);
  const auto loader = Open(Options({server.address()}));
  ExpectTheRecordedEpoch(*loader);
}

TEST_F(UpgradeTest, FieldsOfALaterClientAreSkippedOutsideOfTheSpec) {
  const std::unique_ptr<ServerProcess> server = Serve();
  RpcClient client(server->address());
  GetBatchesRequest request = recording_.request;
  AddLaterField(&request);
  std::vector<ReceivedBatch> batches;
  absl::Status status = client.GetBatches(request, &batches);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(batches.size(), kSteps);
  // What a spec asks for is never left out silently.
  request = recording_.request;
  AddLaterField(request.mutable_resolved_spec());
  batches.clear();
  status = client.GetBatches(request, &batches);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat(kLaterField)));
  EXPECT_TRUE(batches.empty());
}

TEST_F(UpgradeTest, AServerOfALaterProtocolIsRefusedWithASentence) {
  Recording later = recording_;
  later.open.set_protocol_version(wire::kProtocolVersion + 1);
  RecordedServer server(later);
  const auto loader = receive::OpenHostLoader(Options({server.address()}));
  EXPECT_TRUE(absl::IsFailedPrecondition(loader.status())) << loader.status();
  EXPECT_THAT(
      std::string(loader.status().message()),
      AllOf(HasSubstr(server.address()),
            HasSubstr(absl::StrCat("version ", wire::kProtocolVersion + 1))));
}

// Another content revision makes another plan hash of the same spec and data.
Recording OtherRevision(Recording recording) {
  recording.open.set_content_revision(recording.open.content_revision() + 1);
  recording.open.mutable_plan_hash()->front() ^= 1;
  return recording;
}

TEST_F(UpgradeTest, AServerOfAnotherContentRevisionIsLeftOutWithOneLine) {
  RecordedServer other(OtherRevision(recording_));
  RecordedServer first(recording_);
  const std::unique_ptr<ServerProcess> second = Serve();
  ::testing::internal::CaptureStderr();
  {
    HostLoaderOptions options =
        Options({other.address(), first.address(), second->address()});
    const auto loader = Open(options);
    ExpectTheRecordedEpoch(*loader);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::vector<std::string> lines = LinesWith(log, other.address());
  ASSERT_EQ(lines.size(), 1) << log;
  EXPECT_THAT(lines[0],
              HasSubstr(absl::StrCat("revision ",
                                     recording_.open.content_revision() + 1)));
  EXPECT_GT(other.calls(), 0);
  EXPECT_EQ(other.batches_sent(), 0);
}

// A server that is upgraded under a running job: it refuses the plan.
TEST_F(UpgradeTest, AServerThatRefusesThePlanIsLeftOutWithOneLine) {
  RecordedServer other(
      recording_,
      absl::FailedPreconditionError(
          "the plan differs: (content revision 77) of the same spec"));
  RecordedServer good(recording_);
  ::testing::internal::CaptureStderr();
  {
    const auto loader = Open(Options({other.address(), good.address()}));
    ExpectTheRecordedEpoch(*loader);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_GT(other.calls(), 0);
  EXPECT_EQ(other.batches_sent(), 0);
  EXPECT_EQ(LinesWith(log, "content revision 77").size(), 1) << log;
}

TEST_F(UpgradeTest, OnlyServersOfAnotherRevisionThanTheCheckpointsAreRefused) {
  RecordedServer other(OtherRevision(recording_));
  HostLoaderOptions options = Options({other.address()});
  options.expected_plan_hash = recording_.open.plan_hash();
  const auto loader = receive::OpenHostLoader(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(loader.status())) << loader.status();
  EXPECT_THAT(std::string(loader.status().message()),
              AllOf(HasSubstr(other.address()), HasSubstr("content revision")));
}

// Not a test: records, when it is asked to.
using RecordingTest = testing::ServiceTest;

TEST_F(RecordingTest, Write) {
  const char* folder = std::getenv("MILLRACE_WRITE_PROTOCOL");
  if (folder == nullptr) {
    GTEST_SKIP() << "MILLRACE_WRITE_PROTOCOL names no folder: nothing to write";
  }
  const auto server = Serve({Digits(kSamples)});
  RpcClient client(server->address());
  Recording recording;
  recording.open_request.set_protocol_version(wire::kProtocolVersion);
  *recording.open_request.mutable_spec() = RecordedSpec();
  recording.open_request.set_world_size(1);
  {
    grpc::ClientContext context;
    ASSERT_TRUE(client.stub()
                    .Open(&context, recording.open_request, &recording.open)
                    .ok());
  }
  recording.request = RpcClient::Request(recording.open, 0, kSteps);
  recording.request.set_with_payload_digest(true);
  grpc::ClientContext context;
  const auto reader = client.stub().GetBatches(&context, recording.request);
  Frame frame;
  while (reader->Read(&frame)) {
    // Differs from run to run, and the first servers did not fill it.
    if (frame.has_header()) frame.mutable_header()->clear_stage_micros();
    recording.frames.push_back(frame);
  }
  ASSERT_TRUE(reader->Finish().ok());
  std::stable_sort(
      recording.frames.begin(), recording.frames.end(),
      [](const Frame& a, const Frame& b) { return a.step() < b.step(); });
  testing::WriteRecording(recording, folder);
}

}  // namespace
}  // namespace millrace
