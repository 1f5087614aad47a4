/* Operators of your own for a Millrace server: this file is the whole border.
 *
 * A library is one shared object that the server loads at its start
 * (--operators=FILE.so). It exports one function, millrace_operators(), which
 * lists transforms, decoders and sources. docs/extending.md walks through one
 * of each; docs/example/operators/ has them.
 *
 * Plain C11, no dependency. Nothing but what is declared here crosses the
 * border: no C++ type, no exception, no memory that one side allocates and the
 * other frees.
 *
 * Ownership: structs, names and texts that the library hands out stay its own
 * and stay valid: those of millrace_library for ever (a library is never
 * unloaded), those of a dataset until close(). What the server hands in is
 * valid during the call.
 *
 * Threads: millrace_operators() is called once, before the server starts its
 * threads. After that every function may be called by any thread, several at
 * the same time; exceptions stand beside the function.
 *
 * The same bytes everywhere: what a function gives may depend on its arguments
 * alone: no clock, no global state, no random numbers but those of
 * millrace_random. Avoid libm's transcendental functions (sin, exp, pow) and
 * compile with -ffp-contract=off: their last bits differ between machines.
 *
 * Errors: a function returns MILLRACE_OK, or another result and a sentence in
 * `error` (millrace_fail does both). An operator that crashes takes the server
 * with it.
 *
 *   static const millrace_transform* const kTransforms[] = {&kGamma};
 *   static const millrace_library kLibrary = {
 *       .abi_version = MILLRACE_ABI_VERSION,
 *       .struct_size = sizeof(millrace_library),
 *       .transforms = kTransforms,
 *       .transform_count = 1,
 *   };
 *   MILLRACE_EXPORT const millrace_library* millrace_operators(
 *       const millrace_host* host) {
 *     return &kLibrary;
 *   }
 *
 *   cc -O2 -ffp-contract=off -shared -fPIC -o gamma.so gamma.c
 */

#ifndef MILLRACE_OPERATOR_H_
#define MILLRACE_OPERATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when the meaning of something below changes: a server loads libraries
 * of its own number only. New members are added at the end of a struct without
 * raising it; struct_size says how much of a struct its maker knew. */
#define MILLRACE_ABI_VERSION 1

#define MILLRACE_EXPORT __attribute__((visibility("default")))

/* What a function returns. */
typedef int32_t millrace_result;
enum {
  MILLRACE_OK = 0,
  /* create, open: what the user wrote cannot be done. apply, decode, read: this
   * sample is damaged; the job's policy for bad samples decides. */
  MILLRACE_INVALID = 1,
  MILLRACE_NOT_FOUND = 2,   /* open: there is nothing at that place */
  MILLRACE_UNAVAILABLE = 3, /* a disk or network failed: clients ask again */
  MILLRACE_NO_MEMORY = 4
};

/* Room for an error's sentence, its final 0 included. */
#define MILLRACE_ERROR_BYTES 512

static inline millrace_result millrace_fail(millrace_result result, char* error,
                                            const char* sentence) {
  snprintf(error, MILLRACE_ERROR_BYTES, "%s", sentence);
  return result;
}

typedef struct millrace_bytes {
  const uint8_t* data;
  uint64_t size;
} millrace_bytes;

/* Element types, all little-endian. */
enum {
  MILLRACE_UINT8 = 1,
  MILLRACE_BOOL = 2, /* one byte, 0 or 1 */
  MILLRACE_INT32 = 3,
  MILLRACE_INT64 = 4,
  MILLRACE_FLOAT32 = 5,
  MILLRACE_FLOAT64 = 6,
  MILLRACE_FLOAT16 = 7,
  MILLRACE_BFLOAT16 = 8,
  MILLRACE_INT8 = 9,
  MILLRACE_INT16 = 10,
  MILLRACE_UINT16 = 11
};

#define MILLRACE_MAX_DIMS 8

