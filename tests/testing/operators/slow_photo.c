// A source of photographs on a slow storage: every sample is the same encoded
// image, and every read of one waits first.
//
//   --operators=slow_photo.so --dataset=NAME=slow:MICROSECONDS:FILE.jpg

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "millrace_operator.h"

enum { kSamples = 100000, kMaxBytes = 1 << 20 };

static const millrace_field kFields[2] = {
    {.name = "image", .kind = MILLRACE_FIELD_IMAGE},
    {.name = "label",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_INT64, 0, {0}},
     .num_classes = 10},
};

typedef struct {
  long wait_us;
  size_t bytes;
  uint8_t image[kMaxBytes];
} dataset;

typedef struct {
  const dataset* data;
  int64_t label;
} reader;

static millrace_result open_dataset(const char* path,
                                    millrace_dataset* description,
                                    void** handle, char* error) {
  char* colon = NULL;
  const long wait_us = strtol(path, &colon, 10);
  if (*colon != ':') {
    return millrace_fail(MILLRACE_INVALID, error, "write MICROSECONDS:FILE");
  }
  dataset* self = malloc(sizeof(dataset));
  if (self == NULL)
    return millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
  FILE* file = fopen(colon + 1, "rb");
  if (file == NULL) {
    free(self);
    return millrace_fail(MILLRACE_NOT_FOUND, error, strerror(errno));
  }
  self->wait_us = wait_us;
  self->bytes = fread(self->image, 1, kMaxBytes, file);
  fclose(file);
  description->samples = kSamples;
  description->fields = kFields;
  description->field_count = 2;
  description->fingerprint = "one photograph";
  *handle = self;
  return MILLRACE_OK;
}

static millrace_result new_reader(void* handle, void** made, char* error) {
  reader* r = calloc(1, sizeof(reader));
  if (r == NULL) return millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
  r->data = handle;
  *made = r;
  return MILLRACE_OK;
}

static millrace_result read_sample(void* made, int64_t index,
                                   millrace_bytes* fields, char* error) {
  reader* r = made;
  const struct timespec wait = {r->data->wait_us / 1000000,
                                r->data->wait_us % 1000000 * 1000};
  nanosleep(&wait, NULL);
  r->label = index % 10;
  fields[0] = (millrace_bytes){r->data->image, r->data->bytes};
  fields[1] = (millrace_bytes){(const uint8_t*)&r->label, sizeof(r->label)};
  return MILLRACE_OK;
}

static const millrace_source kSlow = {
    .struct_size = sizeof(millrace_source),
    .name = "slow",
    .version = "1",
    .open = open_dataset,
    .close = free,
    .new_reader = new_reader,
    .free_reader = free,
    .read = read_sample,
};

static const millrace_source* const kSources[] = {&kSlow};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .sources = kSources,
    .source_count = 1,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return host->abi_version == MILLRACE_ABI_VERSION ? &kLibrary : NULL;
}
