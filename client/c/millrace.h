/* Millrace's client as a plain C interface: batches of data servers for any
 * language that can call C. It knows neither libtorch nor CUDA nor Python.
 *
 * What it is not: millrace.hpp is the same for C++, and client/loader.h the
 * C++ interface with tensors of libtorch on a device.
 * server/operators/millrace_operator.h is for plug-ins of a server.
 *
 * C11, usable from C++. Nothing but what is declared here crosses the border:
 * no C++ type, no exception, no callback. No thread of the library ever calls
 * the caller. The deleters of DLPack tensors are plain C functions of the
 * library, which the consumer of a tensor calls.
 *
 *   millrace_options* options = millrace_options_new();
 *   millrace_options_set(options, "endpoint", "data-1:7001", NULL);
 *   millrace_options_set(options, "dataset", "photos", NULL);
 *   millrace_options_set_int(options, "batch_size", 256, NULL);
 *   millrace_loader* loader = NULL;
 *   millrace_error* error = NULL;
 *   if (millrace_loader_open(options, &loader, &error) != MILLRACE_STATUS_OK)
 *     return fail(error);
 *   millrace_batch* batch = NULL;
 *   while (millrace_loader_next(loader, -1, &batch, &error) ==
 *          MILLRACE_STATUS_OK) {
 *     use(batch);
 *     millrace_batch_free(batch);
 *   }
 *   // MILLRACE_STATUS_OUT_OF_RANGE: all epochs were delivered.
 *   millrace_error_free(error);
 *   millrace_loader_free(loader);
 *   millrace_options_free(options);
 *
 * Versions. MILLRACE_INTERFACE_VERSION is raised when the meaning of something
 * below changes. Without raising it, later releases add functions, options,
 * statuses, and members at the end of structs. Options are set by name, so a
 * new option changes no struct. The caller sets `struct_size` of each struct
 * that it passes; the library writes no more than that, and zeroes what it does
 * not know.
 *
 * Errors. A function that can fail returns a millrace_status. Its last argument
 * `error` may be NULL. Otherwise it is set: to NULL with MILLRACE_STATUS_OK and
 * MILLRACE_STATUS_NOT_READY, to a new error with any other status. The caller
 * frees the error with millrace_error_free(). An error belongs to no thread.
 * After a failure, every other result is NULL or 0; a struct is unchanged.
 * Each function may also return, besides what its comment says:
 *   INVALID_ARGUMENT     an argument is NULL that must not be NULL, an index is
 *                        out of range, a struct_size is too small
 *   RESOURCE_EXHAUSTED   no memory
 *   FAILED_PRECONDITION  the object belongs to another process, see Fork
 *   INTERNAL             a defect of the library
 *
 * Text is UTF-8 and ends with a 0 byte. Text that the library gets is copied.
 * Each function says who owns text that the library returns.
 *
 * Threads. Functions without an object are safe from any thread. Options: one
 * thread at a time. Loader: one thread at a time calls millrace_loader_next();
 * a second one gets FAILED_PRECONDITION. Any thread may call the other
 * functions at the same time. millrace_loader_free() waits for calls that are
 * running; no call may begin after it has begun. Batch and error: any number of
 * threads may read; freeing must come after all other calls. DLPack tensors:
 * the deleter may run on any thread, at any time, also after
 * millrace_loader_free().
 *
 * Signals. millrace_loader_wait_open() and millrace_loader_next() return
 * MILLRACE_STATUS_NOT_READY when `timeout_ms` is over. A caller that must react
 * to signals waits in slices, for example of 100 ms. Handlers of signals must
 * not call the library.
 *
 * Fork. An object works in the process that has made it. In a forked child,
 * functions of a loader or a batch of the parent return FAILED_PRECONDITION,
 * and freeing and closing do nothing: they neither wait nor touch the parent's
 * connections. The same holds for the deleters of DLPack tensors. A child whose
 * parent has opened a loader cannot open one, because gRPC does not work after
 * a fork: start such a child with exec (in Python: "spawn" or "forkserver").
 *
 * Unloading the library (dlclose) is not supported: it stays loaded. */

