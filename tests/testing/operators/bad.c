// Libraries that a server must refuse: each macro is one mistake.

#include <stddef.h>

#include "millrace_operator.h"

static millrace_result create(millrace_bytes config, const millrace_type* input,
                              millrace_type* output, void** handle,
                              char* error) {
  return MILLRACE_OK;
}

static millrace_result apply(void* handle, const millrace_call* call,
                             char* error) {
  return MILLRACE_OK;
}

static int32_t sniff(millrace_bytes bytes) { return 1; }

static millrace_result read_header(void* state, millrace_bytes bytes,
                                   millrace_image_header* header, char* error) {
  return MILLRACE_OK;
}

static millrace_result decode(void* state, millrace_bytes bytes,
                              const millrace_region* region, uint8_t* pixels,
                              int64_t row_stride, char* error) {
  return MILLRACE_OK;
}

static millrace_result open_dataset(const char* path, millrace_dataset* dataset,
                                    void** handle, char* error) {
  return MILLRACE_OK;
}
static void close_dataset(void* handle) {}
static millrace_result new_reader(void* handle, void** reader, char* error) {
  return MILLRACE_OK;
}
static void free_reader(void* reader) {}
static millrace_result read_sample(void* reader, int64_t index,
                                   millrace_bytes* fields, char* error) {
  return MILLRACE_OK;
}

static const millrace_transform kTransform = {
#ifdef SHORT_TRANSFORM
    .struct_size = offsetof(millrace_transform, apply),
#else
    .struct_size = sizeof(millrace_transform),
#endif
#ifdef ODD_KIND
    .works_on = 7,
#else
    .works_on = MILLRACE_ON_IMAGE,
#endif
#ifdef ODD_NAME
    .name = "two words",
#elif !defined(NO_NAME)
    .name = "bad",
#endif
#ifndef NO_VERSION
    .version = "1",
#endif
    .create = create,
#ifndef NO_APPLY
    .apply = apply,
#endif
};

static const millrace_decoder kDecoder = {
    .struct_size = sizeof(millrace_decoder),
    .name = "bad",
    .version = "1",
    .sniff = sniff,
    .read_header = read_header,
#ifndef NO_DECODE
    .decode = decode,
#endif
};

static const millrace_source kSource = {
    .struct_size = sizeof(millrace_source),
#ifdef RESERVED_SOURCE
    .name = "lmdb",
#else
    .name = "bad",
#endif
    .version = "1",
    .open = open_dataset,
    .close = close_dataset,
    .new_reader = new_reader,
    .free_reader = free_reader,
#ifndef NO_READ
    .read = read_sample,
#endif
};

#ifdef NULL_ENTRY
static const millrace_transform* const kTransforms[] = {&kTransform, NULL};
#else
static const millrace_transform* const kTransforms[] = {&kTransform};
#endif
static const millrace_decoder* const kDecoders[] = {&kDecoder};
static const millrace_source* const kSources[] = {&kSource};

static const millrace_library kLibrary = {
#ifdef WRONG_ABI
    .abi_version = 99,
#else
    .abi_version = MILLRACE_ABI_VERSION,
#endif
#ifdef SHORT_LIBRARY
    .struct_size = 8,
#else
    .struct_size = sizeof(millrace_library),
#endif
#ifndef NULL_LIST
    .transforms = kTransforms,
#endif
    .decoders = kDecoders,
    .sources = kSources,
#ifndef EMPTY
    .transform_count = sizeof(kTransforms) / sizeof(kTransforms[0]),
    .decoder_count = 1,
    .source_count = 1,
#endif
};

#ifdef UNRESOLVED
void a_function_that_nobody_defines(void);
#endif

#ifdef NO_SYMBOL
#define millrace_operators operators_of_another_name
MILLRACE_EXPORT const millrace_library* millrace_operators(
    const millrace_host* host);
#endif

const millrace_library* millrace_operators(const millrace_host* host) {
#ifdef UNRESOLVED
  a_function_that_nobody_defines();
#endif
#ifdef NULL_LIBRARY
  return NULL;
#else
  return &kLibrary;
#endif
}
