// A transform for measurements: changes nothing, but computes for a while.
//
//   transforms { custom { name: "busy" config: "700" fields: "image" } }
//
// config: processor time in microseconds that each picture takes of the thread
// that it is worked on. Time in which the thread does not run is not counted:
// on a core that is shared it takes longer, as real preprocessing does.

#define _POSIX_C_SOURCE 199309L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "millrace_operator.h"

typedef struct {
  int64_t nanoseconds;
} busy;

static int64_t thread_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static millrace_result create(millrace_bytes config, const millrace_type* input,
                              millrace_type* output, void** handle,
                              char* error) {
  char text[16] = {0};
  char* end = text;
  if (config.size < sizeof(text)) memcpy(text, config.data, config.size);
  const long microseconds = strtol(text, &end, 10);
  if (end == text || *end != '\0' || microseconds < 1 ||
      microseconds > 1000000) {
    return millrace_fail(MILLRACE_INVALID, error,
                         "config must be the microseconds of a picture, 1 to "
                         "1000000: config: \"700\"");
  }
  busy* self = malloc(sizeof(busy));
  if (self == NULL) {
    return millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
  }
  self->nanoseconds = (int64_t)microseconds * 1000;
  *handle = self;
  return MILLRACE_OK;
}

static void destroy(void* handle) { free(handle); }

static millrace_result apply(void* handle, const millrace_call* call,
                             char* error) {
  const busy* self = handle;
  const int64_t until = thread_time() + self->nanoseconds;
  while (thread_time() < until) {
  }
  return MILLRACE_OK;
}

static const millrace_transform kBusy = {
    .struct_size = sizeof(millrace_transform),
    .works_on = MILLRACE_ON_IMAGE,
    .name = "busy",
    .version = "1.0",
    .create = create,
    .apply = apply,
    .destroy = destroy,
};

static const millrace_transform* const kTransforms[] = {&kBusy};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .transforms = kTransforms,
    .transform_count = 1,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return &kLibrary;
}
