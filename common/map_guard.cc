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
// may follow the list at any time, in any thread, also while an entry is
// changed. Entries of guards that are gone are used again, so there are at most
// as many as guards lived at one time.
//
// The handler may read an entry while it is changed for another map. `version`
// is even while the entry stands for no map, and rises with every change: an
// entry that has one odd version before and after its bounds were read had
// these bounds all the time. An entry that fails this test is not that of the
// faulting thread: the guard of the map that it reads lives, so its version
// does not change.
//
// Every access is sequentially consistent: the bounds are read between the two
// reads of the version, and are written before it becomes odd. Weaker orders
// would do with fences; faults are rare.
struct MapGuard::Entry {
  std::atomic<uint64_t> version{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  // Address of the first page that was replaced by zeros; UINTPTR_MAX: none.
  // Only falls while the entry stands for a map.
  std::atomic<uintptr_t> lost{UINTPTR_MAX};
  Entry* next = nullptr;  // constant once linked
};

namespace {

static_assert(std::atomic<uintptr_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

using Entry = MapGuard::Entry;

std::atomic<Entry*> entries{nullptr};

// Set before the handler is installed, constant from then on: the handler reads
// them without synchronisation.
struct sigaction previous;
uintptr_t page_bytes;

// Guards that take and give back entries. Never taken by the handler, which may
// interrupt a thread that holds it. Never destroyed: guards may live until the
// end of the process.
Mutex& EntriesMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

// Replaces the map from the page of `at` to its end by zeros. False: no guarded
// map is there, or the system refuses. Async-signal-safe: atomics and one
// system call.
bool PutZeros(uintptr_t at) {
  for (Entry* entry = entries.load(); entry != nullptr; entry = entry->next) {
    const uint64_t version = entry->version.load();
    if (version % 2 == 0) continue;
    const uintptr_t begin = entry->begin.load();
    const uintptr_t end = entry->end.load();
    if (entry->version.load() != version || at < begin || at >= end) continue;
    const uintptr_t page = at - at % page_bytes;
    // Noted before the zeros are there: a thread that reads zeros and then asks
    // lost() finds the note. Several threads may fault at once; the lowest page
    // wins, and what each of them maps begins at its own page, so every page
    // that is replaced is at or above the noted one.
    uintptr_t lost = entry->lost.load();
    while (page < lost && !entry->lost.compare_exchange_weak(lost, page)) {
    }
    // The system call itself: sanitizers wrap mmap(), and their wrapper is not
    // async-signal-safe. To the end of the map, not one page: what follows a
    // lost page is lost as a rule, and one fault is enough.
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
  // By default the signal ends the process. After a fault, the read is repeated
  // after the return, and ends the process at its own place; a signal that a
  // program sent has to be sent again.
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, nullptr);
  if (!from_kernel) raise(number);
}

void OnFault(int number, siginfo_t* info, void* context) {
  // The interrupted code may be about to read errno.
  const int error = errno;
  // si_code above 0: the kernel reports a fault, and si_addr is valid. A wrong
  // alignment is a bug of the program, wherever it happens.
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
  // Under the mutex no other guard changes a version, so an entry with an even
  // one is free.
  Entry* entry = entries.load();
  while (entry != nullptr && entry->version.load() % 2 != 0) {
    entry = entry->next;
  }
  const bool is_new = entry == nullptr;
  if (is_new) entry = new Entry;
  // The version is even: no handler looks at the bounds. It becomes odd after
  // they are complete.
  entry->begin.store(begin);
  entry->end.store(end);
  entry->lost.store(UINTPTR_MAX);
  entry->version.fetch_add(1);
  if (is_new) {
    // Linked last: a handler that finds the entry finds it whole.
    entry->next = entries.load();
    entries.store(entry);
  }
  return entry;
}

Entry* Guarded(const void* begin, size_t bytes) {
  // Once for the process, by whichever thread is first; the others wait for it.
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
  // Even from here on: the handler skips the entry. No thread may read the map
  // any more.
  entry_->version.fetch_add(1);
}

std::optional<uint64_t> MapGuard::lost() const {
  // begin is constant while this guard lives.
  const uintptr_t lost = entry_->lost.load();
  if (lost == UINTPTR_MAX) return std::nullopt;
  return lost - entry_->begin.load();
}

}  // namespace millrace
