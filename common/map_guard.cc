#include "common/map_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "common/mutex.h"

namespace millrace {

// A guarded map. Entries are linked once and never freed, so that the handler
// may follow the list at any time; those of guards that are gone are used
// again.
//
// The handler may read an entry while it is changed for another map. `version`
// is even while the entry stands for no map, and differs after every change: an
// entry whose version is not the same odd number before and after its bounds
// were read is not the faulting thread's, whose guard lives. Every access is
// sequentially consistent, which makes the three stores and loads an order.
struct MapGuard::Entry {
  std::atomic<uint64_t> version{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<uintptr_t> lost{UINTPTR_MAX};  // address of a page
  Entry* next = nullptr;                     // constant once linked
};

namespace {

static_assert(std::atomic<uintptr_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

using Entry = MapGuard::Entry;

std::atomic<Entry*> entries{nullptr};

// Set before the handler is installed, constant from then on.
struct sigaction previous;
uintptr_t page_bytes;

// Who takes and gives back entries.
Mutex& EntriesMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

// False: no guarded map lies there, or the system refuses.
bool PutZeros(uintptr_t at) {
  for (Entry* entry = entries.load(); entry != nullptr; entry = entry->next) {
    const uint64_t version = entry->version.load();
    if (version % 2 == 0) continue;
    const uintptr_t begin = entry->begin.load();
    const uintptr_t end = entry->end.load();
    if (entry->version.load() != version || at < begin || at >= end) continue;
    const uintptr_t page = at - at % page_bytes;
    // Before the zeros are there: who reads them finds the note.
    uintptr_t lost = entry->lost.load();
    while (page < lost && !entry->lost.compare_exchange_weak(lost, page)) {
    }
    // The system call itself: sanitizers wrap mmap().
    const long mapped =
        syscall(SYS_mmap, page, end - page, PROT_READ,
                MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped == static_cast<long>(page);
  }
  return false;
}

void Forward(int number, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
    return;
  }
  const bool from_kernel = info->si_code > 0;
  if (previous.sa_handler == SIG_IGN && !from_kernel) return;
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
    return;
  }
  // The read is tried again and ends the process, in its own place; a signal
  // that somebody sent has to be sent again.
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, nullptr);
  if (!from_kernel) raise(number);
}

void OnFault(int number, siginfo_t* info, void* context) {
  const int error = errno;
  // A wrong alignment is our own mistake, whatever lies there.
  const bool lost = info->si_code > 0 && info->si_code != BUS_ADRALN &&
                    PutZeros(reinterpret_cast<uintptr_t>(info->si_addr));
  if (!lost) Forward(number, info, context);
  errno = error;
}

void InstallHandler() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  sigaction(SIGBUS, nullptr, &previous);
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

Entry* Take(uintptr_t begin, uintptr_t end) {
  MutexLock lock(EntriesMutex());
  Entry* entry = entries.load();
  while (entry != nullptr && entry->version.load() % 2 != 0) {
    entry = entry->next;
  }
  const bool is_new = entry == nullptr;
  if (is_new) entry = new Entry;
  entry->begin.store(begin);
  entry->end.store(end);
  entry->lost.store(UINTPTR_MAX);
  entry->version.fetch_add(1);
  if (is_new) {
    entry->next = entries.load();
    entries.store(entry);
  }
  return entry;
}

Entry* Guarded(const void* begin, size_t bytes) {
  static const bool installed = (InstallHandler(), true);
  static_cast<void>(installed);
  const auto at = reinterpret_cast<uintptr_t>(begin);
  return Take(at, at + (bytes + page_bytes - 1) / page_bytes * page_bytes);
}

}  // namespace

MapGuard::MapGuard(const void* begin, size_t bytes)
    : entry_(Guarded(begin, bytes)) {}

MapGuard::~MapGuard() {
  MutexLock lock(EntriesMutex());
  entry_->version.fetch_add(1);
}

std::optional<uint64_t> MapGuard::lost() const {
  const uintptr_t lost = entry_->lost.load();
  if (lost == UINTPTR_MAX) return std::nullopt;
  return lost - entry_->begin.load();
}

}  // namespace millrace
