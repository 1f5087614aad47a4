/* _millrace.Loader: a loader of the C interface. Waits without the
 * interpreter's lock, in slices, so that signals are handled.
 *
 * Memory: the loader receives into blocks of its pool (memory = "offered" of
 * millrace.h), and a tensor keeps its block. A program may therefore keep any
 * number of batches; each costs its memory and delays nothing.
 *
 * Or into memory of the program, such as page-locked memory of torch: Next() is
 * given a function that allocates it. All tensors then lie in such memory, also
 * the batch when a tensor views it. Each block of the program is filled once.
 * Its object is released under the interpreter's lock: only Next(), close,
 * dealloc and _millrace.Tensor drop references of such blocks. */

#include <stdlib.h>
#include <string.h>

#include "client/python/extension/extension.h"

/* Time until a signal, such as Ctrl-C, ends a wait. */
enum { kSliceMs = 50 };

/* A tensor of at most so many bytes gets memory of its own: a program that
 * collects the labels of an epoch does not keep the images with them. */
enum { kMaxSmallBytes = 64 << 10 };

typedef struct {
  PyObject_HEAD millrace_loader* loader;
  BlockPool* pool;
  uint64_t batch_bytes; /* of an offered block; 0: not open yet */
  /* Blocks that the loader has. Changed by the thread in Next(), and without
   * one, by close. */
  Block* offered;
  /* Blocks of the program that the loader can use soon, and a block that it
   * could not take. As `offered`. */
  Block* stock;
  int views_batches; /* tensors view batches: program memory is offered */
  int in_next;       /* 0 or 1 */
  int closed;        /* the blocks are ours again */
} Loader;

static void Push(Block** list, Block* block) {
  block->next = *list;
  *list = block;
}

static Block* Pop(Block** list) {
  Block* const block = *list;
  if (block != NULL) *list = block->next;
  return block;
}

/* ---- Opening and closing --------------------------------------------------
 */

int SetOptions(millrace_options* options, PyObject* settings,
               millrace_error** error) {
  Py_ssize_t position = 0;
  PyObject* name;
  PyObject* value;
  while (PyDict_Next(settings, &position, &name, &value)) {
    const char* const name_text = PyUnicode_AsUTF8AndSize(name, NULL);
    const char* const value_text =
        name_text == NULL ? NULL : PyUnicode_AsUTF8AndSize(value, NULL);
    if (value_text == NULL) return -1;
    if (millrace_options_set(options, name_text, value_text, error) !=
        MILLRACE_STATUS_OK) {
      return -1;
    }
  }
  return 0;
}

static PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  static char* names[] = {"settings", NULL};
  PyObject* settings = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!:Loader", names,
                                   &PyDict_Type, &settings)) {
    return NULL;
  }
  const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Loader* const self = (Loader*)allocate(type, 0); /* zeroed */
  if (self == NULL) return NULL;
  self->pool = millrace_pool_new();
  millrace_options* const options = millrace_options_new();
  millrace_error* error = NULL;
  if (self->pool == NULL || options == NULL) {
    PyErr_NoMemory();
  } else if (SetOptions(options, settings, &error) == 0 &&
             millrace_options_set(options, "memory", "offered", &error) ==
                 MILLRACE_STATUS_OK) {
    millrace_loader_open(options, &self->loader, &error);
  }
  millrace_options_free(options);
  if (error != NULL) RaiseError(error);
  if (PyErr_Occurred()) {
    Py_DECREF((PyObject*)self);
    return NULL;
  }
  return (PyObject*)self;
}

/* All blocks are ours again: the loader is closed and nobody is in Next(). */
static void FreeMemory(Loader* self) {
  Block* block;
  while ((block = Pop(&self->offered)) != NULL) millrace_block_drop(block);
  while ((block = Pop(&self->stock)) != NULL) millrace_block_drop(block);
  if (self->pool != NULL) millrace_pool_end(self->pool);
}

static PyObject* Close(Loader* self, PyObject* unused) {
  Py_BEGIN_ALLOW_THREADS;
  millrace_loader_close(self->loader);
  Py_END_ALLOW_THREADS;
  /* Not before: while it closes, Next() has returned and batches are received.
   */
  self->closed = 1;
  if (!self->in_next) FreeMemory(self);
  Py_RETURN_NONE;
}

