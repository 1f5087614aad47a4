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
#include "client/prefetch/retry_schedules.h"
#include "client/receive/call_error.h"
#include "client/receive/steady_deadline.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/byte_buffer.h"
#include "proto/error_detail.h"
#include "proto/wire/message_digest.h"

namespace millrace::receive {
namespace {

using Clock = SteadyTime::clock;

// gRPC may end a call this much before its deadline.
constexpr std::chrono::milliseconds kTimerSlack(10);
// Time between two looks at UnaryOptions::cancelled.
constexpr std::chrono::milliseconds kLookInterval(50);

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
std::optional<absl::Duration> AskAgainAfter(const absl::Status& result) {
  const absl::Duration delay = prefetch::kQuestionRetry.Delay();
  if (absl::IsUnavailable(result)) return delay;
  if (!absl::IsResourceExhausted(result)) return std::nullopt;
  const int64_t delay_ms = GetErrorDetail(result).retry_delay_ms();
  if (delay_ms <= 0) return std::nullopt;
  return std::max(delay, absl::Milliseconds(delay_ms));
}

// Whether the request to a server with this result may succeed over a new
// connection.
bool NeedsNewConnection(const absl::Status& result, bool insist) {
  switch (prefetch::DoubtOf(result)) {
    case prefetch::ConnectionDoubt::kNone:
      return false;
    case prefetch::ConnectionDoubt::kLost:
      // With `insist` the request is repeated anyway, and gRPC reconnects.
      return !insist;
    case prefetch::ConnectionDoubt::kSuspect:
    case prefetch::ConnectionDoubt::kDamaged:
      return true;
  }
  return false;
}

absl::Status CheckAnswer(const std::string& answer, uint64_t answer_seed,
                         const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerInitialMetadata();
  const bool declared = metadata.find(wire::kDigestKey) != metadata.end();
  if (wire::CheckDigest(answer, answer_seed, declared) !=
      wire::DigestCheck::kWrong) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      "the request or its answer was damaged on the way: the digest of the two "
      "does not match");
}

// The request to all servers, until each has a result. One thread; the queue's
// events are the calls' ends and the alarms.
class Inquiry {
 public:
  Inquiry(absl::Span<ServerChannel> servers, const std::string& method,
          const std::string& request, const UnaryOptions& options,
          const TakeAnswer& take)
      : servers_(servers),
        method_(method),
        with_digest_(wire::WithDigest(request)),
        answer_seed_(wire::AnswerSeed(with_digest_)),
        bytes_(ToByteBuffer(with_digest_)),
        options_(options),
        take_(take),
        no_answer_(absl::DeadlineExceededError(absl::StrCat(
            "no answer within ", absl::FormatDuration(options.timeout)))),
        deadline_(Clock::now() + absl::ToChronoMilliseconds(options.timeout)),
        give_up_(deadline_ + std::chrono::milliseconds(100)),
        askings_(servers.size()),
        results_(servers.size(), no_answer_),
        open_(servers.size()) {}
  ~Inquiry();
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;

  std::vector<absl::Status> Run();

 private:
  ServerChannel& ChannelOf(size_t i, size_t event) {
    return event == kFirst ? servers_[i] : askings_[i].second;
  }
  void Send(size_t i, size_t event);
  void SendOverNewConnection(size_t i, size_t event, absl::string_view why);
  // Watches the first call until it has been silent for too long.
  void Watch(size_t i);
  // The end of a call.
  void OnEnd(size_t i, size_t event);
  absl::Status ResultOf(size_t i, const Call& call);
  void OnAnswer(size_t i, size_t event);
  bool cancelled() const {
    return options_.cancelled != nullptr && options_.cancelled->load();
  }
  // Says in the results what has been tried.
  void Explain();