#ifndef MILLRACE_C_MILLRACE_H_
#define MILLRACE_C_MILLRACE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MILLRACE_INTERFACE_VERSION 1

#define MILLRACE_API __attribute__((visibility("default")))

/* MILLRACE_INTERFACE_VERSION of the library. */
MILLRACE_API uint32_t millrace_interface_version(void);
/* Version of the release, "0.1.0". Never freed. */
MILLRACE_API const char* millrace_version(void);

/* ---- Status and errors --------------------------------------------------- */

/* The canonical codes of gRPC and Abseil, and those of Millrace from 100 on. */
typedef int32_t millrace_status;
enum {
  MILLRACE_STATUS_OK = 0,
  MILLRACE_STATUS_CANCELLED = 1,
  MILLRACE_STATUS_UNKNOWN = 2,
  MILLRACE_STATUS_INVALID_ARGUMENT = 3,
  MILLRACE_STATUS_DEADLINE_EXCEEDED = 4,
  MILLRACE_STATUS_NOT_FOUND = 5,
  MILLRACE_STATUS_ALREADY_EXISTS = 6,
  MILLRACE_STATUS_PERMISSION_DENIED = 7,
  MILLRACE_STATUS_RESOURCE_EXHAUSTED = 8,
  MILLRACE_STATUS_FAILED_PRECONDITION = 9,
  MILLRACE_STATUS_ABORTED = 10,
  MILLRACE_STATUS_OUT_OF_RANGE = 11,
  MILLRACE_STATUS_UNIMPLEMENTED = 12,
  MILLRACE_STATUS_INTERNAL = 13,
  MILLRACE_STATUS_UNAVAILABLE = 14,
  MILLRACE_STATUS_DATA_LOSS = 15,
  MILLRACE_STATUS_UNAUTHENTICATED = 16,
  /* timeout_ms is over and nothing has failed: call again. Without an error. */
  MILLRACE_STATUS_NOT_READY = 100
};

/* "INVALID_ARGUMENT"; "UNKNOWN" for a number without a name. Never freed. */
MILLRACE_API const char* millrace_status_name(millrace_status status);

typedef struct millrace_error millrace_error;

/* UNKNOWN for NULL. */
MILLRACE_API millrace_status millrace_error_status(const millrace_error* error);
/* A sentence: what failed, the object, the reason, what to do. Never NULL;
 * valid until millrace_error_free(). */
MILLRACE_API const char* millrace_error_message(const millrace_error* error);
/* Where the error arose, as a JSON object: "stage", and of a damaged sample
 * "dataset", "shard", "row", "sample". "{}": not known. As
 * millrace_error_message(). */
MILLRACE_API const char* millrace_error_detail(const millrace_error* error);
/* NULL: no effect. */
MILLRACE_API void millrace_error_free(millrace_error* error);

/* Frees text that a function has returned as char*. NULL: no effect. */
MILLRACE_API void millrace_text_free(char* text);

/* ---- Log ----------------------------------------------------------------- */

/* The library logs to standard error. `level`: "debug", "info" (the default,
 * unless MILLRACE_LOG_LEVEL is "debug"), "warning" or "error". For the whole
 * process. INVALID_ARGUMENT: another level. */
MILLRACE_API millrace_status millrace_set_log_level(const char* level,
                                                    millrace_error** error);

/* ---- Options ------------------------------------------------------------- */

