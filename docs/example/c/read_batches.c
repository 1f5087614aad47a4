/* Reads batches with Millrace's C client and prints what they hold.
 *
 *   read_batches HOST:PORT[,HOST:PORT...] DATASET BATCH_SIZE
 */

#include <inttypes.h>
#include <stdio.h>

#include "millrace.h"

static int fail(millrace_error* error) {
  fprintf(stderr, "%s: %s\n",
          millrace_status_name(millrace_error_status(error)),
          millrace_error_message(error));
  millrace_error_free(error);
  return 1;
}

static void print_batch(const millrace_batch* batch) {
  millrace_batch_info info = {.struct_size = sizeof(info)};
  millrace_batch_get_info(batch, &info, NULL);
  printf("epoch %" PRIu64 " step %" PRIu64 ": %" PRIu64 " samples\n",
         info.epoch, info.step, info.local_valid);
  for (uint32_t i = 0; info.step == 0 && i < info.tensor_count; ++i) {
    millrace_tensor tensor = {.struct_size = sizeof(tensor)};
    millrace_batch_get_tensor(batch, i, &tensor, NULL);
    printf("  %s %s [", tensor.name, millrace_dtype_name(tensor.dtype));
    for (int32_t d = 0; d < tensor.dims; ++d)
      printf(d == 0 ? "%" PRId64 : ", %" PRId64, tensor.shape[d]);
    printf("], %" PRIu64 " bytes at %p\n", tensor.bytes, tensor.data);
  }
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s HOST:PORT DATASET BATCH_SIZE\n", argv[0]);
    return 2;
  }
  millrace_error* error = NULL;
  millrace_options* options = millrace_options_new();
  const char* settings[][2] = {
      {"endpoint", argv[1]}, {"dataset", argv[2]}, {"batch_size", argv[3]}};
  for (int i = 0; i < 3; ++i)
    if (millrace_options_set(options, settings[i][0], settings[i][1], &error))
      return fail(error);

  millrace_loader* loader = NULL;
  if (millrace_loader_open(options, &loader, &error)) return fail(error);
  millrace_options_free(options);

  millrace_status status;
  millrace_batch* batch = NULL;
  while ((status = millrace_loader_next(loader, 100, &batch, &error)) ==
             MILLRACE_STATUS_OK ||
         status == MILLRACE_STATUS_NOT_READY) {
    if (batch == NULL) continue; /* a place to look at signals */
    print_batch(batch);
    millrace_batch_free(batch);
  }
  millrace_loader_free(loader);
  if (status != MILLRACE_STATUS_OUT_OF_RANGE) return fail(error);
  millrace_error_free(error); /* all epochs were delivered */
  return 0;
}
