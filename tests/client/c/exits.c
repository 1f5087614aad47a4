/* Ends a process in every state that a loader can be in: nothing may hang or
 * crash, whatever is left open.
 *
 *   exits MODE HOST:PORT DATASET
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace.h"
#include "millrace_dlpack.h"
#include "tests/testing/check.h"

static millrace_loader* open_loader(char** argv) {
  millrace_options* options = millrace_options_new();
  millrace_loader* loader = NULL;
  CHECK(!millrace_options_set(options, "endpoint", argv[2], NULL));
  CHECK(!millrace_options_set(options, "dataset", argv[3], NULL));
  CHECK(!millrace_options_set(options, "batch_size", "2", NULL));
  CHECK(!millrace_options_set(options, "epochs", "0", NULL));
  CHECK(!millrace_loader_open(options, &loader, NULL));
  millrace_options_free(options);
  return loader;
}

static millrace_batch* next(millrace_loader* loader) {
  millrace_batch* batch = NULL;
  CHECK(!millrace_loader_next(loader, -1, &batch, NULL));
  return batch;
}

static struct DLManagedTensor* export_first(const millrace_batch* batch) {
  struct DLManagedTensor* tensor = NULL;
  CHECK(!millrace_batch_dlpack(batch, 0, &tensor, NULL));
  return tensor;
}

static struct DLManagedTensor* kept;
static millrace_loader* kept_loader;

static void free_late(void) {
  kept->deleter(kept);
  millrace_loader_free(kept_loader);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  const char* mode = argv[1];
  if (strcmp(mode, "while_opening") == 0) {
    open_loader(argv);
    return 0;
  }
  if (strcmp(mode, "while_receiving") == 0) {
    next(open_loader(argv));
    return 0;
  }
  if (strcmp(mode, "tensor_last") == 0) {
    millrace_loader* loader = open_loader(argv);
    millrace_batch* batch = next(loader);
    struct DLManagedTensor* tensor = export_first(batch);
    millrace_loader_free(loader);
    millrace_batch_free(batch);
    tensor->deleter(tensor);
    return 0;
  }
  if (strcmp(mode, "atexit") == 0) {
    /* Registered before the library's own work begins: runs after it. */
    atexit(free_late);
    kept_loader = open_loader(argv);
    kept = export_first(next(kept_loader));
    return 0;
  }
  if (strcmp(mode, "exit_of_a_child") == 0) {
    kept_loader = open_loader(argv);
    kept = export_first(next(kept_loader));
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      free_late();
      return 0; /* runs the destructors that the parent has registered */
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    millrace_batch_free(next(kept_loader));
    free_late();
    return 0;
  }
  if (strcmp(mode, "child_first") == 0) {
    /* A parent that has opened nothing: each child may open a loader. */
    for (int i = 0; i < 2; ++i) {
      pid_t child = fork();
      if (child == 0) {
        alarm(20);
        millrace_loader* loader = open_loader(argv);
        millrace_batch_free(next(loader));
        millrace_loader_free(loader);
        return 0;
      }
      int status = 0;
      CHECK(waitpid(child, &status, 0) == child);
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    millrace_loader* loader = open_loader(argv);
    millrace_batch_free(next(loader));
    millrace_loader_free(loader);
    return 0;
  }
  fprintf(stderr, "no mode %s\n", mode);
  return 2;
}