/* What to load, and how. Each option has a name and a value as text; numbers
 * are decimal, a bool is "true" or "false", a time is "5s", "300ms" or a number
 * of seconds, a size is a number of bytes or "256MiB". The default stands at
 * the end.
 *
 * What to load:
 *   endpoint      data servers: "host:port", several separated by commas, or
 *                 one DNS name with port. Required
 *   dataset       name of the dataset at the servers. Replaces the one source
 *                 of `pipeline`. Required without a pipeline that names it
 *   preset        a pipeline by name, "imagenet_train"
 *   pipeline      a pipeline: a PipelineSpec as protobuf text. Not together
 *                 with `preset`. With neither, the dataset's own preset for
 *                 training
 *   pipeline_name what errors call that text: a file name. "pipeline"
 *   outputs       fields of the dataset that become tensors, separated by
 *                 commas. The pipeline's, or all
 *   batch_size    samples of a global batch, over all ranks. The pipeline's;
 *                 required when it has none
 *   seed          of the order and of every random choice. The pipeline's, or 0
 *   shuffle       "global": a new permutation each epoch; "sequential": in
 *                 order. The pipeline's, or global
 *   last_batch    "drop", "pad" or "partial": the rest of an epoch. The
 *                 pipeline's, or drop
 *   compression   "none" or "zstd", on the network. The pipeline's, or none
 *   rank          this process's part of each global batch, from 0. 0
 *   world_size    number of ranks. 1
 *   start_epoch   epoch of the first batch. 0
 *   start_step    step of the first batch. 0
 *   epochs        number of epochs to deliver, counted from start_epoch; 0: no
 *                 end. 1
 *   expected_plan_hash
 *                 from a checkpoint: opening fails with FAILED_PRECONDITION
 *                 when the servers' plan has another hash (hexadecimal).
 *                 Empty: any plan
 *   expected_fingerprint
 *                 the same for the content of the data. Empty
 *
 * How to load:
 *   window        batches that are requested ahead, 2 to 65536; 0: adapts to
 *                 measurements. 0
 *   window_bytes  upper bound of an adaptive window. 256MiB
 *   initial_window
 *                 first size of an adaptive window, 2 to 256 batches; 0: chosen
 *                 by the size of a batch. 0
 *   memory        "own": the loader allocates and reuses the memory of batches.
 *                 "offered": the caller offers it (millrace_loader_offer()).
 *                 own
 *   read_only     bool: the caller does not write to batches. A batch in memory
 *                 that a server of this machine shares is then returned without
 *                 a copy; writing to it ends the process. Not with memory
 *                 "offered". false
 *   same_host     "off", "auto" or "require": whether servers of this machine
 *                 pass batches in shared memory. off
 *   verify_payload
 *                 bool: compare each batch with a digest. true
 *   open_timeout  max time until the first server answers. 5s
 *   next_timeout  max time to wait for one batch. 5m
 *   step_timeout  time without progress after which a step is requested from
 *                 another server. 15s
 *   hedge_share   upper bound of the share of steps that are requested from a
 *                 second server because they are late, 0 to 1; 0: none. 0.05
 *   hedge_floor   min time before a step counts as late; 0: none. 20ms
 */
typedef struct millrace_options millrace_options;

/* NULL: no memory. */
MILLRACE_API millrace_options* millrace_options_new(void);
/* NULL: no effect. */
MILLRACE_API void millrace_options_free(millrace_options* options);

/* Sets one option; a second value replaces the first. INVALID_ARGUMENT: there
 * is no option of that name (the error names the nearest one), the value does
 * not parse or is not UTF-8. Values that are impossible together are refused by
 * millrace_options_validate() and millrace_loader_open(). */
MILLRACE_API millrace_status millrace_options_set(millrace_options* options,
                                                  const char* name,
                                                  const char* value,
                                                  millrace_error** error);
/* The same with a number as value. */
MILLRACE_API millrace_status millrace_options_set_int(millrace_options* options,
                                                      const char* name,
                                                      int64_t value,
                                                      millrace_error** error);

/* Checks the options as millrace_loader_open() does. Asks no server and starts
 * no thread; works in a forked child, too. INVALID_ARGUMENT: an option is
 * missing, has a value that is not allowed, or cannot be used together with
 * another one. What only the servers know, such as the names of datasets, is
 * not checked. */
MILLRACE_API millrace_status millrace_options_validate(
    const millrace_options* options, millrace_error** error);