static void Dealloc(Loader* self) {
  PyTypeObject* const type = Py_TYPE((PyObject*)self);
  /* Nobody is in Next(): a caller has a reference. Waits for threads, which
   * takes seconds while a DNS server does not answer. */
  Py_BEGIN_ALLOW_THREADS;
  millrace_loader_free(self->loader);
  Py_END_ALLOW_THREADS;
  FreeMemory(self);
  millrace_pool_free(self->pool);
  const freefunc free_self = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_self(self);
  Py_DECREF(type);
}

static PyObject* WaitOpen(Loader* self, PyObject* unused) {
  millrace_plan plan = {.struct_size = sizeof(plan)};
  while (1) {
    millrace_error* error = NULL;
    millrace_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = millrace_loader_wait_open(self->loader, kSliceMs, &error);
    if (status == MILLRACE_STATUS_OK) {
      status = millrace_loader_get_plan(self->loader, &plan, &error);
    }
    Py_END_ALLOW_THREADS;
    if (status == MILLRACE_STATUS_OK) break;
    if (status != MILLRACE_STATUS_NOT_READY) return RaiseError(error);
    if (PyErr_CheckSignals() < 0) return NULL;
  }
  self->batch_bytes = plan.max_batch_bytes;
  return PyUnicode_FromString(plan.json);
}

/* ---- Batches
 * ------------------------------------------------------------------- */

/* A tensor that the program wants. */
typedef struct {
  const char* name;
  int transform;        /* compute what the pipeline leaves to the client */
  size_t index;         /* in the batch */
  millrace_tensor sent; /* as the server sent it, in the memory of the batch */
  TensorView view;      /* what the program gets */
} Field;

/* What Next() gets without the interpreter's lock. */
typedef struct {
  Py_ssize_t count;
  Field* fields;
  millrace_batch* batch; /* NULL: none, or done with it */
  Block* block;          /* that the batch lies in */
  millrace_batch_info info;
} Received;

/* Errors of this file, which the C interface did not report. */
typedef enum { kFine, kReported, kNotReady, kNoMemory, kTooManyDims } Outcome;

/* Gives the loader the blocks that it wants now: those of the program first.
 * `of_pool`: 0 or 1, whether blocks of the pool follow. With 0, a loader that
 * wants more blocks than StockUp() has made gets them in the next call. */
static Outcome OfferBlocks(Loader* self, int of_pool, millrace_error** error) {
  uint32_t wanted = 0;
  if (millrace_loader_wanted(self->loader, &wanted, error) !=
      MILLRACE_STATUS_OK) {
    return kReported;
  }
  for (; wanted > 0; --wanted) {
    Block* block = Pop(&self->stock);
    const int of_stock = block != NULL;
    if (!of_stock) {
      if (!of_pool) return kFine;
      block = millrace_pool_take(self->pool, self->batch_bytes);
    }
    if (block == NULL) return kNoMemory;
    const millrace_status status = millrace_loader_offer(
        self->loader, block->data, self->batch_bytes, error);
    if (status != MILLRACE_STATUS_OK) {
      if (of_stock) {
        Push(&self->stock, block);
      } else {
        millrace_block_drop(block);
      }
      if (status != MILLRACE_STATUS_RESOURCE_EXHAUSTED) return kReported;
      /* The window has become smaller meanwhile. */
      millrace_error_free(*error);
      *error = NULL;
      return kFine;
    }
    Push(&self->offered, block);
  }
  return kFine;
}

/* The block that was offered at this address; NULL: none was. */
static Block* TakeOffered(Loader* self, const void* data) {
  Block** place = &self->offered;
  while (*place != NULL && (*place)->data != data) place = &(*place)->next;
  return Pop(place);
}

static void RowMajorStrides(TensorView* view) {
  int64_t stride = ElementBytesOf(view->dtype);
  for (int i = view->dims; i-- > 0;) {
    view->strides[i] = stride;
    stride *= view->shape[i];
  }
}

/* [rows, H, W, C] becomes [rows, C, H, W] of the same memory. */
static void PermuteChannelsFirst(TensorView* view) {
  if (view->dims != 4) return;
  const int64_t channels = view->shape[3];
  const int64_t stride = view->strides[3];
  for (int i = 3; i > 1; --i) {
    view->shape[i] = view->shape[i - 1];
    view->strides[i] = view->strides[i - 1];
  }
  view->shape[1] = channels;
  view->strides[1] = stride;
}

