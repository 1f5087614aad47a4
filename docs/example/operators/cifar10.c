// A source that reads the binary version of CIFAR-10 (A. Krizhevsky, "Learning
// Multiple Layers of Features from Tiny Images", 2009) in place. A file has
// records of 3,073 bytes: the class, then 32 x 32 red, green and blue values,
// one plane after the other.
//
//   millrace-server --operators=cifar10.so --dataset=cifar=cifar10:FILE.bin

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace_operator.h"

enum { kSide = 32, kPlane = kSide * kSide, kRecord = 1 + 3 * kPlane };

static const char* const kClasses[10] = {
    "airplane", "automobile", "bird",  "cat",  "deer",
    "dog",      "frog",       "horse", "ship", "truck",
};

static const millrace_field kFields[2] = {
    {.name = "image",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_UINT8, 3, {kSide, kSide, 3}}},
    {.name = "label",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_INT64, 0, {0}},
     .num_classes = 10,
     .class_names = kClasses},
};

// An open dataset. Threads share it and only read it.
typedef struct {
  int file;
  char fingerprint[17];
} dataset;

// A reader, used by one thread, with the last sample that it has read.
typedef struct {
  int file;
  uint8_t record[kRecord];
  uint8_t image[3 * kPlane];
  int64_t label;
} reader;

// Reads `size` bytes at offset `at` of the file. Uses pread, because threads
// share the file and pread does not move a shared position.
static millrace_result read_at(int file, void* bytes, size_t size, int64_t at,
                               char* error) {
  uint8_t* to = bytes;
  while (size > 0) {
    const ssize_t n = pread(file, to, size, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return millrace_fail(MILLRACE_UNAVAILABLE, error, strerror(errno));
    if (n == 0) {
      return millrace_fail(MILLRACE_INVALID, error, "the file has been cut");
    }
    to += n;
    at += n;
    size -= (size_t)n;
  }
  return MILLRACE_OK;
}

// Hashes the content (FNV-1a, 64 bits). The path does not affect the hash.
static millrace_result hash_file(int file, int64_t bytes, char text[17],
                                 char* error) {
  uint64_t hash = 0xcbf29ce484222325u;
  uint8_t buffer[1 << 16];
  for (int64_t at = 0; at < bytes;) {
    const size_t n = bytes - at < (int64_t)sizeof(buffer) ? (size_t)(bytes - at)
                                                          : sizeof(buffer);
    const millrace_result result = read_at(file, buffer, n, at, error);
    if (result != MILLRACE_OK) return result;
    for (size_t i = 0; i < n; ++i) hash = (hash ^ buffer[i]) * 0x100000001b3u;
    at += (int64_t)n;
  }
  snprintf(text, 17, "%016llx", (unsigned long long)hash);
  return MILLRACE_OK;
}

static millrace_result open_dataset(const char* path,
                                    millrace_dataset* description,
                                    void** handle, char* error) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return millrace_fail(
        errno == ENOENT ? MILLRACE_NOT_FOUND : MILLRACE_INVALID, error,
        strerror(errno));
  }
  dataset* self = NULL;
  struct stat info;
  millrace_result result = MILLRACE_OK;
  if (fstat(file, &info) != 0 || info.st_size == 0 ||
      info.st_size % kRecord != 0) {
    result = millrace_fail(MILLRACE_INVALID, error,
                           "no CIFAR-10 file: its size is no multiple of 3073");
  } else if ((self = malloc(sizeof(dataset))) == NULL) {
    result = millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
  } else {
    self->file = file;
    result = hash_file(file, info.st_size, self->fingerprint, error);
  }
  if (result != MILLRACE_OK) {
    free(self);
    close(file);
    return result;
  }
  description->samples = info.st_size / kRecord;
  description->fields = kFields;
  description->field_count = 2;
  description->fingerprint = self->fingerprint;
  description->train_preset = "cifar_train";
  description->eval_preset = "cifar_eval";
  *handle = self;
  return MILLRACE_OK;
}

static void close_dataset(void* handle) {
  dataset* self = handle;
  close(self->file);
  free(self);
}

static millrace_result new_reader(void* handle, void** made, char* error) {
  const dataset* self = handle;
  reader* r = malloc(sizeof(reader));
  if (r == NULL) return millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
  r->file = self->file;
  *made = r;
  return MILLRACE_OK;
}

static void free_reader(void* r) { free(r); }

static millrace_result read_sample(void* made, int64_t index,
                                   millrace_bytes* fields, char* error) {
  reader* r = made;
  const millrace_result result =
      read_at(r->file, r->record, kRecord, index * kRecord, error);
  if (result != MILLRACE_OK) return result;
  r->label = r->record[0];  // the server refuses a label outside the classes
  for (int i = 0; i < kPlane; ++i) {
    for (int c = 0; c < 3; ++c) {
      r->image[3 * i + c] = r->record[1 + c * kPlane + i];
    }
  }
  fields[0] = (millrace_bytes){r->image, sizeof(r->image)};
  fields[1] = (millrace_bytes){(const uint8_t*)&r->label, sizeof(r->label)};
  return MILLRACE_OK;
}

static const millrace_source kCifar10 = {
    .struct_size = sizeof(millrace_source),
    .name = "cifar10",
    .version = "1.0",
    .open = open_dataset,
    .close = close_dataset,
    .new_reader = new_reader,
    .free_reader = free_reader,
    .read = read_sample,
};

static const millrace_source* const kSources[] = {&kCifar10};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .sources = kSources,
    .source_count = 1,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return &kLibrary;
}