/* The options of this release: name number `index`, NULL past the last. Never
 * freed. */
MILLRACE_API size_t millrace_option_count(void);
MILLRACE_API const char* millrace_option_name(size_t index);

/* ---- Loader -------------------------------------------------------------- */

typedef struct millrace_loader millrace_loader;
typedef struct millrace_batch millrace_batch;

/* Checks the options and begins to open the pipeline on the servers. Does not
 * wait for a server. The options may be freed or changed afterwards.
 * INVALID_ARGUMENT: as millrace_options_validate(). FAILED_PRECONDITION: a
 * forked child, see above. */
MILLRACE_API millrace_status
millrace_loader_open(const millrace_options* options, millrace_loader** loader,
                     millrace_error** error);

/* Waits until the loader is open, at most timeout_ms; below 0: without limit
 * (open_timeout applies).
 *   NOT_READY            timeout_ms is over
 *   INVALID_ARGUMENT     the servers refuse the pipeline
 *   NOT_FOUND            no server has the dataset or the preset
 *   FAILED_PRECONDITION  the servers disagree about the plan, or it is not the
 *                        expected one
 *   UNAVAILABLE          no server answered; DEADLINE_EXCEEDED: in time
 *   CANCELLED            closed
 * A loader that has failed to open stays so: free it. */
MILLRACE_API millrace_status millrace_loader_wait_open(millrace_loader* loader,
                                                       int64_t timeout_ms,
                                                       millrace_error** error);

/* The next batch of the rank; waits until the loader is open, too. Waits at
 * most timeout_ms; 0: does not wait; below 0: without a limit of its own. The
 * caller frees the batch with millrace_batch_free().
 *   NOT_READY            timeout_ms is over, no batch yet: call again
 *   OUT_OF_RANGE         all epochs were delivered
 *   DEADLINE_EXCEEDED    the calls for this batch have waited for next_timeout
 *                        together, or the caller holds all slots, or has
 *                        offered no memory; may be called again
 *   UNAVAILABLE          the same, and no server can be reached
 *   CANCELLED            closed
 *   FAILED_PRECONDITION  another thread is in this function
 *   RESOURCE_EXHAUSTED   no memory; the position may have moved past a batch
 *                        that was not returned: seek to it
 *   others               final until millrace_loader_seek(), for example
 *                        DATA_LOSS, a damaged sample; or the loader has failed
 *                        to open, see millrace_loader_wait_open() */
MILLRACE_API millrace_status millrace_loader_next(millrace_loader* loader,
                                                  int64_t timeout_ms,
                                                  millrace_batch** batch,
                                                  millrace_error** error);

/* Position after the last batch that millrace_loader_next() returned, or of a
 * later seek: save it in a checkpoint. A new loader continues there with
 * start_epoch and start_step. After the last step of an epoch: step 0 of the
 * next epoch. Before the first batch: start_epoch, start_step. */
MILLRACE_API millrace_status millrace_loader_position(millrace_loader* loader,
                                                      uint64_t* epoch,
                                                      uint64_t* step,
                                                      millrace_error** error);

/* Continues at this position: the next batch is the batch of that position,
 * also for a millrace_loader_next() that is waiting. Costs no request to open.
 * Batches that the caller holds stay valid. Ends a final error and
 * OUT_OF_RANGE. The last epoch stays the one that start_epoch and epochs give.
 *   INVALID_ARGUMENT     a step past the end of its epoch, or an epoch past the
 *                        last one. Nothing has changed
 *   FAILED_PRECONDITION  the loader is not open yet
 *   CANCELLED            closed */
MILLRACE_API millrace_status millrace_loader_seek(millrace_loader* loader,
                                                  uint64_t epoch, uint64_t step,
                                                  millrace_error** error);

/* What the servers answered when the loader was opened. Texts and the JSON are
 * the loader's and valid until millrace_loader_free(). */
