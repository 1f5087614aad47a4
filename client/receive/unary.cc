#include "client/receive/unary.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/prefetch/call_failure.h"
#include "client/prefetch/connection_doubt.h"
#include "client/receive/call_error.h"
#include "client/receive/steady_deadline.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/byte_buffer.h"
#include "proto/error_detail.h"
#include "proto/wire/message_digest.h"

namespace millrace {
namespace {

using Clock = SteadyTime::clock;

constexpr std::chrono::milliseconds kAskAgainAfter(200);
// gRPC may end a call this much before its deadline.
constexpr std::chrono::milliseconds kTimerSlack(10);

// The request to one server: a call, or the pause before the next call.
struct Asking {
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer answer;
  grpc::Status status;
  grpc::Alarm pause;
  bool pausing = false;
  bool damaged = false;  // a request or an answer was damaged
  bool reconnected = false;
  bool ends_early = false;   // UnaryOptions::silence sets its deadline
  bool damaged_end = false;  // a call has ended as no millrace-server ends it
  bool done = false;
};

// Delay before the request is repeated to a server with this result. Nullopt:
// the result is final.
std::optional<std::chrono::milliseconds> AskAgainAfter(
    const absl::Status& result) {
  if (absl::IsUnavailable(result)) return kAskAgainAfter;
  if (!absl::IsResourceExhausted(result)) return std::nullopt;
  const int64_t delay_ms = GetErrorDetail(result).retry_delay_ms();
  if (delay_ms <= 0) return std::nullopt;
  return std::max(kAskAgainAfter, std::chrono::milliseconds(delay_ms));
}

// Whether the request to a server with this result may succeed over a new
// connection.
bool NeedsNewConnection(const absl::Status& result, bool insist) {
  switch (DoubtOf(result)) {
    case ConnectionDoubt::kNone:
      return false;
    case ConnectionDoubt::kLost:
      // With `insist` the request is repeated anyway, and gRPC reconnects.
      return !insist;
    case ConnectionDoubt::kSuspect:
    case ConnectionDoubt::kDamaged:
      return true;
  }
  return false;
}

absl::Status CheckAnswer(const std::string& answer, uint64_t answer_seed,
                         const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerInitialMetadata();
  const bool declared = metadata.find(kDigestKey) != metadata.end();
  if (CheckDigest(answer, answer_seed, declared) != DigestCheck::kWrong) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      "the request or its answer was damaged on the way: the digest of the two "
      "does not match");
}

}  // namespace

absl::Status NoMessageError() {
  return absl::DataLossError(
      "it sent an answer that is not a message of the data service");
}