/* The element type and shape of a tensor, row-major; a scalar has no
 * dimension. Images are uint8 [height, width, channels]. */
typedef struct millrace_type {
  int32_t dtype;
  int32_t dims;
  int64_t shape[MILLRACE_MAX_DIMS];
} millrace_type;

/* Random numbers that follow from the seed, the epoch, the sample and the
 * transform's place in the pipeline, and from nothing else: the same on every
 * server and for any number of threads. */
typedef struct millrace_random {
  uint64_t (*next)(struct millrace_random* self); /* 64 random bits */
} millrace_random;

/* Uniform on [0, 1). */
static inline double millrace_uniform(millrace_random* random) {
  return (double)(random->next(random) >> 11) * (1.0 / 9007199254740992.0);
}

/* Uniform on 0 .. n - 1; 0 < n <= 2^32. */
static inline uint64_t millrace_below(millrace_random* random, uint64_t n) {
  return ((random->next(random) >> 32) * n) >> 32;
}

/* ---- Transforms ---------------------------------------------------------- */

enum {
  /* Works on images in place and keeps their size: it may stand anywhere
   * between the other image transforms. */
  MILLRACE_ON_IMAGE = 1,
  /* Makes a tensor of fixed type of a tensor of fixed type (an image of fixed
   * size is one, too). No image transform may follow it. */
  MILLRACE_ON_TENSOR = 2
};

/* One sample. */
typedef struct millrace_call {
  uint32_t struct_size;
  int32_t reserved;
  /* Of `in`, with the sizes of this sample. */
  const millrace_type* type;
  const uint8_t* in; /* at any address: numbers are read with memcpy */
  /* MILLRACE_ON_IMAGE: the pixels, the same as `in`. MILLRACE_ON_TENSOR: room
   * for the result; does not overlap `in`. Not initialised. */
  uint8_t* out;
  /* MILLRACE_ON_IMAGE: bytes from row to row, at least width * channels; what
   * lies behind a row must be left as it is. Otherwise 0. */
  int64_t row_stride;
  millrace_random* random;
  /* What scratch_bytes() asked for, at a multiple of 64; not initialised. */
  void* scratch;
  /* NULL, or what a person wants to know of this sample ("gamma 1.13"); shown
   * by `millrace-data preview --explain`. */
  void (*note)(const struct millrace_call* self, const char* text);
} millrace_call;

typedef struct millrace_transform {
  uint32_t struct_size;
  int32_t works_on;    /* MILLRACE_ON_IMAGE or MILLRACE_ON_TENSOR */
  const char* name;    /* letters, digits, '_', '-' and '.' */
  const char* version; /* the same; raise it whenever results change */

  /* Makes a transform of `config` (the spec's bytes) for fields of type
   * `input`; of images the height and width are -1, for they may differ from
   * sample to sample. Of tensors `output` says what comes out; it holds `input`
   * at first. `*handle` may be left NULL. */
  millrace_result (*create)(millrace_bytes config, const millrace_type* input,
                            millrace_type* output, void** handle, char* error);

  /* NULL: none. Bytes of scratch that apply() needs for an `input` of that
   * size. */
  uint64_t (*scratch_bytes)(void* handle, const millrace_type* input);

  /* Several threads at a time with the same handle. */
  millrace_result (*apply)(void* handle, const millrace_call* call,
                           char* error);

  void (*destroy)(void* handle); /* NULL: nothing to do */
} millrace_transform;

/* ---- Decoders ------------------------------------------------------------ */

typedef struct millrace_image_header {
  uint32_t struct_size;
  int32_t channels; /* 1: grey, 3: RGB. The server converts where it must */
  int64_t width;    /* as stored, before it is turned upright */
  int64_t height;
  int32_t orientation; /* EXIF's, 1 .. 8. 0: not known, upright */
  int32_t reserved;
  /* Memory that decode() takes of its own, whatever the region. */
  int64_t memory_bytes;
} millrace_image_header;

