#include "server/rpc/server_probe.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace millrace::rpc {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
// Max time to wait for a cancelled call.
constexpr int kCancelMs = 5000;

bool IsShortage(int reason) {
  return reason == EMFILE || reason == ENFILE || reason == ENOMEM ||
         reason == ENOBUFS || reason == EADDRNOTAVAIL;
}

absl::Status Failure(absl::string_view what, int reason) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(reason));
  return IsShortage(reason) ? absl::ResourceExhaustedError(text)
                            : absl::UnavailableError(text);
}

// Must not be destroyed in gRPC's callback: the destructor of the last channel
// joins the thread that runs callbacks (CallbackAlternativeCQ of gRPC 1.51).
struct Call {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<grpc::GenericStub> stub;
  grpc::ClientContext context;
  grpc::ByteBuffer request;  // an empty message: the server as a whole
  grpc::ByteBuffer response;
  std::atomic<bool> over{false};
  grpc::Status status;  // written before `over`
};

class ServerProbe final : public Probe {
 public:
  ServerProbe(const sockaddr_storage& address, socklen_t bytes,
              const std::function<void(const sockaddr_storage&)>& announce)
      : socket_(socket(address.ss_family,
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    if (!socket_.ok()) {
      failed_ = Failure("cannot open a socket", errno);
      return;
    }
    // Bound first, so that this probe knows its address before the server sees
    // it.
    sockaddr_storage own = address;
    SetAnyPort(&own);
    socklen_t own_bytes = bytes;
    if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&own), bytes) != 0 ||
        getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own),
                    &own_bytes) != 0) {
      failed_ = Failure("cannot bind a socket", errno);
      return;
    }
    // Before connect(): the server must know the address when the connection
    // arrives, to accept it whatever its limits are.
    announce(own);
    if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address),
                bytes) != 0 &&
        errno != EINPROGRESS) {
      failed_ = Failure("cannot connect", errno);
    }
  }

  ~ServerProbe() override {
    if (call_ == nullptr) return;
    // The callback writes into the call, so the call must outlive it.
    call_->context.TryCancel();
    for (int i = 0; i < kCancelMs; ++i) {
      if (call_->over.load(std::memory_order_acquire)) return;
      absl::SleepFor(absl::Milliseconds(1));
    }
    // gRPC is stuck and may still write into the call, so the call is leaked.
    (void)call_.release();
  }

  std::optional<absl::Status> Poll() override {
    if (!failed_.ok()) return failed_;
    if (call_ == nullptr) {
      pollfd polled = {socket_.get(), POLLOUT, 0};
      if (poll(&polled, 1, 0) <= 0) return std::nullopt;
      int reason = 0;
      socklen_t bytes = sizeof(reason);
      getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &reason, &bytes);
      if (reason != 0) return failed_ = Failure("cannot connect", reason);
      Ask();
    }
    if (!call_->over.load(std::memory_order_acquire)) return std::nullopt;
    // Any answer counts, except the errors of the transport itself.
    const grpc::Status& status = call_->status;
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
        status.error_code() == grpc::StatusCode::CANCELLED) {
      return absl::UnavailableError(status.error_message());
    }
    return absl::OkStatus();
  }

 private:
  static void SetAnyPort(sockaddr_storage* address) {
    if (address->ss_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(address)->sin6_port = 0;
    } else {
      reinterpret_cast<sockaddr_in*>(address)->sin_port = 0;
    }
  }

  void Ask() {
    call_ = std::make_unique<Call>();
    // gRPC takes ownership of the socket.
    call_->channel =
        grpc::CreateInsecureChannelFromFd("watchdog", socket_.Release());
    call_->stub = std::make_unique<grpc::GenericStub>(call_->channel);
    const grpc::Slice empty;
    call_->request = grpc::ByteBuffer(&empty, 1);
    call_->stub->UnaryCall(&call_->context, kMethod, grpc::StubOptions(),
                           &call_->request, &call_->response,
                           [call = call_.get()](grpc::Status status) {
                             call->status = std::move(status);
                             call->over.store(true, std::memory_order_release);
                           });
  }

  UniqueFd socket_;
  std::unique_ptr<Call> call_;  // null while connecting
  absl::Status failed_;
};

}  // namespace

std::unique_ptr<Probe> NewServerProbe(
    const sockaddr_storage& address, socklen_t address_bytes,
    const std::function<void(const sockaddr_storage&)>& announce) {
  return std::make_unique<ServerProbe>(address, address_bytes, announce);
}

}  // namespace millrace::rpc
