// WireShare gives the bytes on the network as a share of the payload: batches
// may be compressed on the network, or come in shared memory instead.
//
// It measures nothing itself. Pure function, safe from any thread.
//
//   // The same loaders, before and after.
//   const double share = WireShare(before, after);

#ifndef MILLRACE_CLIENT_CLI_WIRE_SHARE_H_
#define MILLRACE_CLIENT_CLI_WIRE_SHARE_H_

#include <vector>

#include "client/prefetch/host_loader.h"

namespace millrace::cli {

// 0 to 1, of the batches that arrived between `before` and `after`. Where none
// arrived, because all consumed batches had arrived before, of all batches that
// arrived so far. Stats count batches when they are consumed and bytes when
// they arrive, so the share is taken of arrived batches. Bytes of a batch that
// has only partly arrived are included: more than 1 can come only from them,
// and is returned as 1.
double WireShare(const std::vector<HostLoader::Stats>& before,
                 const std::vector<HostLoader::Stats>& after);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_WIRE_SHARE_H_
