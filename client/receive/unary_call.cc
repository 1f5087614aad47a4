#include "client/receive/unary_call.h"

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
#include "client/prefetch/connection_doubt.h"
#include "client/prefetch/retry_rule.h"
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

// One call of the request.
struct Call {
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer answer;
  grpc::Status status;
  Clock::time_point sent_at;
  bool live = false;  // sent, and its end has not been seen
};

// The request to one server. The second call goes over a connection of its own
// while the first is silent; otherwise only the first one is used.
struct Asking {
  Call calls[2];
  ServerChannel second;  // of the second call
  grpc::Alarm pause;     // before the request is sent again
  grpc::Alarm silence;   // when the first call may have been silent too long
  bool damaged = false;  // a request or an answer was damaged
  bool reconnected = false;
  bool damaged_end = false;  // a call has ended as no millrace-server ends it
  bool done = false;
};

// An event of the completion queue: of which server, and what. The first two
// are the ends of its calls.
enum Event : size_t { kFirst, kSecond, kPause, kSilence, kEvents };

void* TagOf(size_t server, size_t event) {
  return reinterpret_cast<void*>(server * kEvents + event);
}

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
  const absl::Status no_answer = absl::DeadlineExceededError(
      absl::StrCat("no answer within ", absl::FormatDuration(options.timeout)));
  std::vector<absl::Status> results(servers.size(), no_answer);

  const auto channel_of = [&](size_t i, size_t event) -> ServerChannel& {
    return event == kFirst ? servers[i] : askings[i].second;
  };
  const auto send = [&](size_t i, size_t event) {
    Call& call = askings[i].calls[event];
    call.context = std::make_unique<grpc::ClientContext>();
    call.context->set_deadline(deadline);
    call.context->AddMetadata(kDigestKey, kDigestValue);
    grpc::GenericStub stub(channel_of(i, event).channel);
    call.reader =
        stub.PrepareUnaryCall(call.context.get(), method, bytes, &queue);
    call.reader->StartCall();
    call.reader->Finish(&call.answer, &call.status, TagOf(i, event));
    call.sent_at = Clock::now();
    call.live = true;
  };
  const auto send_over_new_connection = [&](size_t i, size_t event,
                                            absl::string_view why) {
    MR_LOG(WARNING) << "server " << servers[i].address.text << ": " << why
                    << "; the request is sent again, once, over a new "
                       "connection";
    channel_of(i, event) = MakeServerChannel(Address(servers[i].address));
    send(i, event);
  };
  // Watches the first call until it has been silent for too long.
  const auto watch = [&](size_t i) {
    if (options.silence >= options.timeout) return;
    Asking& asking = askings[i];
    const auto silence = absl::ToChronoMilliseconds(options.silence);
    Clock::time_point next = Clock::now() + silence;
    if (asking.calls[kFirst].live) {
      next = asking.calls[kFirst].sent_at + silence;
      if (next <= Clock::now()) {
        if (asking.reconnected) return;
        asking.reconnected = true;
        // Not in the first one's place: a busy server may be about to answer.
        send_over_new_connection(
            i, kSecond,
            absl::StrCat("no answer within ",
                         absl::FormatDuration(options.silence)));
        return;
      }
    }
    if (next < deadline) asking.silence.Set(&queue, next, TagOf(i, kSilence));
  };
  for (size_t i = 0; i < servers.size(); ++i) {
    send(i, kFirst);
    watch(i);
  }

  size_t open = servers.size();
  bool answered = false;
  while (open > 0) {
    void* tag = nullptr;
    bool ok = false;
    const auto arrived = queue.AsyncNext(&tag, &ok, give_up);
    if (arrived != grpc::CompletionQueue::GOT_EVENT) break;
    const size_t i = reinterpret_cast<size_t>(tag) / kEvents;
    const size_t event = reinterpret_cast<size_t>(tag) % kEvents;
    Asking& asking = askings[i];
    if (event == kFirst || event == kSecond) asking.calls[event].live = false;
    if (asking.done) continue;
    if (event == kSilence) {
      watch(i);
      continue;
    }
    if (event == kPause) {
      send(i, kFirst);
      continue;
    }
    const Call& call = asking.calls[event];
    const Call& other = asking.calls[event == kFirst ? kSecond : kFirst];
    absl::Status& result = results[i];
    if (call.status.ok()) {
      const std::string answer = ToString(call.answer);
      result = CheckAnswer(answer, answer_seed, *call.context);
      if (result.ok()) result = take(i, answer);
    } else if (call.status.error_code() ==
                   grpc::StatusCode::DEADLINE_EXCEEDED &&
               Clock::now() + kTimerSlack >= deadline) {
      result = no_answer;  // our own deadline
    } else {
      result = CallError(call.status, with_digest.size(), answer_seed);
    }
    asking.damaged_end |= DoubtOf(result) == ConnectionDoubt::kDamaged;
    const auto again = AskAgainAfter(result);
    if (other.live) {
      // What passes, or may be damage, leaves the word to the other call.
      if (!result.ok() && (again.has_value() || !HasErrorDetail(result))) {
        asking.damaged |= IsDamaged(result);
        continue;
      }
      other.context->TryCancel();
    }
    if (IsDamaged(result) && !std::exchange(asking.damaged, true)) {
      send_over_new_connection(i, event, result.message());
      continue;
    }
    if (!asking.reconnected && NeedsNewConnection(result, options.insist)) {
      asking.reconnected = true;
      send_over_new_connection(
          i, event,
          absl::StrCat(
              result.message(),
              asking.damaged_end ? absl::StrCat("; ", kProbablyDamaged) : ""));
      continue;
    }
    if (result.ok()) {
      if (event == kSecond) servers[i] = std::move(asking.second);
      if (!answered && options.grace < options.timeout) {
        give_up = std::min(
            give_up, Clock::now() + absl::ToChronoMilliseconds(options.grace));
      }
      answered = true;
    }
    if (options.insist && !answered && again.has_value() &&
        Clock::now() + *again < deadline) {
      asking.pause.Set(&queue, Clock::now() + *again, TagOf(i, kPause));
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
  }
  for (Asking& asking : askings) {
    asking.pause.Cancel();
    asking.silence.Cancel();
    for (Call& call : asking.calls) {
      if (call.live) call.context->TryCancel();
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
