// ServerProbe requests a server's health over a new connection: a connect(), an
// HTTP/2 handshake and a call, as a new client would. Every answer counts as
// success, whatever health it reports.
//
// Not thread-safe: one thread polls it. What it leaves behind when it is given
// up ends on gRPC's threads.
//
//   std::unique_ptr<Probe> probe = NewServerProbe(address, bytes, [&](auto& me)
//   {
//     acceptor->LetIn(me);
//   });

#ifndef MILLRACE_SERVER_RPC_SERVER_PROBE_H_
#define MILLRACE_SERVER_RPC_SERVER_PROBE_H_

#include <sys/socket.h>

#include <functional>
#include <memory>

#include "server/rpc/watchdog.h"

namespace millrace::rpc {

// `announce` is told the probe's own address before it connects.
std::unique_ptr<Probe> NewServerProbe(
    const sockaddr_storage& address, socklen_t address_bytes,
    const std::function<void(const sockaddr_storage&)>& announce);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_SERVER_PROBE_H_