typedef struct millrace_region {
  uint32_t struct_size;
  int32_t reserved;
  int64_t left;
  int64_t top;
  int64_t width; /* not empty, inside the image */
  int64_t height;
} millrace_region;

typedef struct millrace_decoder {
  uint32_t struct_size;
  int32_t reserved;
  const char* name;
  const char* version;

  /* Other than 0: these bytes are this decoder's. Told by the first 256 bytes,
   * for there may be no more of them than that. */
  int32_t (*sniff)(millrace_bytes bytes);

  /* NULL, or what one thread keeps from image to image: each worker has its
   * own. Without them `state` is NULL. */
  millrace_result (*new_state)(void** state, char* error);
  void (*free_state)(void* state);

  /* Reads sizes alone; nothing large is allocated before the server has
   * compared them with its limits. */
  millrace_result (*read_header)(void* state, millrace_bytes bytes,
                                 millrace_image_header* header, char* error);

  /* After a read_header() of the same bytes with the same state. Writes the
   * region's rows, width * channels bytes each, `row_stride` bytes apart. */
  millrace_result (*decode)(void* state, millrace_bytes bytes,
                            const millrace_region* region, uint8_t* pixels,
                            int64_t row_stride, char* error);
} millrace_decoder;

/* ---- Sources ------------------------------------------------------------- */

enum {
  MILLRACE_FIELD_IMAGE = 1,  /* an encoded image */
  MILLRACE_FIELD_TENSOR = 2, /* dtype and shape as said */
  MILLRACE_FIELD_RAGGED = 3  /* any number of elements of that dtype */
};

typedef struct millrace_field {
  const char* name;
  int32_t kind;
  int32_t reserved;
  millrace_type type; /* images: ignored; ragged: the dtype alone */
  /* Of a class index (an int64 scalar): how many there are, and their names or
   * NULL. */
  int64_t num_classes;
  const char* const* class_names;
} millrace_field;

typedef struct millrace_dataset {
  uint32_t struct_size;
  uint32_t field_count;
  const millrace_field* fields;
  int64_t samples; /* above 0 */
  /* Any text that is the same for the same content and another for other
   * content: a hash of the bytes, never a path or a date. Servers whose
   * fingerprints differ are not mixed. */
  const char* fingerprint;
  /* NULL, or presets that suit the data ("cifar_train", "cifar_eval"). */
  const char* train_preset;
  const char* eval_preset;
} millrace_dataset;

typedef struct millrace_source {
  uint32_t struct_size;
  int32_t reserved;
  const char* name; /* the scheme: --dataset=NAME=csv:PATH asks source "csv" */
  const char* version;

  /* `path` is what stands behind the colon. */
  millrace_result (*open)(const char* path, millrace_dataset* dataset,
                          void** handle, char* error);
  void (*close)(void* handle);

  /* One for each worker; used by one thread at a time. */
  millrace_result (*new_reader)(void* handle, void** reader, char* error);
  void (*free_reader)(void* reader);

  /* Points fields[i] at the bytes of field i of sample `index` (0 .. samples -
   * 1); they must stay until the reader's next call. */
  millrace_result (*read)(void* reader, int64_t index, millrace_bytes* fields,
                          char* error);
} millrace_source;

/* ---- The library --------------------------------------------------------- */

typedef struct millrace_host {
  uint32_t abi_version;
  uint32_t struct_size;
  const char* version; /* of Millrace, for messages */
} millrace_host;

typedef struct millrace_library {
  uint32_t abi_version; /* MILLRACE_ABI_VERSION */
  uint32_t struct_size;
  const millrace_transform* const* transforms;
  const millrace_decoder* const* decoders;
  const millrace_source* const* sources;
  uint32_t transform_count;
  uint32_t decoder_count;
  uint32_t source_count;
} millrace_library;

/* The one symbol that a library exports. NULL: it cannot work here. */
MILLRACE_EXPORT const millrace_library* millrace_operators(
    const millrace_host* host);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_OPERATOR_H_ */
