// Sources that make samples up by their index, for tests of training: a model
// learns them in seconds.
//
//   --dataset=NAME=shapes:SAMPLES   photographs of a disc or a square, with a
//                                   mask: 0 beside it, 1 a disc, 2 a square,
//                                   255 along its left edge
//   --dataset=NAME=rows:SAMPLES     three classes told by a vector and by
//                                   tokens; recommends no preset

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace_operator.h"

enum { kSide = 40, kPixels = kSide * kSide, kValues = 8, kTokens = 6 };

static const millrace_field kShapeFields[2] = {
    {.name = "image",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_UINT8, 3, {kSide, kSide, 3}}},
    {.name = "mask",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_UINT8, 3, {kSide, kSide, 1}}},
};

static const millrace_field kRowFields[3] = {
    {.name = "vector",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_FLOAT32, 1, {kValues}}},
    {.name = "tokens",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_INT64, 1, {kTokens}}},
    {.name = "label",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_INT64, 0, {0}},
     .num_classes = 3},
};

// The last sample that was read; there is nothing else to keep.
typedef struct {
  uint8_t image[3 * kPixels];
  uint8_t mask[kPixels];
  float vector[kValues];
  int64_t tokens[kTokens];
  int64_t label;
} reader;

static uint32_t next(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static millrace_result open_dataset(const char* path,
                                    millrace_dataset* description,
                                    void** handle, char* error) {
  description->samples = atoi(path);
  if (description->samples <= 0) {
    return millrace_fail(MILLRACE_INVALID, error, "give a number of samples");
  }
  *handle = strdup(path);  // what the content follows from
  if (*handle == NULL) {
    return millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
  }
  description->fingerprint = *handle;
  return MILLRACE_OK;
}

static millrace_result open_shapes(const char* path,
                                   millrace_dataset* description, void** handle,
                                   char* error) {
  description->fields = kShapeFields;
  description->field_count = 2;
  return open_dataset(path, description, handle, error);
}

static millrace_result open_rows(const char* path,
                                 millrace_dataset* description, void** handle,
                                 char* error) {
  description->fields = kRowFields;
  description->field_count = 3;
  return open_dataset(path, description, handle, error);
}

static millrace_result new_reader(void* handle, void** made, char* error) {
  *made = calloc(1, sizeof(reader));
  return *made != NULL ? MILLRACE_OK
                       : millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
}

static millrace_result read_shape(void* made, int64_t index,
                                  millrace_bytes* fields, char* error) {
  reader* r = made;
  uint32_t state = (uint32_t)index * 2654435761u + 1;
  const int kind = 1 + (int)(index % 2);
  const int radius = 7 + (int)(next(&state) % 5);
  const int x0 = radius + (int)(next(&state) % (uint32_t)(kSide - 2 * radius));
  const int y0 = radius + (int)(next(&state) % (uint32_t)(kSide - 2 * radius));
  for (int p = 0; p < kPixels; ++p) {
    const int x = p % kSide - x0;
    const int y = p / kSide - y0;
    const int inside =
        kind == 1 ? x * x + y * y <= radius * radius
                  : abs(x) <= radius * 3 / 4 && abs(y) <= radius * 3 / 4;
    const int left = inside && x < -radius / 2 - 1;
    r->mask[p] = (uint8_t)(left ? 255 : inside ? kind : 0);
    for (int c = 0; c < 3; ++c) {
      // Discs are reddish, squares bluish, under noise.
      const int bright = inside && c == 2 * (kind - 1) ? 190 : 60;
      r->image[3 * p + c] = (uint8_t)(bright + next(&state) % 64);
    }
  }
  fields[0] = (millrace_bytes){r->image, sizeof(r->image)};
  fields[1] = (millrace_bytes){r->mask, sizeof(r->mask)};
  return MILLRACE_OK;
}

static millrace_result read_row(void* made, int64_t index,
                                millrace_bytes* fields, char* error) {
  reader* r = made;
  uint32_t state = (uint32_t)index * 2654435761u + 1;
  r->label = index % 3;
  for (int i = 0; i < kValues; ++i) {
    r->vector[i] = (float)(next(&state) % 100) / 100 +
                   (i % 3 == (int)r->label ? 2.0f : 0.0f);
  }
  // Five of sixteen tokens belong to each class.
  for (int i = 0; i < kTokens; ++i) {
    r->tokens[i] = 5 * r->label + next(&state) % 5;
  }
  fields[0] = (millrace_bytes){(const uint8_t*)r->vector, sizeof(r->vector)};
  fields[1] = (millrace_bytes){(const uint8_t*)r->tokens, sizeof(r->tokens)};
  fields[2] = (millrace_bytes){(const uint8_t*)&r->label, sizeof(r->label)};
  return MILLRACE_OK;
}

static const millrace_source kShapes = {
    .struct_size = sizeof(millrace_source),
    .name = "shapes",
    .version = "1.0",
    .open = open_shapes,
    .close = free,
    .new_reader = new_reader,
    .free_reader = free,
    .read = read_shape,
};

static const millrace_source kRows = {
    .struct_size = sizeof(millrace_source),
    .name = "rows",
    .version = "1.0",
    .open = open_rows,
    .close = free,
    .new_reader = new_reader,
    .free_reader = free,
    .read = read_row,
};

static const millrace_source* const kSources[] = {&kShapes, &kRows};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .sources = kSources,
    .source_count = 2,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return &kLibrary;
}
