// A transform that paints a black square over a random place of each image
// (T. DeVries and G. Taylor, "Improved Regularization of Convolutional Neural
// Networks with Cutout", 2017). The configuration is the side of the square:
//
//   transforms { custom { name: "cutout" config: "16" fields: "image" } }

#include <stdlib.h>
#include <string.h>

#include "millrace_operator.h"

// The parsed configuration: create() fills it, apply() only reads it.
typedef struct {
  int64_t side;
} cutout;

static millrace_result create(millrace_bytes config, const millrace_type* input,
                              millrace_type* output, void** handle,
                              char* error) {
  char text[16] = {0};
  char* end = text;
  if (config.size < sizeof(text)) memcpy(text, config.data, config.size);
  const long side = strtol(text, &end, 10);
  if (end == text || *end != '\0' || side < 1 || side > 16384) {
    return millrace_fail(MILLRACE_INVALID, error,
                         "config must be the side of the square, 1 to 16384 "
                         "pixels: config: \"16\"");
  }
  cutout* self = malloc(sizeof(cutout));
  if (self == NULL) {
    return millrace_fail(MILLRACE_NO_MEMORY, error, "no memory");
  }
  self->side = side;
  *handle = self;
  return MILLRACE_OK;
}

static void destroy(void* handle) { free(handle); }

// Clips one bound of the square to the image: to [0, size].
static int64_t clip(int64_t at, int64_t size) {
  return at < 0 ? 0 : at > size ? size : at;
}

static millrace_result apply(void* handle, const millrace_call* call,
                             char* error) {
  const cutout* self = handle;
  const int64_t height = call->type->shape[0];
  const int64_t width = call->type->shape[1];
  const int64_t channels = call->type->shape[2];
  // The order of the draws is part of version 1.0: it must not change.
  const int64_t y = (int64_t)millrace_below(call->random, (uint64_t)height);
  const int64_t x = (int64_t)millrace_below(call->random, (uint64_t)width);
  const int64_t top = clip(y - self->side / 2, height);
  const int64_t bottom = clip(y - self->side / 2 + self->side, height);
  const int64_t left = clip(x - self->side / 2, width);
  const int64_t right = clip(x - self->side / 2 + self->side, width);
  for (int64_t row = top; row < bottom; ++row) {
    memset(call->out + row * call->row_stride + left * channels, 0,
           (size_t)((right - left) * channels));
  }
  if (call->note != NULL) {  // the caller asks for the draws
    char text[64];
    snprintf(text, sizeof(text), "square around row %d, column %d", (int)y,
             (int)x);
    call->note(call, text);
  }
  return MILLRACE_OK;
}

static const millrace_transform kCutout = {
    .struct_size = sizeof(millrace_transform),
    .works_on = MILLRACE_ON_IMAGE,
    .name = "cutout",
    .version = "1.0",
    .create = create,
    .apply = apply,
    .destroy = destroy,
};

static const millrace_transform* const kTransforms[] = {&kCutout};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .transforms = kTransforms,
    .transform_count = 1,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return &kLibrary;
}