  const absl::Span<ServerChannel> servers_;
  const std::string& method_;
  const std::string with_digest_;  // the request
  const uint64_t answer_seed_;
  const grpc::ByteBuffer bytes_;  // of with_digest_
  const UnaryOptions& options_;
  const TakeAnswer& take_;
  const absl::Status no_answer_;
  const Clock::time_point deadline_;
  Clock::time_point give_up_;  // no event is waited for after this
  grpc::CompletionQueue queue_;
  std::vector<Asking> askings_;
  std::vector<absl::Status> results_;
  size_t open_;  // servers without a final result
  bool answered_ = false;
};

// gRPC writes into the Call until its event has come from the queue, so a Call
// is used again only when it is not `live`, and askings_ never grows.
void Inquiry::Send(size_t i, size_t event) {
  Call& call = askings_[i].calls[event];
  call.context = std::make_unique<grpc::ClientContext>();
  call.context->set_deadline(deadline_);
  call.context->AddMetadata(wire::kDigestKey, wire::kDigestValue);
  grpc::GenericStub stub(ChannelOf(i, event).channel);
  call.reader =
      stub.PrepareUnaryCall(call.context.get(), method_, bytes_, &queue_);
  call.reader->StartCall();
  call.reader->Finish(&call.answer, &call.status, TagOf(i, event));
  call.sent_at = Clock::now();
  call.live = true;
}

void Inquiry::SendOverNewConnection(size_t i, size_t event,
                                    absl::string_view why) {
  MR_LOG(WARNING) << "server " << servers_[i].address.text << ": " << why
                  << "; the request is sent again, once, over a new connection";
  ChannelOf(i, event) = MakeServerChannel(Address(servers_[i].address));
  Send(i, event);
}

void Inquiry::Watch(size_t i) {
  // The alarm may come long after the first call was sent again: the time is
  // compared with the call that is live now, and the alarm is set anew.
  if (options_.silence >= options_.timeout) return;
  Asking& asking = askings_[i];
  const auto silence = absl::ToChronoMilliseconds(options_.silence);
  Clock::time_point next = Clock::now() + silence;
  if (asking.calls[kFirst].live) {
    next = asking.calls[kFirst].sent_at + silence;
    if (next <= Clock::now()) {
      if (asking.reconnected) return;
      asking.reconnected = true;
      // Not in the first one's place: a busy server may be about to answer.
      SendOverNewConnection(
          i, kSecond,
          absl::StrCat("no answer within ",
                       absl::FormatDuration(options_.silence)));
      return;
    }
  }
  if (next < deadline_) asking.silence.Set(&queue_, next, TagOf(i, kSilence));
}

absl::Status Inquiry::ResultOf(size_t i, const Call& call) {
  if (call.status.ok()) {
    const std::string answer = ToString(call.answer);
    const absl::Status whole = CheckAnswer(answer, answer_seed_, *call.context);
    return whole.ok() ? take_(i, answer) : whole;
  }
  if (call.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
      Clock::now() + kTimerSlack >= deadline_) {
    return no_answer_;  // our own deadline
  }
  return CallError(call.status, with_digest_.size(), answer_seed_);
}

void Inquiry::OnAnswer(size_t i, size_t event) {
  // The connection that answered is the caller's from now on. The first one is
  // dropped with its call, which has been cancelled.
  if (event == kSecond) servers_[i] = std::move(askings_[i].second);
  if (!answered_ && options_.grace < options_.timeout) {
    give_up_ = std::min(
        give_up_, Clock::now() + absl::ToChronoMilliseconds(options_.grace));
  }
  answered_ = true;
}

void Inquiry::OnEnd(size_t i, size_t event) {
  // In this order: leave the word to the other call, cancel it, repeat over a
  // new connection (damage once, doubt once), repeat over the same one after a
  // pause, and only then count the server as done.
  Asking& asking = askings_[i];
  const Call& other = asking.calls[event == kFirst ? kSecond : kFirst];
  absl::Status& result = results_[i];
  result = ResultOf(i, asking.calls[event]);
  asking.damaged_end |=
      prefetch::DoubtOf(result) == prefetch::ConnectionDoubt::kDamaged;
  const auto again = AskAgainAfter(result);
  if (other.live) {
    // What passes, or may be damage, leaves the word to the other call.
    if (!result.ok() && (again.has_value() || !HasErrorDetail(result))) {
      asking.damaged |= prefetch::IsDamaged(result);
      return;
    }
    other.context->TryCancel();
  }
  if (prefetch::IsDamaged(result) && !std::exchange(asking.damaged, true)) {
    SendOverNewConnection(i, event, result.message());
    return;
  }
  if (!asking.reconnected && NeedsNewConnection(result, options_.insist)) {
    asking.reconnected = true;
    SendOverNewConnection(
        i, event,
        absl::StrCat(result.message(),
                     asking.damaged_end
                         ? absl::StrCat("; ", prefetch::kProbablyDamaged)
                         : ""));
    return;
  }
  if (result.ok()) OnAnswer(i, event);
  if (options_.insist && !answered_ && again.has_value() &&
      SteadyDeadline(*again) < deadline_) {
    asking.pause.Set(&queue_, SteadyDeadline(*again), TagOf(i, kPause));
    return;
  }
  asking.done = true;
  --open_;
}

void Inquiry::Explain() {
  const bool in_time = Clock::now() < deadline_;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const Asking& asking = askings_[i];
    absl::Status& result = results_[i];
    if (cancelled() && !result.ok()) {
      result = absl::CancelledError("the call was cancelled");
      continue;
    }
    if ((asking.damaged || asking.damaged_end) && !result.ok() &&
        !HasErrorDetail(result)) {
      result = absl::Status(
          result.code(), absl::StrCat(result.message(),
                                      "; the second connection failed, too: ",
                                      prefetch::kDamagingLink));
    }
    if (asking.done || !absl::IsDeadlineExceeded(result)) continue;
    if (!in_time && asking.reconnected) {
      result = absl::DeadlineExceededError(
          absl::StrCat(no_answer_.message(), " over two connections"));
    }
    // Names the time that the server really had.
    if (in_time) {
      result = absl::DeadlineExceededError(absl::StrCat(
          "no answer within ", absl::FormatDuration(options_.grace),
          " after another server answered"));
    }
  }
}

