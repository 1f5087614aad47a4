// The address at which other machines of a job reach this one.

#ifndef MILLRACE_TRAINER_DDP_LOCAL_ADDRESS_H_
#define MILLRACE_TRAINER_DDP_LOCAL_ADDRESS_H_

#include <cstdint>
#include <string>

namespace millrace::ddp {

// The numeric address of the interface that routes to `host`, which may be this
// machine. When that is the loopback, as for a host name in /etc/hosts, the
// first other address. Empty: there is none. Sends nothing.
std::string LocalAddressTowards(const std::string& host, uint16_t port);

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_LOCAL_ADDRESS_H_
