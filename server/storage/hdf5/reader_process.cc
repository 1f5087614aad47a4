#include "server/storage/hdf5/reader_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/file_error.h"
#include "common/plug_in.h"
#include "common/status_macros.h"
#include "server/storage/chunks/stored_type.h"

namespace millrace::storage {
namespace {

constexpr char kProgram[] = "millrace-hdf5";
constexpr size_t kMaxMessage = 2000;

absl::StatusOr<std::string> FindProgram(const std::string& file) {
  std::vector<std::string> paths = PlugInPaths(kProgram);
  // The wheel of the server has all programs in one folder.
  if (!paths.empty()) {
    paths.push_back(
        absl::StrCat(FolderOf(FolderOf(paths.front())), "/", kProgram));
  }
  for (const std::string& path : paths) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return absl::NotFoundError(absl::StrCat(
      file, ": HDF5 files are read by the program ", kProgram,
      ", which is not found: there is no ", absl::StrJoin(paths, " and no "),
      "; copy the folder lib of the build along with this program"));
}

absl::Status CheckReadable(const std::string& file) {
  // Without O_NONBLOCK the open() of a FIFO waits for a writer.
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return fd.ok() ? absl::OkStatus() : FileError(errno, "open", file);
}

// Starts the program with `socket` as its input and output.
int Spawn(const std::string& program, const std::string& file, int socket,
          pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  // Threads of a server block signals, and ignore some.
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = kProgram;
  std::string protocol = kHdf5Protocol;
  std::string path = file;
  char* const arguments[] = {name.data(), protocol.data(), path.data(),
                             nullptr};
  // Its behaviour depends on no variable, except that a file on a network may
  // have no locks.
  std::string no_locks = "HDF5_USE_FILE_LOCKING=FALSE";
  char* const environment[] = {no_locks.data(), nullptr};
  const int error = posix_spawn(pid, program.c_str(), &actions, &attributes,
                                arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Whether the sizes of `set` are possible, so that no arithmetic on them
// overflows.
bool IsPossible(const Hdf5Dataset& set) {
  if (set.dims_size() == 0 || set.stored() < 0 ||
      set.stored() >= kStoredTypes) {
    return false;
  }
  uint64_t bytes =
      set.variable() && set.stored() == 0 ? 1 : set.element_bytes();
  if (bytes == 0 || bytes > kHdf5MaxRowBytes ||
      (set.stored() != 0 &&
       bytes != StoredBytes(static_cast<StoredType>(set.stored())))) {
    return false;
  }
  for (int i = 1; i < set.dims_size(); ++i) {
    if (set.dims(i) == 0 || set.dims(i) > kHdf5MaxRowBytes / bytes) {
      return false;
    }
    bytes *= set.dims(i);
  }
  const uint64_t rows = set.dims(0);
  if (rows > uint64_t{INT64_MAX} / bytes) return false;
  if (set.chunk_offsets_size() == 0) return true;
  return set.chunk_rows() > 0 && rows > 0 &&
         (rows - 1) / set.chunk_rows() + 1 ==
             static_cast<uint64_t>(set.chunk_offsets_size());
}

}  // namespace

uint64_t RowBytes(const Hdf5Dataset& set) {
  uint64_t bytes = set.element_bytes();
  for (int i = 1; i < set.dims_size(); ++i) bytes *= set.dims(i);
  return bytes;
}

absl::Span<const uint8_t> RowBlock::row(uint64_t row) const {
  const uint64_t i = row - first_;
  const uint64_t begin = i == 0 ? start_ : ends_[i - 1];
  return {reinterpret_cast<const uint8_t*>(reply_.data()) + begin,
          ends_[i] - begin};
}

absl::StatusOr<std::unique_ptr<ReaderProcess>> ReaderProcess::Start(
    const std::string& file) {
  MR_RETURN_IF_ERROR(CheckReadable(file));
  MR_ASSIGN_OR_RETURN(const std::string program, FindProgram(file));
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return FileError(errno, "make a socket to read", file);
  }
  UniqueFd ours(sockets[0]);
  UniqueFd theirs(sockets[1]);
  pid_t pid;
  if (const int error = Spawn(program, file, theirs.get(), &pid); error != 0) {
    return FileError(error, "start", program);
  }
  // Otherwise the end of the process would not be that of the socket.
  theirs.Reset();
  auto process =
      absl::WrapUnique(new ReaderProcess(file, std::move(ours), pid));
  MR_RETURN_IF_ERROR(process->ReadLayout());
  return process;
}

ReaderProcess::~ReaderProcess() { Stop(); }

void ReaderProcess::Stop() {
  socket_.Reset();
  if (pid_ < 0) return;
  // It holds nothing that could be lost.
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

absl::Status ReaderProcess::Ended() {
  // The end of its socket is that of the process; it is not killed here, so
  // that its own signal is known.
  if (pid_ >= 0) {
    while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  const bool too_long =
      WIFSIGNALED(wait_status_) && WTERMSIG(wait_status_) == SIGXCPU;
  return absl::DataLossError(absl::StrCat(
      file_, ": libhdf5 ",
      too_long ? "needed too much CPU time"
      : WIFSIGNALED(wait_status_)
          ? absl::StrCat("crashed (signal ", WTERMSIG(wait_status_), ")")
          : absl::StrCat("ended (exit code ", WEXITSTATUS(wait_status_), ")"),
      " while it read the file; the file is probably damaged: copy it again"));
}

bool ReaderProcess::ReceiveAll(void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t done = recv(socket_.get(), at, bytes, MSG_WAITALL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

absl::StatusOr<std::string> ReaderProcess::Receive() {
  Hdf5ReplyHead head;
  if (!ReceiveAll(&head, sizeof(head))) return Ended();
  // Nothing that libhdf5 has touched is trusted.
  if (head.bytes > kHdf5MaxReplyBytes + kHdf5BlockBytes) {
    Stop();
    return Ended();
  }
  std::string bytes(head.bytes, '\0');
  if (!ReceiveAll(bytes.data(), bytes.size())) return Ended();
  if (head.code == 0) return bytes;
  return absl::Status(static_cast<absl::StatusCode>(head.code),
                      absl::StrCat(file_, ": ", CleanText(bytes, kMaxMessage)));
}

absl::Status ReaderProcess::ReadLayout() {
  MR_ASSIGN_OR_RETURN(const std::string bytes, Receive());
  const auto damaged = [this] {
    return absl::DataLossError(
        absl::StrCat(file_, ": its structure is damaged; copy the file again"));
  };
  if (!layout_.ParseFromString(bytes)) return damaged();
  for (const Hdf5Dataset& set : layout_.datasets()) {
    if (set.left_out().empty() && !IsPossible(set)) return damaged();
  }
  return absl::OkStatus();
}

absl::StatusOr<RowBlock> ReaderProcess::Read(int set, uint64_t first,
                                             uint64_t max_rows) {
  if (pid_ < 0) return Ended();
  const Hdf5Request request = {.dataset = static_cast<uint64_t>(set),
                               .first = first,
                               .max_rows = max_rows};
  // A process that has ended is noticed by Receive().
  static_cast<void>(
      send(socket_.get(), &request, sizeof(request), MSG_NOSIGNAL));
  RowBlock block;
  MR_ASSIGN_OR_RETURN(block.reply_, Receive());
  const Hdf5Dataset& dataset = layout_.datasets(set);
  const std::string& reply = block.reply_;
  const auto wrong = [this] {
    Stop();
    return Ended();
  };
  uint64_t rows;
  if (reply.size() < sizeof(rows)) return wrong();
  std::memcpy(&rows, reply.data(), sizeof(rows));
  uint64_t at = sizeof(rows);
  if (rows == 0 || first >= dataset.dims(0) || rows > dataset.dims(0) - first) {
    return wrong();
  }
  if (dataset.variable() && rows > (reply.size() - at) / sizeof(uint64_t)) {
    return wrong();
  }
  const char* lengths = reply.data() + at;
  if (dataset.variable()) at += rows * sizeof(uint64_t);
  block.first_ = first;
  block.start_ = at;
  block.ends_.reserve(dataset.variable() ? rows : 0);
  const uint64_t fixed = dataset.variable() ? 0 : RowBytes(dataset);
  for (uint64_t i = 0; i < rows; ++i) {
    uint64_t length = fixed;
    if (dataset.variable()) {
      std::memcpy(&length, lengths + i * sizeof(length), sizeof(length));
    }
    if (length > reply.size() - at) return wrong();
    at += length;
    block.ends_.push_back(at);
  }
  if (at != reply.size()) return wrong();
  return block;
}

}  // namespace millrace::storage