static Outcome FindField(const millrace_batch* batch, Field* field,
                         millrace_error** error) {
  millrace_tensor* const sent = &field->sent;
  sent->struct_size = sizeof(*sent);
  if (millrace_batch_find_tensor(batch, field->name, &field->index, error) !=
          MILLRACE_STATUS_OK ||
      millrace_batch_get_tensor(batch, field->index, sent, error) !=
          MILLRACE_STATUS_OK) {
    return kReported;
  }
  if (sent->dims > kMaxDims || ElementBytesOf(sent->dtype) == 0) {
    return kTooManyDims;
  }
  TensorView* const view = &field->view;
  view->dims = sent->dims;
  view->dtype = sent->dtype;
  view->data = sent->data;
  memcpy(view->shape, sent->shape, sizeof(int64_t) * (size_t)sent->dims);
  memcpy(view->strides, sent->strides, sizeof(int64_t) * (size_t)sent->dims);
  return kFine;
}

/* Waits for one slice, or with 0 not at all. `of_pool`: as OfferBlocks(). */
static Outcome Receive(Loader* self, int of_pool, int64_t slice_ms,
                       Received* received, millrace_status* status,
                       millrace_error** error) {
  Outcome outcome = OfferBlocks(self, of_pool, error);
  if (outcome != kFine) return outcome;
  *status =
      millrace_loader_next(self->loader, slice_ms, &received->batch, error);
  if (*status == MILLRACE_STATUS_NOT_READY) return kNotReady;
  if (*status != MILLRACE_STATUS_OK) return kReported;
  received->info.struct_size = sizeof(received->info);
  if (millrace_batch_get_info(received->batch, &received->info, error) !=
      MILLRACE_STATUS_OK) {
    return kReported;
  }
  received->block = TakeOffered(self, received->info.data);
  for (Py_ssize_t i = 0; i < received->count && outcome == kFine; ++i) {
    outcome = FindField(received->batch, &received->fields[i], error);
  }
  return outcome;
}

static int IsComputed(const Field* field) {
  return field->transform && field->sent.cast_dtype != MILLRACE_DTYPE_NONE;
}

/* Whether the tensor does not need memory of its own. */
static int MayViewBatch(const Field* field) {
  return !IsComputed(field) && field->sent.bytes > kMaxSmallBytes;
}

static uint64_t OwnBytes(const Field* field) {
  return IsComputed(field) ? field->sent.cast_bytes : field->sent.bytes;
}

/* Memory of the pool for the tensors that need some of their own. */
static Outcome TakeMemory(Loader* self, Received* received) {
  for (Py_ssize_t i = 0; i < received->count; ++i) {
    Field* const field = &received->fields[i];
    if (MayViewBatch(field)) continue;
    field->view.block = millrace_pool_take(self->pool, OwnBytes(field));
    if (field->view.block == NULL) return kNoMemory;
  }
  return kFine;
}

/* Computes the tensors that have memory of their own; the others view the
 * batch. */
static Outcome FillFields(Received* received, millrace_error** error) {
  for (Py_ssize_t i = 0; i < received->count; ++i) {
    Field* const field = &received->fields[i];
    TensorView* const view = &field->view;
    if (view->block == NULL) {
      view->block = millrace_block_keep(received->block);
    } else {
      view->data = view->block->data;
      if (!IsComputed(field)) {
        memcpy(view->data, field->sent.data, field->sent.bytes);
      } else if (millrace_batch_cast(received->batch, field->index, view->data,
                                     field->sent.cast_bytes,
                                     error) != MILLRACE_STATUS_OK) {
        return kReported;
      } else {
        view->dtype = field->sent.cast_dtype;
      }
      RowMajorStrides(view);
    }
    if (field->transform && field->sent.channels_first_view) {
      PermuteChannelsFirst(view);
    }
  }
  return kFine;
}

/* Leaves the views. Without the interpreter's lock, except for a block of the
 * program. */
static void DropBatch(Received* received) {
  millrace_batch_free(received->batch);
  received->batch = NULL;
  if (received->block == NULL || received->block->release != NULL) return;
  millrace_block_drop(received->block);
  received->block = NULL;
}

/* ---- Memory of the program
 * -------------------------------------------------------- */

static void ReleaseObject(void* object) { Py_DecRef(object); }