std::vector<absl::Status> AskServers(absl::Span<ServerChannel> servers,
                                     const std::string& method,
                                     const std::string& request,
                                     const UnaryOptions& options,
                                     const TakeAnswer& take) {
  const Clock::time_point deadline =
      Clock::now() + absl::ToChronoMilliseconds(options.timeout);
  Clock::time_point give_up = deadline + std::chrono::milliseconds(100);
  const std::string with_digest = WithDigest(request);
  const uint64_t answer_seed = AnswerSeed(with_digest);
  const grpc::ByteBuffer bytes = ToByteBuffer(with_digest);
  grpc::CompletionQueue queue;
  std::vector<Asking> askings(servers.size());
  std::vector<absl::Status> results(
      servers.size(),
      absl::DeadlineExceededError(absl::StrCat(
          "no answer within ", absl::FormatDuration(options.timeout))));

  const auto ask = [&](size_t i) {
    Asking& asking = askings[i];
    asking.pausing = false;
    asking.context = std::make_unique<grpc::ClientContext>();
    asking.ends_early =
        !asking.reconnected && options.silence < options.timeout;
    asking.context->set_deadline(
        asking.ends_early
            ? std::min(deadline, Clock::now() + absl::ToChronoMilliseconds(
                                                    options.silence))
            : deadline);
    asking.context->AddMetadata(kDigestKey, kDigestValue);
    grpc::GenericStub stub(servers[i].channel);
    asking.reader =
        stub.PrepareUnaryCall(asking.context.get(), method, bytes, &queue);
    asking.reader->StartCall();
    asking.reader->Finish(&asking.answer, &asking.status,
                          reinterpret_cast<void*>(i));
  };
  for (size_t i = 0; i < servers.size(); ++i) ask(i);

  size_t open = servers.size();
  bool answered = false;
  while (open > 0) {
    void* tag = nullptr;
    bool ok = false;
    const auto event = queue.AsyncNext(&tag, &ok, give_up);
    if (event != grpc::CompletionQueue::GOT_EVENT) break;
    const size_t i = reinterpret_cast<size_t>(tag);
    Asking& asking = askings[i];
    if (asking.pausing) {
      ask(i);
      continue;
    }
    if (asking.status.ok()) {
      const std::string answer = ToString(asking.answer);
      results[i] = CheckAnswer(answer, answer_seed, *asking.context);
      if (results[i].ok()) results[i] = take(i, answer);
    } else if (asking.ends_early && asking.status.error_code() ==
                                        grpc::StatusCode::DEADLINE_EXCEEDED) {
      results[i] = WithDoubt(
          absl::DeadlineExceededError(absl::StrCat(
              "no answer within ", absl::FormatDuration(options.silence))),
          ConnectionDoubt::kSuspect);
    } else if (asking.status.error_code() !=
                   grpc::StatusCode::DEADLINE_EXCEEDED ||
               Clock::now() + kTimerSlack < deadline) {
      // The call did not end by its own deadline.
      results[i] = CallError(asking.status, with_digest.size(), answer_seed);
    }
    if (IsDamaged(results[i]) && !std::exchange(asking.damaged, true)) {
      MR_LOG(WARNING) << "server " << servers[i].address.text << ": "
                      << results[i].message()
                      << "; the request is sent again, once, over a new "
                         "connection";
      servers[i] = MakeServerChannel(std::move(servers[i].address));
      ask(i);
      continue;
    }
    asking.damaged_end |= DoubtOf(results[i]) == ConnectionDoubt::kDamaged;
    if (!asking.reconnected && NeedsNewConnection(results[i], options.insist)) {
      asking.reconnected = true;
      MR_LOG(WARNING) << "server " << servers[i].address.text << ": "
                      << results[i].message()
                      << (asking.damaged_end
                              ? absl::StrCat("; ", kProbablyDamaged)
                              : "")
                      << "; the request is sent again, once, over a new "
                         "connection";
      servers[i] = MakeServerChannel(std::move(servers[i].address));
      ask(i);
      continue;
    }
    if (results[i].ok()) {
      if (!answered && options.grace < options.timeout) {
        give_up = std::min(
            give_up, Clock::now() + absl::ToChronoMilliseconds(options.grace));
      }
      answered = true;
    }
    const auto again = AskAgainAfter(results[i]);
    if (options.insist && !answered && again.has_value() &&
        Clock::now() + *again < deadline) {
      asking.pausing = true;
      asking.pause.Set(&queue, Clock::now() + *again,
                       reinterpret_cast<void*>(i));
      continue;
    }
    asking.done = true;
    --open;
  }

  const bool in_time = Clock::now() < deadline;
  for (size_t i = 0; i < servers.size(); ++i) {
    Asking& asking = askings[i];
    if ((asking.damaged || asking.damaged_end) && !results[i].ok() &&
        !HasErrorDetail(results[i])) {
      results[i] = absl::Status(
          results[i].code(),
          absl::StrCat(
              results[i].message(),
              "; a second connection has not helped: ", kDamagingLink));
    }
    if (asking.done) continue;
    if (!in_time && asking.reconnected &&
        absl::IsDeadlineExceeded(results[i])) {
      results[i] = absl::DeadlineExceededError(absl::StrCat(
          "no answer within ", absl::FormatDuration(options.timeout),
          " over two "
          "connections"));
    }
    // Names the time that the server really had.
    if (in_time && absl::IsDeadlineExceeded(results[i])) {
      results[i] = absl::DeadlineExceededError(
          absl::StrCat("no answer within ", absl::FormatDuration(options.grace),
                       " after another server answered"));
    }
    if (asking.pausing) {
      asking.pause.Cancel();
    } else {
      asking.context->TryCancel();
    }
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return results;
}

absl::Status NoAnswerError(absl::string_view endpoint,
                           absl::Span<const ServerChannel> servers,
                           absl::Span<const absl::Status> results) {
  // `first`: the first final error of a server; `passing`: the first
  // Unavailable that a server sent, which counts only without a final error.
  const absl::Status* first = nullptr;
  const absl::Status* passing = nullptr;
  std::string reasons;
  bool connected = false;  // with a server that has not answered in time
  for (size_t i = 0; i < servers.size(); ++i) {
    const absl::Status& status = results[i];
    if (status.ok()) continue;
    connected |= absl::IsDeadlineExceeded(status) &&
                 servers[i].channel != nullptr &&
                 servers[i].channel->GetState(/*try_to_connect=*/false) ==
                     GRPC_CHANNEL_READY;
    const bool final =
        !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
    if (final && first == nullptr) first = &status;
    // A status from the server has a detail, also for a dataset that failed.
    if (!final && HasErrorDetail(status) && passing == nullptr) {
      passing = &status;
    }
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ",
                    servers[i].address.text, ": ", status.message());
  }
  if (first == nullptr) first = passing;
  if (first != nullptr) {
    const absl::Status error(
        first->code(),
        absl::StrCat(servers.size() == 1 ? "server " : "", reasons));
    // Without a detail, the refusal does not come from a server.
    return HasErrorDetail(*first)
               ? WithErrorDetail(error, GetErrorDetail(*first))
               : error;
  }
  if (connected) {
    return absl::UnavailableError(absl::StrCat(
        "a data server at endpoint ", endpoint,
        " is connected and has not answered the request in time (", reasons,
        "); see what keeps it busy with `millrace status --endpoint=", endpoint,
        "`, or raise --timeout"));
  }
  return absl::UnavailableError(absl::StrCat(
      "no data server answers at endpoint ", endpoint, " (", reasons,
      "); check that millrace-server runs there and that its port is "
      "reachable"));
}

}  // namespace millrace
