/* The headers are plain C11: compiled with -std=c11 -pedantic -Werror, beside
 * the header for operators, and their structs have the layout that programs of
 * this release have compiled in. */

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "client/c/millrace.h"
#include "client/c/millrace_dlpack.h"
#include "server/operators/millrace_operator.h"
#include "tests/testing/check.h"

/* Raise MILLRACE_INTERFACE_VERSION before one of these numbers changes; later
 * releases may only append members. */
static_assert(offsetof(millrace_plan, steps_per_epoch) == 8, "layout");
static_assert(offsetof(millrace_plan, max_batch_bytes) == 40, "layout");
static_assert(offsetof(millrace_plan, json) == 64, "layout");
static_assert(offsetof(millrace_batch_info, epoch) == 8, "layout");
static_assert(offsetof(millrace_batch_info, data) == 64, "layout");
static_assert(offsetof(millrace_batch_info, payload_xxh3) == 80, "layout");
static_assert(offsetof(millrace_tensor, name) == 8, "layout");
static_assert(offsetof(millrace_tensor, shape) == 24, "layout");
static_assert(offsetof(millrace_tensor, bytes) == 48, "layout");
static_assert(offsetof(millrace_tensor, cast_bytes) == 72, "layout");

/* DLPack 1.0 on a machine of 64 bits. */
static_assert(sizeof(DLTensor) == 48, "dlpack.h");
static_assert(offsetof(DLTensor, device) == 8, "dlpack.h");
static_assert(offsetof(DLTensor, ndim) == 16, "dlpack.h");
static_assert(offsetof(DLTensor, dtype) == 20, "dlpack.h");
static_assert(offsetof(DLTensor, shape) == 24, "dlpack.h");
static_assert(offsetof(DLTensor, strides) == 32, "dlpack.h");
static_assert(offsetof(DLTensor, byte_offset) == 40, "dlpack.h");
static_assert(sizeof(DLManagedTensor) == 64, "dlpack.h");
static_assert(offsetof(DLManagedTensor, deleter) == 56, "dlpack.h");
static_assert(sizeof(DLManagedTensorVersioned) == 80, "dlpack.h");
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8, "dlpack.h");
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16, "dlpack.h");
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24, "dlpack.h");
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "dlpack.h");

/* The numbers of the element types are those of operators. */
static_assert((int)MILLRACE_DTYPE_UINT8 == (int)MILLRACE_UINT8, "dtype");
static_assert((int)MILLRACE_DTYPE_FLOAT32 == (int)MILLRACE_FLOAT32, "dtype");
static_assert((int)MILLRACE_DTYPE_UINT16 == (int)MILLRACE_UINT16, "dtype");

int main(void) {
  millrace_options* options = millrace_options_new();
  millrace_error* error = NULL;
  millrace_loader* loader = (millrace_loader*)&error;

  CHECK(millrace_interface_version() == MILLRACE_INTERFACE_VERSION);
  CHECK(strlen(millrace_version()) > 0);
  CHECK(strcmp(millrace_dtype_name(MILLRACE_DTYPE_FLOAT32), "float32") == 0);
  CHECK(strcmp(millrace_dtype_name(-1), "unknown") == 0);
  CHECK(strcmp(millrace_status_name(MILLRACE_STATUS_NOT_READY), "NOT_READY") ==
        0);
  CHECK(strcmp(millrace_status_name(77), "UNKNOWN") == 0);

  CHECK(options != NULL);
  CHECK(millrace_options_set(options, "endpoint", "127.0.0.1:1", &error) ==
        MILLRACE_STATUS_OK);
  CHECK(error == NULL);
  CHECK(millrace_options_set_int(options, "batch_size", 64, NULL) ==
        MILLRACE_STATUS_OK);
  CHECK(millrace_options_validate(options, NULL) ==
        MILLRACE_STATUS_INVALID_ARGUMENT);
  CHECK(millrace_loader_open(options, &loader, &error) ==
        MILLRACE_STATUS_INVALID_ARGUMENT);
  CHECK(loader == NULL);
  CHECK(error != NULL);
  CHECK(millrace_error_status(error) == MILLRACE_STATUS_INVALID_ARGUMENT);
  CHECK(strstr(millrace_error_message(error), "dataset") != NULL);
  CHECK(strcmp(millrace_error_detail(error), "{}") == 0);
  millrace_error_free(error);
  millrace_options_free(options);
  return 0;
}
