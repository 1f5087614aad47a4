// Operators for tests. Configurations say what they do:
//
//   paint    on images: "draw" writes random bytes over the pixels, "scratch"
//            copies them through scratch, "fail", "fail_on_white" (a bad
//            sample), "no_reason", "odd_result"; "grey_only" takes one channel.
//   rescale  on tensors: uint8 -> float32, x / 2; "same" keeps the type and
//            adds 1; "fail"; "odd_type", "odd_dims", "huge" describe a result
//            that cannot be.
//   odd      a decoder of "ODD" + channels, width, height (a byte each): pixel
//            (x, y, c) is x + 16 y + 64 c. A first byte of 'X' behind the
//            header fails. It counts its states.
//   count    a source of PATH samples "x" uint8 [2] and "label" of three
//            classes; sample 7 is damaged, sample 8 unavailable, sample 9 of a
//            wrong size. PATH "none" is not there, "odd" describes nonsense.

#include <stdlib.h>
#include <string.h>

#include "millrace_operator.h"

#ifndef VERSION
#define VERSION "1.0"
#endif

#ifdef REBUILT
// Makes the file another one.
MILLRACE_EXPORT const char millrace_rebuilt[] = "rebuilt";
#endif

// --- paint, rescale ---------------------------------------------------------

static char* copy_text(millrace_bytes bytes) {
  char* text = calloc(bytes.size + 1, 1);
  if (bytes.size > 0) memcpy(text, bytes.data, bytes.size);
  return text;
}

static void free_text(void* handle) { free(handle); }

static millrace_result create_paint(millrace_bytes config,
                                    const millrace_type* input,
                                    millrace_type* output, void** handle,
                                    char* error) {
  char* text = copy_text(config);
  if (strcmp(text, "bad_config") == 0) {
    free(text);
    return millrace_fail(MILLRACE_INVALID, error, "config cannot be this");
  }
  if (strcmp(text, "grey_only") == 0 && input->shape[2] != 1) {
    free(text);
    return millrace_fail(MILLRACE_INVALID, error, "grey images alone");
  }
  if (strcmp(text, "reshape") == 0) output->shape[0] = 3;
  *handle = text;
  return MILLRACE_OK;
}

static uint64_t paint_scratch(void* handle, const millrace_type* input) {
  if (strcmp(handle, "too_much") == 0) return UINT64_C(1) << 40;
  if (strcmp(handle, "scratch") != 0) return 0;
  return (uint64_t)(input->shape[0] * input->shape[1] * input->shape[2]);
}

static millrace_result apply_paint(void* handle, const millrace_call* call,
                                   char* error) {
  const int64_t height = call->type->shape[0];
  const int64_t row = call->type->shape[1] * call->type->shape[2];
  if (call->note != NULL) call->note(call, "painted");
  if (strcmp(handle, "fail") == 0) {
    return millrace_fail(MILLRACE_INVALID, error, "it fails always");
  }
  if (strcmp(handle, "no_reason") == 0) return MILLRACE_INVALID;
  if (strcmp(handle, "odd_result") == 0) return 77;
  if (strcmp(handle, "fail_on_white") == 0 && call->in[0] == 255) {
    return millrace_fail(MILLRACE_INVALID, error, "the image is white");
  }
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* pixels = call->out + y * call->row_stride;
    if (strcmp(handle, "scratch") == 0) {
      uint8_t* kept = (uint8_t*)call->scratch + y * row;
      memcpy(kept, pixels, (size_t)row);
      for (int64_t x = 0; x < row; ++x) pixels[x] = kept[row - 1 - x];
    } else {
      for (int64_t x = 0; x < row; ++x) {
        pixels[x] = (uint8_t)millrace_below(call->random, 256);
      }
    }
  }
  return MILLRACE_OK;
}