std::vector<absl::Status> Inquiry::Run() {
  for (size_t i = 0; i < servers_.size(); ++i) {
    Send(i, kFirst);
    Watch(i);
  }
  while (open_ > 0) {
    // open_ falls once for each server, so the loop ends when all have a
    // result; otherwise at give_up_.
    void* tag = nullptr;
    bool ok = false;
    if (cancelled()) break;
    const auto arrived = queue_.AsyncNext(
        &tag, &ok,
        options_.cancelled == nullptr
            ? give_up_
            : std::min(give_up_, Clock::now() + kLookInterval));
    if (arrived == grpc::CompletionQueue::TIMEOUT && Clock::now() < give_up_) {
      continue;
    }
    if (arrived != grpc::CompletionQueue::GOT_EVENT) break;
    const size_t i = reinterpret_cast<size_t>(tag) / kEvents;
    const size_t event = reinterpret_cast<size_t>(tag) % kEvents;
    Asking& asking = askings_[i];
    if (event == kFirst || event == kSecond) asking.calls[event].live = false;
    // An alarm, or the end of a call that was cancelled, of a server whose
    // result is final.
    if (asking.done) continue;
    if (event == kSilence) {
      Watch(i);
    } else if (event == kPause) {
      Send(i, kFirst);
    } else {
      OnEnd(i, event);
    }
  }
  Explain();
  return results_;
}

// Calls and alarms end before what they refer to.
Inquiry::~Inquiry() {
  for (Asking& asking : askings_) {
    asking.pause.Cancel();
    asking.silence.Cancel();
    for (Call& call : asking.calls) {
      if (call.live) call.context->TryCancel();
    }
  }
  // Every call and alarm reports to the queue once more. The queue is drained
  // here, so that gRPC writes into no Call after this.
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
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
  return Inquiry(servers, method, request, options, take).Run();
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

}  // namespace millrace::receive
