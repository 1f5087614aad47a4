/* Measures how long the module `_millrace` of the Python client runs without
 * the interpreter's lock: an audit library of the dynamic linker
 * (rtld-audit(7)), so the module is measured as the wheel installs it.
 *
 * What it is not: a change of the module. PyEval_SaveThread() and
 * PyEval_RestoreThread(), as the module finds them, are the interpreter's with
 * a clock around them.
 *
 * Threads: counts calls of the main thread.
 *
 *   LD_AUDIT=lock_audit.so UNLOCKED_NANOSECONDS=FILE python3 ...
 *
 * FILE then holds an int64 in the machine's byte order: CPU time in ns that the
 * main thread has spent between the two functions. It is mapped, and changes
 * with each call. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void* (*save_thread)(void);
static void (*restore_thread)(void*);
static volatile int64_t* unlocked; /* written by the main thread */
static int64_t began;              /* of the main thread */

static int64_t ThreadNanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Two system calls, once a thread. */
static int IsMainThread(void) {
  static _Thread_local int known = -1;
  if (known < 0) known = syscall(SYS_gettid) == getpid();
  return known;
}

static void* SaveThread(void) {
  void* const state = save_thread();
  if (IsMainThread()) began = ThreadNanoseconds();
  return state;
}

static void RestoreThread(void* state) {
  if (IsMainThread()) *unlocked += ThreadNanoseconds() - began;
  restore_thread(state);
}

/* ---- What the dynamic linker calls -------------------------------------- */

unsigned int la_version(unsigned int version) {
  const char* const path = getenv("UNLOCKED_NANOSECONDS");
  const int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(*unlocked)) < 0) {
    dprintf(STDERR_FILENO,
            "lock_audit: cannot write the file of UNLOCKED_NANOSECONDS, '%s'\n",
            path == NULL ? "" : path);
    abort();
  }
  unlocked = mmap(NULL, sizeof(*unlocked), PROT_READ | PROT_WRITE, MAP_SHARED,
                  file, 0);
  if (unlocked == MAP_FAILED) abort();
  close(file);
  return version;
}

unsigned int la_objopen(struct link_map* object, Lmid_t namespace_id,
                        uintptr_t* cookie) {
  (void)namespace_id;
  (void)cookie;
  return strstr(object->l_name, "_millrace.abi3") != NULL
             ? LA_FLG_BINDFROM | LA_FLG_BINDTO
             : LA_FLG_BINDTO;
}

uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned int index, uintptr_t* from,
                       uintptr_t* to, unsigned int* flags, const char* name) {
  (void)index;
  (void)from;
  (void)to;
  (void)flags;
  if (strcmp(name, "PyEval_SaveThread") == 0) {
    save_thread = (void* (*)(void))symbol->st_value;
    return (uintptr_t)SaveThread;
  }
  if (strcmp(name, "PyEval_RestoreThread") == 0) {
    restore_thread = (void (*)(void*))symbol->st_value;
    return (uintptr_t)RestoreThread;
  }
  return symbol->st_value;
}
