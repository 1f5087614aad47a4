#include "server/rpc/open_connections.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"

namespace millrace::rpc {
namespace {

// Descriptors reserved for files of datasets, shared memory, gRPC and other
// libraries: an eighth of the limit, at least 64. A choice.
constexpr uint64_t kMinOtherFiles = 64;
constexpr uint64_t kOtherFilesShare = 8;
// Lower bound of the accepted connections, whatever the limit of descriptors.
constexpr uint64_t kMinConnections = 8;
// Assumed limit of descriptors when the system reports none.
constexpr uint64_t kUnknownDescriptors = 65536;
// A smaller number of connections that follows from the limit of open files
// causes a warning. A choice: each client has a connection or more to each
// server.
constexpr uint64_t kFewConnections = 256;

// Min interval between two sweeps. A sweep is a system call for every
// connection; during a flood of connections at a limit, at most 10 sweeps run
// in a second. A choice.
constexpr std::chrono::milliseconds kSweepInterval{100};

}  // namespace

ConnectionLimits DefaultConnectionLimits(uint64_t descriptors, uint64_t open,
                                         const ConnectionLimits& asked) {
  if (descriptors == 0) descriptors = kUnknownDescriptors;
  const uint64_t others =
      open + std::max(kMinOtherFiles, descriptors / kOtherFilesShare);
  ConnectionLimits limits = asked;
  if (limits.total == 0) {
    limits.open_files = descriptors;
    limits.total = descriptors > others + kMinConnections ? descriptors - others
                                                          : kMinConnections;
  }
  // One address gets at most half of the connections.
  if (limits.per_peer == 0) {
    limits.per_peer = std::max<uint64_t>(1, limits.total / 2);
    limits.per_peer_is_half = true;
  }
  return limits;
}

std::string ConnectionsWarning(const ConnectionLimits& limits) {
  if (limits.open_files == 0) return "";
  const bool is_above = limits.per_peer > limits.total;
  if (!is_above && limits.total >= kFewConnections) return "";
  return absl::StrCat(
      "the limit of open files is ", limits.open_files,
      " (ulimit -n): the server accepts at most ",
      CountText(limits.total, "connection"),
      is_above ? ", fewer than --max_connections_per_peer, which is " : ", ",
      limits.per_peer, is_above ? "" : " of one address",
      ", and closes further connections; raise the limit of open files "
      "(ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of a container)");
}

uint64_t InodeOf(int fd) {
  struct stat found = {};
  if (fstat(fd, &found) != 0 || !S_ISSOCK(found.st_mode)) return 0;
  return found.st_ino;
}

std::string OpenConnections::Refusal(const std::string& peer, SteadyTime now) {
  const auto of_peer = [&] {
    const auto at = by_peer_.find(peer);
    return at == by_peer_.end() ? 0 : at->second;
  };
  // Ended connections are searched only when a limit is reached.
  if (by_fd_.size() >= limits_.total || of_peer() >= limits_.per_peer) {
    Sweep(now);
  }
  if (of_peer() >= limits_.per_peer) {
    return absl::StrCat(
        peer, " has ", CountText(of_peer(), "connection"), "; the maximum is ",
        limits_.per_peer, " for one address (",
        limits_.per_peer_is_half
            ? absl::StrCat("half of the maximum of ", limits_.total,
                           " for all addresses",
                           limits_.open_files == 0
                               ? " (--max_connections)"
                               : absl::StrCat(", which follows from the limit "
                                              "of open files: ulimit -n is ",
                                              limits_.open_files),
                           "; --max_connections_per_peer sets another maximum")
            : "--max_connections_per_peer",
        ")");
  }
  if (by_fd_.size() >= limits_.total) {
    return absl::StrCat(
        CountText(by_fd_.size(), "connection is", "connections are"),
        " open; the maximum is ", limits_.total,
        limits_.open_files == 0
            ? " (--max_connections)"
            : absl::StrCat(" (it follows from the limit of open files: ulimit "
                           "-n is ",
                           limits_.open_files, "; raise that limit)"));
  }
  return "";
}

void OpenConnections::Add(int fd, const std::string& peer, int port) {
  // The system reuses descriptors: the connection that had this descriptor has
  // ended.
  if (const auto old = by_fd_.find(fd); old != by_fd_.end()) Forget(old);
  by_fd_[fd] = {inode_of_(fd), peer, port};
  ++by_peer_[peer];
}

std::vector<int> OpenConnections::Find(
    const std::unordered_set<std::string>& names) const {
  std::vector<int> found;
  for (const auto& [fd, connection] : by_fd_) {
    if (names.count(absl::StrCat(connection.peer, ":", connection.port)) > 0 &&
        inode_of_(fd) == connection.inode) {
      found.push_back(fd);
    }
  }
  return found;
}

void OpenConnections::Forget(std::unordered_map<int, Connection>::iterator at) {
  const auto peer = by_peer_.find(at->second.peer);
  if (--peer->second == 0) by_peer_.erase(peer);
  by_fd_.erase(at);
}

void OpenConnections::Sweep(SteadyTime now) {
  if (now < next_sweep_) return;
  next_sweep_ = now + kSweepInterval;
  for (auto at = by_fd_.begin(); at != by_fd_.end();) {
    const auto next = std::next(at);
    if (inode_of_(at->first) != at->second.inode) Forget(at);
    at = next;
  }
}

}  // namespace millrace::rpc