/* A block of the program: allocate(bytes) returns an object that has memory,
 * and its address. Of the pool when it returns None. NULL: an exception is set.
 */
static Block* NewBlock(Loader* self, PyObject* allocate, uint64_t bytes) {
  PyObject* const result =
      PyObject_CallFunction(allocate, "K", (unsigned long long)bytes);
  if (result == NULL) return NULL;
  Block* block = NULL;
  PyObject* owner = NULL;
  unsigned long long address = 0;
  if (result == Py_None) {
    block = millrace_pool_take(self->pool, bytes);
    if (block == NULL) PyErr_NoMemory();
  } else if (!PyTuple_Check(result)) {
    PyErr_SetString(PyExc_TypeError, "allocate: expected (object, address)");
  } else if (PyArg_ParseTuple(result, "OK:allocate", &owner, &address)) {
    block = millrace_pool_adopt(self->pool, (void*)(uintptr_t)address, bytes,
                                owner, ReleaseObject);
    if (block == NULL) {
      PyErr_NoMemory();
    } else {
      Py_INCREF(owner); /* the block's */
    }
  }
  Py_DECREF(result);
  return block;
}

/* Blocks of the program for the next batches. 0: an exception is set. */
static int StockUp(Loader* self, PyObject* allocate) {
  uint32_t wanted = 0;
  millrace_error* error = NULL;
  if (millrace_loader_wanted(self->loader, &wanted, &error) !=
      MILLRACE_STATUS_OK) {
    RaiseError(error);
    return 0;
  }
  for (const Block* block = self->stock; block != NULL && wanted > 0;
       block = block->next) {
    --wanted;
  }
  for (; wanted > 0; --wanted) {
    Block* const block = NewBlock(self, allocate, self->batch_bytes);
    if (block == NULL) return 0;
    Push(&self->stock, block);
  }
  return 1;
}

/* Memory of the program for all tensors but those that view a batch in memory
 * of the program. 0: an exception is set. */
static int AllocateMemory(Loader* self, Received* received,
                          PyObject* allocate) {
  for (Py_ssize_t i = 0; i < received->count; ++i) {
    Field* const field = &received->fields[i];
    if (MayViewBatch(field)) {
      self->views_batches = 1;
      if (received->block->release != NULL) continue;
    }
    field->view.block = NewBlock(self, allocate, OwnBytes(field));
    if (field->view.block == NULL) return 0;
  }
  return 1;
}

/* ---- Next
 * ------------------------------------------------------------------------- */

/* Takes the views over. */
static PyObject* TupleOfTensors(PyObject* names, Received* received) {
  PyObject* const tensors = PyTuple_New(received->count);
  int failed = tensors == NULL;
  for (Py_ssize_t i = 0; i < received->count && !failed; ++i) {
    TensorView* const view = &received->fields[i].view;
    PyObject* const tensor = NewTensor(PyTuple_GetItem(names, i), view);
    view->block = NULL;
    failed = tensor == NULL || PyTuple_SetItem(tensors, i, tensor) < 0;
  }
  if (!failed) return tensors;
  Py_XDECREF(tensors);
  return NULL;
}

static PyObject* RaiseOutcome(Outcome outcome, millrace_error* error) {
  if (outcome == kReported) return RaiseError(error);
  if (outcome == kNoMemory) return PyErr_NoMemory();
  char message[160];
  PyOS_snprintf(message, sizeof(message),
                "a tensor of the batch has more than %d dimensions, or an "
                "element type that this release does not know",
                (int)kMaxDims);
  return RaiseStatus("UNIMPLEMENTED", message, "{}");
}