typedef struct millrace_plan {
  uint32_t struct_size; /* set by the caller */
  uint32_t content_revision;
  uint64_t steps_per_epoch;
  uint64_t samples_per_epoch;
  uint64_t dropped_per_epoch; /* samples that last_batch "drop" leaves out */
  uint64_t batch_size;        /* of all ranks together */
  uint64_t max_batch_bytes;   /* of this rank: min size of offered memory */
  const char* plan_hash;      /* hexadecimal */
  const char* fingerprint;    /* of the content of the data */
  /* Everything, as a JSON object: the members above; "pipeline", the resolved
   * PipelineSpec as protobuf text; "tensors", each with name, dtype,
   * sample_shape, num_classes, class_names, view ("as_stored" or
   * "channels_first") and cast (null, or dtype, scale, mean, stddev,
   * channels_first); "sources". */
  const char* json;
} millrace_plan;

/* FAILED_PRECONDITION: the loader is not open yet. */
MILLRACE_API millrace_status millrace_loader_get_plan(millrace_loader* loader,
                                                      millrace_plan* plan,
                                                      millrace_error** error);

/* Counters since the loader was opened, as a JSON object under the names of
 * HostLoader::Stats (client/prefetch/host_loader.h); "by_server" is a list with
 * an object for each server. The caller frees the text with
 * millrace_text_free(). Before the loader is open: all counters are 0. */
MILLRACE_API millrace_status millrace_loader_stats(millrace_loader* loader,
                                                   char** json,
                                                   millrace_error** error);

/* One line that says where the time went since the previous call of this
 * function, or since the loader was opened: "waited 11 %: decoding on 2 of 6
 * servers; add servers or cores". As millrace_loader_stats(). */
MILLRACE_API millrace_status millrace_loader_where_the_time_went(
    millrace_loader* loader, char** text, millrace_error** error);

/* What was drawn for each sample of this rank's batch at a position, and where
 * the sample lies, as a JSON object (docs/client.md). Asks the servers; waits
 * at most timeout_ms, below 0: 60 s. The caller frees the text.
 *   UNIMPLEMENTED        the server has an earlier version
 *   OUT_OF_RANGE         a step past the end of its epoch
 *   FAILED_PRECONDITION  the loader is not open yet
 *   CANCELLED            by millrace_loader_cancel_explain(), or closed
 *   others               as millrace_loader_wait_open() */
MILLRACE_API millrace_status millrace_loader_explain(
    millrace_loader* loader, uint64_t epoch, uint64_t step, int64_t timeout_ms,
    char** json, millrace_error** error);

/* Ends the calls of millrace_loader_explain() that have begun: each returns
 * CANCELLED within about 50 ms. The loader stays open. For a program that
 * reacts to signals, from another thread than the one that waits. */
MILLRACE_API millrace_status
millrace_loader_cancel_explain(millrace_loader* loader, millrace_error** error);

/* Ends opening and receiving. A waiting function returns CANCELLED. Waits until
 * the threads of the loader have ended; while a DNS server does not answer,
 * that takes a few seconds. Batches that the caller holds stay valid. Later
 * calls return CANCELLED, except millrace_loader_get_plan(), _position(),
 * _stats() and _where_the_time_went(). A second call has no effect; nor has
 * NULL. */
MILLRACE_API void millrace_loader_close(millrace_loader* loader);

/* Closes, waits for running calls of other threads, and frees. NULL: no
 * effect. */
MILLRACE_API void millrace_loader_free(millrace_loader* loader);

/* ---- Offered memory ------------------------------------------------------ */