static millrace_result create_rescale(millrace_bytes config,
                                      const millrace_type* input,
                                      millrace_type* output, void** handle,
                                      char* error) {
  char* text = copy_text(config);
  if (strcmp(text, "odd_type") == 0) {
    output->dtype = 99;
  } else if (strcmp(text, "odd_dims") == 0) {
    output->dims = 50;
  } else if (strcmp(text, "huge") == 0) {
    output->dims = 3;
    for (int i = 0; i < 3; ++i) output->shape[i] = INT64_C(1) << 40;
  } else if (strcmp(text, "flat") == 0) {
    output->dims = 1;
    output->shape[0] = 1;
    for (int i = 0; i < input->dims; ++i) output->shape[0] *= input->shape[i];
  } else if (strcmp(text, "first") == 0) {
    output->shape[0] = 1;
  } else if (strcmp(text, "same") != 0) {
    output->dtype = MILLRACE_FLOAT32;
  }
  if (strcmp(text, "flat") == 0 || strcmp(text, "first") == 0) {
    *handle = text;  // of uint8 and float32: bytes are copied
    return MILLRACE_OK;
  }
  if (input->dtype != MILLRACE_UINT8) {
    free(text);
    return millrace_fail(MILLRACE_INVALID, error, "uint8 alone");
  }
  *handle = text;
  return MILLRACE_OK;
}

static millrace_result apply_rescale(void* handle, const millrace_call* call,
                                     char* error) {
  int64_t count = 1;
  for (int i = 0; i < call->type->dims; ++i) count *= call->type->shape[i];
  if (strcmp(handle, "fail") == 0) {
    return millrace_fail(MILLRACE_INVALID, error, "it fails always");
  }
  if (strcmp(handle, "flat") == 0 || strcmp(handle, "first") == 0) {
    if (strcmp(handle, "first") == 0) count /= call->type->shape[0];
    const int64_t bytes = call->type->dtype == MILLRACE_FLOAT32 ? 4 : 1;
    memcpy(call->out, call->in, (size_t)(count * bytes));
    return MILLRACE_OK;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (strcmp(handle, "same") == 0) {
      call->out[i] = (uint8_t)(call->in[i] + 1);
    } else {
      const float value = (float)call->in[i] / 2;
      memcpy(call->out + 4 * i, &value, 4);
    }
  }
  return MILLRACE_OK;
}

static const millrace_transform kPaint = {
    .struct_size = sizeof(millrace_transform),
    .works_on = MILLRACE_ON_IMAGE,
    .name = "paint",
    .version = VERSION,
    .create = create_paint,
    .scratch_bytes = paint_scratch,
    .apply = apply_paint,
    .destroy = free_text,
};

static const millrace_transform kRescale = {
    .struct_size = sizeof(millrace_transform),
    .works_on = MILLRACE_ON_TENSOR,
    .name = "rescale",
    .version = VERSION,
    .create = create_rescale,
    .apply = apply_rescale,
    .destroy = free_text,
};

// --- odd --------------------------------------------------------------------

MILLRACE_EXPORT int millrace_test_states = 0;

static int32_t sniff(millrace_bytes bytes) {
  return bytes.size >= 3 && memcmp(bytes.data, "ODD", 3) == 0;
}

static millrace_result new_state(void** state, char* error) {
  __atomic_add_fetch(&millrace_test_states, 1, __ATOMIC_RELAXED);
  *state = malloc(1);
  return MILLRACE_OK;
}

static void free_state(void* state) {
  __atomic_sub_fetch(&millrace_test_states, 1, __ATOMIC_RELAXED);
  free(state);
}

static millrace_result read_header(void* state, millrace_bytes bytes,
                                   millrace_image_header* header, char* error) {
  if (state == NULL || bytes.size < 6) {
    return millrace_fail(MILLRACE_INVALID, error, "truncated");
  }
  header->channels = bytes.data[3];
  header->width = bytes.data[4];
  header->height = bytes.data[5];
  if (bytes.size >= 7) header->orientation = bytes.data[6];
  if (header->width == 255) header->width = INT64_C(1) << 40;
  if (header->height == 255) header->memory_bytes = INT64_C(1) << 40;
  return MILLRACE_OK;
}

