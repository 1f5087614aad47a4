// millrace-hdf5 PROTOCOL FILE: reads an HDF5 file for millrace-server and
// millrace-data.
//
// libhdf5 is not thread-safe and can crash on damaged files. It is therefore
// linked into this program alone, whose limits are set before it opens the
// file, and whose end is an error of one dataset (reader_process.h). The
// messages are in reader_messages.h.

#include <fcntl.h>
#include <hdf5/serial/hdf5.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "server/storage/hdf5/chunk_offsets.h"
#include "server/storage/hdf5/file_scan.h"
#include "server/storage/hdf5/hdf5_handle.h"
#include "server/storage/hdf5/lzf_filter.h"
#include "server/storage/hdf5/reader_messages.h"
#include "server/storage/hdf5/row_reader.h"

namespace millrace::storage {
namespace {

constexpr rlim_t kMaxMemory = rlim_t{6} << 30;
constexpr rlim_t kMaxFileBytes = rlim_t{2} << 30;  // of the list of chunks
constexpr rlim_t kMaxFiles = 64;
// CPU time of one request: a damaged file can send libhdf5 into an endless
// loop. The longest sound ones, 8 MiB of rows or the structure of 4,096
// datasets, take a few seconds.
constexpr rlim_t kRequestSeconds = 60;

// Sanitizers map terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
constexpr bool kIsSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kIsSanitized = false;
#endif

void Limit(int resource, rlim_t value) {
  const struct rlimit limit = {value, value};
  setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

void LimitProcess() {
  // Descriptors of a server that are not closed at exec().
  close_range(STDERR_FILENO + 1, ~0U, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_FSIZE, kMaxFileBytes);
  Limit(RLIMIT_NOFILE, kMaxFiles);
  if (!kIsSanitized) Limit(RLIMIT_AS, kMaxMemory);
  // The program that started this one ends it, by the end of the requests.
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    signal(ignored, SIG_IGN);
  }
}

// Also in the middle of a request, which may never end.
void EndWithParent() {
  std::thread([] {
    struct pollfd requests = {
        .fd = STDIN_FILENO, .events = POLLRDHUP, .revents = 0};
    while (poll(&requests, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(EXIT_FAILURE);
  }).detach();
}

void LimitRequest() {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  struct rlimit limit;
  getrlimit(RLIMIT_CPU, &limit);
  limit.rlim_cur =
      static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
      kRequestSeconds;
  if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_CPU, &limit);
}

bool WriteAll(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = write(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

// False: there is no further request.
bool ReadRequest(Hdf5Request* request) {
  auto* at = reinterpret_cast<char*>(request);
  size_t bytes = sizeof(*request);
  while (bytes > 0) {
    const ssize_t done = read(STDIN_FILENO, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool Send(int fd, const absl::Status& status, const std::string& reply) {
  const std::string message(status.message());
  const std::string& bytes = status.ok() ? reply : message;
  const Hdf5ReplyHead head = {.code = static_cast<uint64_t>(status.code()),
                              .bytes = bytes.size()};
  return WriteAll(fd, &head, sizeof(head)) &&
         WriteAll(fd, bytes.data(), bytes.size());
}

// Whether another program has the file open for writing, as the superblock of
// version 3 notes.
bool IsBeingWritten(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char start[12] = {};
  return file.read(start, sizeof(start)) && start[8] == 3 &&
         (start[11] & 5) != 0;
}

absl::StatusOr<Hdf5Handle> OpenFile(const std::string& path) {
  const htri_t is_hdf5 = H5Fis_hdf5(path.c_str());
  if (is_hdf5 == 0) {
    return absl::DataLossError(
        "it is not an HDF5 file; name a file that h5py or libhdf5 wrote, or "
        "copy "
        "the file again");
  }
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (file.ok()) return file;
  const std::string reason = LastHdf5Error();
  if (IsBeingWritten(path)) {
    return absl::UnavailableError(
        "it is open for writing in another program, or that program ended "
        "without "
        "closing the file; close the file first, or repair it with "
        "`h5clear --status FILE`");
  }
  if (absl::StrContains(reason, "truncated")) {
    return absl::DataLossError(
        absl::StrCat("it is truncated (", reason, "); copy the file again"));
  }
  return absl::DataLossError(
      absl::StrCat("it is damaged, or of a newer version of HDF5 than libhdf5 ",
                   H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE,
                   " reads (", reason,
                   "); copy the file again, or write it again with "
                   "libver=('earliest', 'v110')"));
}

int Run(const std::string& path) {
  const int replies = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const absl::Status captured = CaptureStandardOutput();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  // Neither code nor other files by the wish of a file.
  H5PLset_loading_state(0);
  RegisterLzfFilter();
  const absl::StatusOr<Hdf5Handle> file =
      captured.ok() ? OpenFile(path) : captured;
  const absl::StatusOr<Hdf5Layout> layout =
      file.ok() ? ScanFile(file->get()) : file.status();
  if (!layout.ok()) {
    Send(replies, layout.status(), "");
    return EXIT_FAILURE;
  }
  if (!Send(replies, absl::OkStatus(), layout->SerializeAsString())) {
    return EXIT_FAILURE;
  }
  RowReader rows(file->get(), *layout);
  Hdf5Request request;
  std::string reply;
  while (ReadRequest(&request)) {
    LimitRequest();
    const absl::Status status = rows.Read(request, &reply);
    if (!Send(replies, status, reply)) return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace millrace::storage

int main(int argc, char** argv) {
  if (argc != 3) return EXIT_FAILURE;
  if (absl::string_view(argv[1]) != millrace::storage::kHdf5Protocol) {
    millrace::storage::Send(
        STDOUT_FILENO,
        absl::FailedPreconditionError(
            "millrace-hdf5 belongs to another version of this program; copy "
            "both from the same build"),
        "");
    return EXIT_FAILURE;
  }
  millrace::storage::LimitProcess();
  millrace::storage::LimitRequest();
  millrace::storage::EndWithParent();
  return millrace::storage::Run(argv[2]);
}