/* With the option memory = "offered", each batch is received into memory of the
 * caller, without a copy inside the library: for example page-locked memory of
 * torch's allocator. The caller offers buffers ahead, and the loader requests
 * only as many batches as it has buffers for.
 *
 * A buffer belongs to the loader from millrace_loader_offer() until one of
 * these returns:
 *   - millrace_loader_next(), with the batch that lies in the buffer:
 *     millrace_batch_info.data is its address. From then on the library neither
 *     writes to the buffer nor reads it, except in millrace_batch_cast().
 *   - millrace_loader_close() or millrace_loader_free(): all buffers that were
 *     not returned with a batch are then the caller's again.
 * Until then the caller must neither write to the buffer nor free it. A buffer
 * may be offered again after it was returned; until then the loader does not
 * touch it. millrace_batch_free() has no effect on it.
 *
 *   uint32_t wanted;
 *   millrace_loader_wanted(loader, &wanted, &error);   // after wait_open
 *   for (; wanted > 0; --wanted)
 *     millrace_loader_offer(loader, take(plan.max_batch_bytes),
 *                           plan.max_batch_bytes, &error);
 *   millrace_loader_next(loader, -1, &batch, &error);
 *
 * Tensors that millrace_batch_dlpack() exports of such a batch point into the
 * buffer: the caller keeps the buffer until their deleters have run. */

/* Gives the loader one buffer. `data` must be aligned to 64 bytes, and `bytes`
 * at least millrace_plan.max_batch_bytes.
 *   INVALID_ARGUMENT     misaligned, too small, or overlaps a buffer that the
 *                        loader has
 *   FAILED_PRECONDITION  memory is "own", or the loader is not open yet
 *   RESOURCE_EXHAUSTED   the loader has as many buffers as it can use
 *                        (millrace_loader_wanted() is at most that)
 *   CANCELLED            closed
 * After a failure the buffer is the caller's. */
MILLRACE_API millrace_status millrace_loader_offer(millrace_loader* loader,
                                                   void* data, uint64_t bytes,
                                                   millrace_error** error);

/* Number of buffers to offer now, so that the window is full: changes with each
 * batch and with the window. 0 with memory "own". Errors as
 * millrace_loader_offer(). */
MILLRACE_API millrace_status millrace_loader_wanted(millrace_loader* loader,
                                                    uint32_t* buffers,
                                                    millrace_error** error);

/* ---- Batches ------------------------------------------------------------- */

/* Element types, little-endian; the numbers are those of
 * millrace_operator.h. */
enum {
  MILLRACE_DTYPE_NONE = 0,
  MILLRACE_DTYPE_UINT8 = 1,
  MILLRACE_DTYPE_BOOL = 2, /* one byte, 0 or 1 */
  MILLRACE_DTYPE_INT32 = 3,
  MILLRACE_DTYPE_INT64 = 4,
  MILLRACE_DTYPE_FLOAT32 = 5,
  MILLRACE_DTYPE_FLOAT64 = 6,
  MILLRACE_DTYPE_FLOAT16 = 7,
  MILLRACE_DTYPE_BFLOAT16 = 8,
  MILLRACE_DTYPE_INT8 = 9,
  MILLRACE_DTYPE_INT16 = 10,
  MILLRACE_DTYPE_UINT16 = 11
};

/* "uint8", "float32"; "unknown" for another number. Never freed. */
MILLRACE_API const char* millrace_dtype_name(int32_t dtype);

typedef struct millrace_batch_info {
  uint32_t struct_size; /* set by the caller */
  uint32_t tensor_count;
  uint64_t epoch;
  uint64_t step;
  uint64_t rows;        /* of this rank, padding included */
  uint64_t local_valid; /* rows of this rank that hold a sample */
  /* Rows of the global batch, over all ranks, that the plan fills: no padding,
   * but rows that were left empty because their sample is damaged. */
  uint64_t global_valid;
  uint64_t first_position; /* number of row 0 in the order of the epoch */
  uint64_t generation;     /* number of seeks before this batch */
  /* The memory of all tensors; with memory "offered", the offered buffer. */
  void* data;
  uint64_t bytes;
  /* XXH3-64 of `bytes` bytes at `data` as the server sent it; 0 without
   * verify_payload. */
  uint64_t payload_xxh3;
} millrace_batch_info;