/* `allocate`: NULL when the memory is the loader's. `wait`: 0 or 1. */
static PyObject* NextBatch(Loader* self, PyObject* names, PyObject* allocate,
                           int wait, Received* received) {
  while (1) {
    millrace_status status = MILLRACE_STATUS_OK;
    millrace_error* error = NULL;
    Outcome outcome;
    const int of_program = allocate != NULL && self->views_batches;
    if (of_program && !StockUp(self, allocate)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    outcome = Receive(self, !of_program, wait ? kSliceMs : 0, received, &status,
                      &error);
    if (outcome == kFine && allocate == NULL) {
      outcome = TakeMemory(self, received);
      if (outcome == kFine) outcome = FillFields(received, &error);
      DropBatch(received);
    }
    Py_END_ALLOW_THREADS;
    if (outcome == kFine && allocate != NULL) {
      if (!AllocateMemory(self, received, allocate)) return NULL;
      Py_BEGIN_ALLOW_THREADS;
      outcome = FillFields(received, &error);
      DropBatch(received);
      Py_END_ALLOW_THREADS;
    }
    if (outcome == kFine) break;
    if (status == MILLRACE_STATUS_OUT_OF_RANGE) {
      millrace_error_free(error);
      Py_RETURN_NONE;
    }
    if (outcome != kNotReady) return RaiseOutcome(outcome, error);
    if (!wait) Py_RETURN_NONE;
    if (PyErr_CheckSignals() < 0) return NULL;
  }
  PyObject* const tensors = TupleOfTensors(names, received);
  if (tensors == NULL) return NULL;
  return Py_BuildValue("(KKKKKN)", (unsigned long long)received->info.epoch,
                       (unsigned long long)received->info.step,
                       (unsigned long long)received->info.rows,
                       (unsigned long long)received->info.local_valid,
                       (unsigned long long)received->info.global_valid,
                       tensors);
}

static PyObject* Next(Loader* self, PyObject* arguments) {
  PyObject* names = NULL;
  PyObject* transforms = NULL;
  PyObject* allocate = Py_None;
  int wait = 1;
  Received received = {0};
  if (!PyArg_ParseTuple(arguments, "O!O!|Op:next", &PyTuple_Type, &names,
                        &PyTuple_Type, &transforms, &allocate, &wait)) {
    return NULL;
  }
  if (PyTuple_Size(transforms) != PyTuple_Size(names)) {
    PyErr_SetString(PyExc_ValueError,
                    "transforms: expected one truth value for each name");
    return NULL;
  }
  if (self->batch_bytes == 0) {
    PyErr_SetString(PyExc_RuntimeError, "call wait_open() first");
    return NULL;
  }
  if (self->in_next) {
    return RaiseStatus(
        "FAILED_PRECONDITION",
        "another thread is waiting for a batch of this loader; one thread at a "
        "time takes batches",
        "{}");
  }
  received.count = PyTuple_Size(names);
  received.fields = calloc((size_t)received.count + 1, sizeof(Field));
  if (received.fields == NULL) return PyErr_NoMemory();
  PyObject* result = NULL;
  int ready = 1;
  for (Py_ssize_t i = 0; i < received.count && ready; ++i) {
    Field* const field = &received.fields[i];
    field->name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
    field->transform = PyObject_IsTrue(PyTuple_GetItem(transforms, i));
    ready = field->name != NULL && field->transform >= 0;
  }
  if (ready) {
    self->in_next = 1;
    result = NextBatch(self, names, allocate == Py_None ? NULL : allocate, wait,
                       &received);
    self->in_next = 0;
    if (self->closed) FreeMemory(self);
  }
  for (Py_ssize_t i = 0; i < received.count; ++i) {
    millrace_block_drop(received.fields[i].view.block);
  }
  DropBatch(&received);
  millrace_block_drop(received.block);
  free(received.fields);
  return result;
}

static PyObject* ExpectView(Loader* self, PyObject* argument) {
  const unsigned long long bytes = PyLong_AsUnsignedLongLong(argument);
  if (PyErr_Occurred()) return NULL;
  if (bytes > kMaxSmallBytes) self->views_batches = 1;
  Py_RETURN_NONE;
}

/* ---- Other functions
 * ------------------------------------------------------------- */

static PyObject* Seek(Loader* self, PyObject* arguments) {
  unsigned long long epoch = 0;
  unsigned long long step = 0;
  if (!PyArg_ParseTuple(arguments, "KK:seek", &epoch, &step)) return NULL;
  millrace_error* error = NULL;
  millrace_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = millrace_loader_seek(self->loader, epoch, step, &error);
  Py_END_ALLOW_THREADS;
  if (status != MILLRACE_STATUS_OK) return RaiseError(error);
  Py_RETURN_NONE;
}

static PyObject* Position(Loader* self, PyObject* unused) {
  uint64_t epoch = 0;
  uint64_t step = 0;
  millrace_error* error = NULL;
  if (millrace_loader_position(self->loader, &epoch, &step, &error) !=
      MILLRACE_STATUS_OK) {
    return RaiseError(error);
  }
  return Py_BuildValue("(KK)", (unsigned long long)epoch,
                       (unsigned long long)step);
}

/* Takes the text over. */
static PyObject* TextOr(millrace_status status, char* text,
                        millrace_error* error) {
  if (status != MILLRACE_STATUS_OK) return RaiseError(error);
  PyObject* const result = PyUnicode_FromString(text);
  millrace_text_free(text);
  return result;
}

static PyObject* Stats(Loader* self, PyObject* unused) {
  char* text = NULL;
  millrace_error* error = NULL;
  millrace_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = millrace_loader_stats(self->loader, &text, &error);
  Py_END_ALLOW_THREADS;
  return TextOr(status, text, error);
}

static PyObject* WhereTheTimeWent(Loader* self, PyObject* unused) {
  char* text = NULL;
  millrace_error* error = NULL;
  millrace_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = millrace_loader_where_the_time_went(self->loader, &text, &error);
  Py_END_ALLOW_THREADS;
  return TextOr(status, text, error);
}

static PyObject* Explain(Loader* self, PyObject* arguments) {
  unsigned long long epoch = 0;
  unsigned long long step = 0;
  if (!PyArg_ParseTuple(arguments, "KK:explain", &epoch, &step)) return NULL;
  char* text = NULL;
  millrace_error* error = NULL;
  millrace_status status;
  Py_BEGIN_ALLOW_THREADS;
  status =
      millrace_loader_explain(self->loader, epoch, step, -1, &text, &error);
  Py_END_ALLOW_THREADS;
  return TextOr(status, text, error);
}

static PyObject* CancelExplain(Loader* self, PyObject* unused) {
  millrace_error* error = NULL;
  if (millrace_loader_cancel_explain(self->loader, &error) !=
      MILLRACE_STATUS_OK) {
    return RaiseError(error);
  }
  Py_RETURN_NONE;
}

/* ---- The type
 * ----------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"wait_open", (PyCFunction)WaitOpen, METH_NOARGS,
     "Waits until the loader is open; returns the plan as JSON."},
    {"next", (PyCFunction)Next, METH_VARARGS,
     "next(names, transforms, allocate, wait): the next batch, (epoch, step, "
     "rows, local_valid,\nglobal_valid, tensors); None after the last epoch, "
     "and with wait=False when it is not there\nyet. transforms: for each "
     "name, "
     "whether to compute what the pipeline leaves to the client,\nand to show "
     "images as [rows, C, H, W]. allocate: None, or a function that returns "
     "memory for\nthe tensors, (object, address) for a number of bytes."},
    {"expect_view", (PyCFunction)ExpectView, METH_O,
     "expect_view(bytes): a tensor of so many bytes is wanted as it is sent. "
     "next() then offers\nmemory of `allocate` from its first call on, where "
     "the tensor views the batch, and not\nfrom the first such batch on."},
    {"seek", (PyCFunction)Seek, METH_VARARGS,
     "seek(epoch, step): continues at this position."},
    {"position", (PyCFunction)Position, METH_NOARGS,
     "(epoch, step) after the last batch."},
    {"stats", (PyCFunction)Stats, METH_NOARGS, "Counters, as JSON."},
    {"where_the_time_went", (PyCFunction)WhereTheTimeWent, METH_NOARGS,
     "Why the consumer waited since the last call, in one line."},
    {"explain", (PyCFunction)Explain, METH_VARARGS,
     "explain(epoch, step): what was drawn for each sample, as JSON. Handles "
     "no "
     "signals."},
    {"cancel_explain", (PyCFunction)CancelExplain, METH_NOARGS,
     "Ends explain() in other threads: CancelledError."},
    {"close", (PyCFunction)Close, METH_NOARGS,
     "Ends receiving, and every wait."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Loader(settings): begins to open a loader with options of the C "
     "interface, {name: value}."},
    {Py_tp_new, New},
    {Py_tp_dealloc, Dealloc},
    {Py_tp_methods, methods},
    {0, NULL}};

static PyType_Spec spec = {"millrace._millrace.Loader", sizeof(Loader), 0,
                           Py_TPFLAGS_DEFAULT, slots};

int AddLoaderType(PyObject* module) {
  PyObject* const type = PyType_FromSpec(&spec);
  if (type == NULL) return -1;
  const int result = PyModule_AddObjectRef(module, "Loader", type);
  Py_DECREF(type);
  return result;
}
