// Which part of what loaders received came over the network, of batches that
// may be packed there or come in shared memory instead.
//
// Pure function, safe from any thread.
//
//   const double share = WireShare(before, after);  // looks at the same
//   loaders

#ifndef MILLRACE_CLIENT_CLI_WIRE_SHARE_H_
#define MILLRACE_CLIENT_CLI_WIRE_SHARE_H_

#include <vector>

#include "client/prefetch/host_loader.h"

namespace millrace {

// The bytes that came over the network as a share of the payload, 0 to 1, of
// what arrived between the looks; where nothing did, as all batches that were
// taken had arrived before, of all that has arrived. Batches are counted when
// they are taken but bytes when they come, so what was asked for ahead is
// counted with the batches that it belongs to. Batches that had arrived in part
// are not: frames that packing would not make smaller are sent as they are, so
// more than 1 is only that, and 1.
double WireShare(const std::vector<HostLoader::Stats>& before,
                 const std::vector<HostLoader::Stats>& after);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_WIRE_SHARE_H_