enum {
  /* [rows, sample_shape...], row-major. */
  MILLRACE_TENSOR_DENSE = 0,
  /* A field whose samples have different lengths becomes two tensors, one after
   * the other in the batch. The values of all rows, [values, value shape...],
   * under the name of the field: row i has values[offsets[i]] to
   * values[offsets[i + 1] - 1]. */
  MILLRACE_TENSOR_VALUES = 1,
  /* int64 [rows + 1], under the name "NAME.offsets". */
  MILLRACE_TENSOR_OFFSETS = 2
};

/* A tensor of a batch. All pointers are the batch's and valid until
 * millrace_batch_free(). */
typedef struct millrace_tensor {
  uint32_t struct_size; /* set by the caller */
  int32_t dtype;
  const char* name;
  int32_t kind; /* MILLRACE_TENSOR_... */
  int32_t dims;
  const int64_t* shape;   /* [dims]; dims is at least 1 */
  const int64_t* strides; /* [dims], in bytes */
  void* data;             /* aligned to 64 bytes */
  uint64_t bytes;
  /* 1: the memory is read-only; writing to it ends the process. */
  int32_t read_only;
  /* 1: the tensor holds images [rows, H, W, C] that a program for torch should
   * see as [rows, C, H, W], by a permutation without a copy. */
  int32_t channels_first_view;
  /* Type and size of the result of millrace_batch_cast(); MILLRACE_DTYPE_NONE
   * and 0: the pipeline leaves nothing to the client. */
  int32_t cast_dtype;
  int32_t reserved;
  uint64_t cast_bytes;
} millrace_tensor;

MILLRACE_API millrace_status
millrace_batch_get_info(const millrace_batch* batch, millrace_batch_info* info,
                        millrace_error** error);

/* `index` is below millrace_batch_info.tensor_count. Besides the fields of the
 * dataset there are "sample_index" (int64 [rows], -1 in padding) and "valid"
 * (bool [rows]); of several sources "source_index" as well. */
MILLRACE_API millrace_status
millrace_batch_get_tensor(const millrace_batch* batch, size_t index,
                          millrace_tensor* tensor, millrace_error** error);

/* NOT_FOUND: the batch has no such tensor; the error lists what it has. */
MILLRACE_API millrace_status
millrace_batch_find_tensor(const millrace_batch* batch, const char* name,
                           size_t* index, millrace_error** error);

/* Computes what the pipeline leaves to the client (docs/transforms.md): a cast,
 * or (x * scale - mean) / stddev, bit for bit as the C++ client does. Writes
 * the result, of the tensor's shape, row-major, to `out`; `bytes` is
 * millrace_tensor.cast_bytes.
 *   FAILED_PRECONDITION  the tensor has no cast
 *   DATA_LOSS            a number does not fit into the smaller type */
MILLRACE_API millrace_status millrace_batch_cast(const millrace_batch* batch,
                                                 size_t index, void* out,
                                                 uint64_t bytes,
                                                 millrace_error** error);

/* The loader reuses the memory of the batch when the batch and all tensors that
 * were exported of it are freed. NULL: no effect. */
MILLRACE_API void millrace_batch_free(millrace_batch* batch);

/* ---- DLPack -------------------------------------------------------------- */

/* Types of DLPack (dlpack.h, or millrace_dlpack.h without it). */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Exports a tensor without a copy. The tensor keeps the memory of the batch
 * until its deleter has run, also after millrace_batch_free() and after
 * millrace_loader_free(). The consumer calls the deleter once. Version 1.0;
 * a tensor in read-only memory has DLPACK_FLAG_BITMASK_READ_ONLY. */
MILLRACE_API millrace_status millrace_batch_dlpack_versioned(
    const millrace_batch* batch, size_t index,
    struct DLManagedTensorVersioned** tensor, millrace_error** error);

/* For consumers that know DLPack before 1.0, which has no mark for read-only
 * memory. FAILED_PRECONDITION: the memory is read-only. */
MILLRACE_API millrace_status
millrace_batch_dlpack(const millrace_batch* batch, size_t index,
                      struct DLManagedTensor** tensor, millrace_error** error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_C_MILLRACE_H_ */