static millrace_result decode(void* state, millrace_bytes bytes,
                              const millrace_region* region, uint8_t* pixels,
                              int64_t row_stride, char* error) {
  const int channels = bytes.data[3];
  if (bytes.size > 7 && bytes.data[7] == 'X') {
    return millrace_fail(MILLRACE_INVALID, error, "pixels are damaged");
  }
  for (int64_t y = 0; y < region->height; ++y) {
    for (int64_t x = 0; x < region->width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels[y * row_stride + x * channels + c] =
            (uint8_t)(region->left + x + 16 * (region->top + y) + 64 * c);
      }
    }
  }
  return MILLRACE_OK;
}

static const millrace_decoder kOdd = {
    .struct_size = sizeof(millrace_decoder),
    .name = "odd",
    .version = VERSION,
    .sniff = sniff,
    .new_state = new_state,
    .free_state = free_state,
    .read_header = read_header,
    .decode = decode,
};

// --- count ------------------------------------------------------------------

MILLRACE_EXPORT int millrace_test_datasets = 0;
MILLRACE_EXPORT int millrace_test_readers = 0;

static const char* const kNames[3] = {"a", "b", "c"};
static const millrace_field kFields[2] = {
    {.name = "x",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_UINT8, 1, {2}}},
    {.name = "label",
     .kind = MILLRACE_FIELD_TENSOR,
     .type = {MILLRACE_INT64, 0, {0}},
     .num_classes = 3,
     .class_names = kNames},
};
static const millrace_field kOddFields[1] = {
    {.name = "x", .kind = 9, .type = {MILLRACE_UINT8, 1, {2}}}};

static millrace_result open_count(const char* path, millrace_dataset* dataset,
                                  void** handle, char* error) {
  if (strcmp(path, "none") == 0) {
    return millrace_fail(MILLRACE_NOT_FOUND, error, "there is nothing");
  }
  dataset->samples = strtol(path, NULL, 10);
  dataset->fields = kFields;
  dataset->field_count = 2;
  dataset->fingerprint = path;
  if (strcmp(path, "odd") == 0) {
    dataset->samples = 1;
    dataset->fields = kOddFields;
    dataset->field_count = 1;
  }
  if (strcmp(path, "3 without fingerprint") == 0) dataset->fingerprint = "";
  ++millrace_test_datasets;
  return MILLRACE_OK;
}

static void close_count(void* handle) { --millrace_test_datasets; }

typedef struct {
  uint8_t x[2];
  int64_t label;
} count_reader;

static millrace_result new_count_reader(void* handle, void** reader,
                                        char* error) {
  __atomic_add_fetch(&millrace_test_readers, 1, __ATOMIC_RELAXED);
  *reader = calloc(1, sizeof(count_reader));
  return MILLRACE_OK;
}

static void free_count_reader(void* reader) {
  __atomic_sub_fetch(&millrace_test_readers, 1, __ATOMIC_RELAXED);
  free(reader);
}

static millrace_result read_count(void* made, int64_t index,
                                  millrace_bytes* fields, char* error) {
  count_reader* r = made;
  if (index == 7) {
    return millrace_fail(MILLRACE_INVALID, error, "seven is damaged");
  }
  if (index == 8) {
    return millrace_fail(MILLRACE_UNAVAILABLE, error,
                         "eight cannot be reached");
  }
  r->x[0] = (uint8_t)index;
  r->x[1] = (uint8_t)(2 * index);
  r->label = index % 3;
  fields[0] = (millrace_bytes){r->x, index == 9 ? 1 : 2};
  fields[1] = (millrace_bytes){(const uint8_t*)&r->label, 8};
  return MILLRACE_OK;
}

static const millrace_source kCount = {
    .struct_size = sizeof(millrace_source),
    .name = "count",
    .version = VERSION,
    .open = open_count,
    .close = close_count,
    .new_reader = new_count_reader,
    .free_reader = free_count_reader,
    .read = read_count,
};

static const millrace_transform* const kTransforms[] = {&kPaint, &kRescale};
static const millrace_decoder* const kDecoders[] = {&kOdd};
static const millrace_source* const kSources[] = {&kCount};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .transforms = kTransforms,
    .decoders = kDecoders,
    .sources = kSources,
    .transform_count = 2,
    .decoder_count = 1,
    .source_count = 1,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return host->abi_version == MILLRACE_ABI_VERSION ? &kLibrary : NULL;
}
