#include "tests/testing/service.h"

#include <signal.h>

#include <map>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/receive/open_host_loader.h"
#include "client/receive/server_queries.h"
#include "common/status_macros.h"
#include "tests/testing/digits.h"

namespace millrace::testing {
namespace {

absl::StatusOr<std::string> WriteSharedDigits(int samples) {
  const std::string uri = absl::StrCat("lmdb:", NewTempDir(), "/digits.lmdb");
  MR_RETURN_IF_ERROR(WriteDigits(uri, samples));
  return uri;
}

}  // namespace

std::string ServiceTest::Path(const std::string& name) const {
  return absl::StrCat(folder_, "/", name);
}

std::string ServiceTest::DigitsUri(int samples) {
  static auto* const written = new std::map<int, std::string>;
  std::string& uri = (*written)[samples];
  if (uri.empty()) uri = WriteSharedDigits(samples).value();
  return uri;
}

std::string ServiceTest::Digits(int samples) {
  return "--dataset=digits=" + DigitsUri(samples);
}

ProgramResult ServiceTest::RunServer(std::vector<std::string> flags) {
  flags.insert(flags.begin(), ProgramPath("server/millrace-server"));
  return RunProgram(flags);
}

std::unique_ptr<ServerProcess> ServiceTest::Serve(
    const std::vector<std::string>& flags, int port) {
  return ServerProcess::Start(flags, port).value();
}

void ServiceTest::Kill(ServerProcess& server) {
  server.process().Signal(SIGKILL);
  server.process().Wait();
}

GetStatusResponse ServiceTest::StatusOf(const ServerProcess& server) {
  return receive::GetServerStatus(server.address())
      .value()
      .front()
      .status.value();
}

std::string ServiceTest::EndpointOf(const ServerProcess& first,
                                    const ServerProcess& second) {
  return absl::StrCat(first.address(), ",", second.address());
}

PipelineSpec ServiceTest::DigitsSpec(uint64_t batch_size) {
  PipelineSpec spec;
  spec.set_preset("mnist");
  spec.add_sources()->set_dataset("digits");
  spec.set_batch_size(batch_size);
  spec.set_seed(11);
  return spec;
}

PipelineSpec ServiceTest::SyntheticSpec(uint64_t samples,
                                        const std::vector<int64_t>& shape,
                                        uint64_t batch_size) {
  PipelineSpec spec;
  Synthetic& synthetic = *spec.add_sources()->mutable_synthetic();
  synthetic.set_samples(samples);
  SyntheticField& field = *synthetic.add_fields();
  field.set_name("pixels");
  field.set_dtype(DTYPE_UINT8);
  for (const int64_t side : shape) field.add_shape(side);
  spec.set_batch_size(batch_size);
  return spec;
}

HostLoaderOptions ServiceTest::Options(const std::string& endpoint,
                                       uint64_t batch_size) {
  HostLoaderOptions options;
  options.endpoint = endpoint;
  options.spec = DigitsSpec(batch_size);
  options.window = 16;
  options.verify_payload = true;
  return options;
}

std::unique_ptr<HostLoader> ServiceTest::Open(
    const HostLoaderOptions& options) {
  return receive::OpenHostLoader(options).value();
}

cli::EpochAudit ServiceTest::ReceiveEpoch(
    HostLoader& loader, uint64_t steps, const std::function<void()>& disturb) {
  cli::EpochAudit audit;
  for (uint64_t step = 0; step < steps; ++step) {
    if (step == steps / 2) disturb();
    const absl::StatusOr<HostBatch> batch = loader.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return audit;
    EXPECT_EQ(batch->position, (Position{0, step}));
    const absl::Status added = audit.Add(batch->header, batch->payload);
    EXPECT_TRUE(added.ok()) << added;
  }
  EXPECT_TRUE(absl::IsOutOfRange(loader.Next().status()));
  return audit;
}

void ServiceTest::ExpectSameEpoch(const cli::EpochAudit& audit,
                                  const cli::EpochAudit& expected,
                                  uint64_t samples) {
  EXPECT_EQ(audit.samples(), samples);
  EXPECT_EQ(audit.distinct(), samples);
  EXPECT_EQ(audit.order_digest(), expected.order_digest());
  EXPECT_EQ(audit.content_digest(), expected.content_digest());
}

std::vector<std::string> ServiceTest::ReceiveBytes(
    HostLoader& loader, uint64_t steps, const std::function<void()>& disturb) {
  std::vector<std::string> batches;
  for (uint64_t step = 0; step < steps; ++step) {
    if (step == steps / 2) disturb();
    batches.push_back(BytesOf(loader.Next().value()));
  }
  return batches;
}

std::string ServiceTest::BytesOf(const HostBatch& batch) {
  return std::string(batch.payload.begin(), batch.payload.end());
}

bool ServiceTest::Soon(const std::function<bool()>& condition,
                       absl::Duration timeout) {
  const absl::Time give_up = absl::Now() + timeout;
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

}  // namespace millrace::testing
