/* _millrace.Tensor: a tensor of a batch in host memory, for consumers of the
 * buffer protocol and of DLPack. Neither copies. */

#include <stdlib.h>
#include <string.h>

#include "client/c/millrace_dlpack.h"
#include "client/python/extension/extension.h"

typedef struct {
  PyObject_HEAD PyObject* name;
  TensorView view;
  /* The buffer protocol's form of view.shape and view.strides. */
  Py_ssize_t shape[kMaxDims];
  Py_ssize_t strides[kMaxDims];
} Tensor;

typedef struct {
  const char* name;
  const char* format; /* of module struct; NULL: none */
  uint8_t code;       /* DLDataTypeCode */
  uint8_t bytes;
} Element;

/* By MILLRACE_DTYPE_. */
static const Element elements[] = {
    {NULL, NULL, 0, 0},
    {"uint8", "B", kDLUInt, 1},
    {"bool", "?", kDLBool, 1},
    {"int32", "i", kDLInt, 4},
    {"int64", "l", kDLInt, 8},
    {"float32", "f", kDLFloat, 4},
    {"float64", "d", kDLFloat, 8},
    {"float16", "e", kDLFloat, 2},
    {"bfloat16", NULL, kDLBfloat, 2},
    {"int8", "b", kDLInt, 1},
    {"int16", "h", kDLInt, 2},
    {"uint16", "H", kDLUInt, 2},
};

static const Element* ElementOf(int32_t dtype) {
  const int32_t known = sizeof(elements) / sizeof(elements[0]);
  return dtype > 0 && dtype < known ? &elements[dtype] : NULL;
}

int64_t ElementBytesOf(int32_t dtype) {
  const Element* const element = ElementOf(dtype);
  return element == NULL ? 0 : element->bytes;
}

static PyTypeObject* tensor_type = NULL;

PyObject* NewTensor(PyObject* name, const TensorView* view) {
  Tensor* const self = PyObject_New(Tensor, tensor_type);
  if (self == NULL) {
    millrace_block_drop(view->block);
    return NULL;
  }
  self->name = name;
  Py_INCREF(name);
  self->view = *view;
  for (int i = 0; i < view->dims; ++i) {
    self->shape[i] = (Py_ssize_t)view->shape[i];
    self->strides[i] = (Py_ssize_t)view->strides[i];
  }
  return (PyObject*)self;
}

static void Dealloc(Tensor* self) {
  PyTypeObject* const type = Py_TYPE((PyObject*)self);
  millrace_block_drop(self->view.block);
  Py_DECREF(self->name);
  PyObject_Free(self);
  Py_DECREF(type);
}

static int64_t ElementCount(const TensorView* view) {
  int64_t count = 1;
  for (int i = 0; i < view->dims; ++i) count *= view->shape[i];
  return count;
}

/* ---- Attributes -----------------------------------------------------------
 */

static PyObject* GetName(Tensor* self, void* unused) {
  Py_INCREF(self->name);
  return self->name;
}

static PyObject* GetDtype(Tensor* self, void* unused) {
  return PyUnicode_FromString(elements[self->view.dtype].name);
}

static PyObject* TupleOf(const Py_ssize_t* values, int count) {
  PyObject* const tuple = PyTuple_New(count);
  for (int i = 0; tuple != NULL && i < count; ++i) {
    PyObject* const value = PyLong_FromSsize_t(values[i]);
    if (value == NULL || PyTuple_SetItem(tuple, i, value) < 0) {
      Py_DECREF(tuple);
      return NULL;
    }
  }
  return tuple;
}

static PyObject* GetShape(Tensor* self, void* unused) {
  return TupleOf(self->shape, self->view.dims);
}

static PyObject* GetStrides(Tensor* self, void* unused) {
  return TupleOf(self->strides, self->view.dims);
}

static PyObject* GetBytes(Tensor* self, void* unused) {
  return PyLong_FromLongLong(ElementCount(&self->view) *
                             elements[self->view.dtype].bytes);
}

static PyObject* Repr(Tensor* self) {
  PyObject* const shape = GetShape(self, NULL);
  if (shape == NULL) return NULL;
  PyObject* const text =
      PyUnicode_FromFormat("millrace.Tensor(%R, %s, %R)", self->name,
                           elements[self->view.dtype].name, shape);
  Py_DECREF(shape);
  return text;
}

/* ---- The buffer protocol ----------------------------------------------------
 */

/* Whether the elements follow each other without gaps: along the last dimension
 * first (row-major), or along the first one. */
static int IsInOrder(const Tensor* self, int row_major) {
  const int dims = self->view.dims;
  int64_t stride = elements[self->view.dtype].bytes;
  for (int i = 0; i < dims; ++i) {
    const int dim = row_major ? dims - 1 - i : i;
    if (self->shape[dim] != 1 && self->strides[dim] != stride) return 0;
    stride *= self->shape[dim];
  }
  return 1;
}

/* Whether the memory has the order that a consumer asks for. */
static int Fits(const Tensor* self, int flags) {
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES ||
      (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS) {
    return IsInOrder(self, 1);
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
    return IsInOrder(self, 0);
  }
  return (flags & PyBUF_ANY_CONTIGUOUS) != PyBUF_ANY_CONTIGUOUS ||
         IsInOrder(self, 1) || IsInOrder(self, 0);
}

static int GetBuffer(Tensor* self, Py_buffer* buffer, int flags) {
  const Element* const element = &elements[self->view.dtype];
  buffer->obj = NULL;
  if (element->format == NULL) {
    PyErr_Format(PyExc_BufferError,
                 "tensor %R is %s, which Python's buffers and NumPy do not "
                 "have: use tensor_type=\"torch\", or let the pipeline make "
                 "float32 of it (to_dtype)",
                 self->name, element->name);
    return -1;
  }
  if (!Fits(self, flags)) {
    PyErr_Format(PyExc_BufferError,
                 "the elements of tensor %R are not in the order that the "
                 "consumer asks for: give it a copy that is, for example "
                 "numpy.ascontiguousarray(tensor)",
                 self->name);
    return -1;
  }
  buffer->buf = self->view.data;
  buffer->len = (Py_ssize_t)(ElementCount(&self->view) * element->bytes);
  buffer->itemsize = element->bytes;
  buffer->readonly = 0;
  buffer->ndim = self->view.dims;
  buffer->format = (flags & PyBUF_FORMAT) ? (char*)element->format : NULL;
  buffer->shape = (flags & PyBUF_ND) ? self->shape : NULL;
  buffer->strides =
      (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
  buffer->suboffsets = NULL;
  buffer->internal = NULL;
  buffer->obj = (PyObject*)self;
  Py_INCREF((PyObject*)self);
  return 0;
}

/* ---- DLPack -----------------------------------------------------------------
 */

/* What a consumer holds: independent of Python. */
typedef struct {
  union {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
  } managed;
  Block* block;
  int64_t shape[kMaxDims];
  int64_t strides[kMaxDims];
} Export;

static void FreeExport(void* context) {
  Export* const held = context;
  millrace_block_drop(held->block);
  free(held);
}

static void DeletePlain(DLManagedTensor* managed) {
  FreeExport(managed->manager_ctx);
}

static void DeleteVersioned(DLManagedTensorVersioned* managed) {
  FreeExport(managed->manager_ctx);
}

static const char kPlainName[] = "dltensor";
static const char kVersionedName[] = "dltensor_versioned";

/* Consumers rename what they take. */
static void DestroyCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kPlainName)) {
    DeletePlain(PyCapsule_GetPointer(capsule, kPlainName));
  } else if (PyCapsule_IsValid(capsule, kVersionedName)) {
    DeleteVersioned(PyCapsule_GetPointer(capsule, kVersionedName));
  }
}

static PyObject* NewCapsule(Tensor* self, int versioned) {
  if (self->view.block->release != NULL) {
    /* A consumer may free it without the interpreter's lock. */
    PyErr_SetString(PyExc_BufferError,
                    "the memory is the program's: view the object of memory()");
    return NULL;
  }
  Export* const held = calloc(1, sizeof(Export));
  if (held == NULL) return PyErr_NoMemory();
  const Element* const element = &elements[self->view.dtype];
  held->block = millrace_block_keep(self->view.block);
  DLTensor* tensor = &held->managed.plain.dl_tensor;
  if (versioned) {
    DLManagedTensorVersioned* const managed = &held->managed.versioned;
    managed->version.major = 1;
    managed->version.minor = 0;
    managed->manager_ctx = held;
    managed->deleter = DeleteVersioned;
    tensor = &managed->dl_tensor;
  } else {
    held->managed.plain.manager_ctx = held;
    held->managed.plain.deleter = DeletePlain;
  }
  for (int i = 0; i < self->view.dims; ++i) {
    held->shape[i] = self->view.shape[i];
    held->strides[i] = self->view.strides[i] / element->bytes;
  }
  tensor->data = self->view.data;
  tensor->device.device_type = kDLCPU;
  tensor->ndim = self->view.dims;
  tensor->dtype.code = element->code;
  tensor->dtype.bits = 8 * element->bytes;
  tensor->dtype.lanes = 1;
  tensor->shape = held->shape;
  tensor->strides = held->strides;
  PyObject* const capsule = PyCapsule_New(
      held, versioned ? kVersionedName : kPlainName, DestroyCapsule);
  if (capsule == NULL) FreeExport(held);
  return capsule;
}

static PyObject* Capsule(Tensor* self, PyObject* unused) {
  return NewCapsule(self, 0);
}

static PyObject* Memory(Tensor* self, PyObject* unused) {
  const Block* const block = self->view.block;
  if (block->release == NULL) Py_RETURN_NONE;
  const char* const data = self->view.data;
  return Py_BuildValue("(On)", (PyObject*)block->owner,
                       (Py_ssize_t)(data - (const char*)block->data));
}

/* Reads (first, second). 0: an exception is set. */
static int ReadPair(const char* name, PyObject* pair, int* first, int* second) {
  if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
    PyErr_Format(PyExc_TypeError, "%s=%R: expected a tuple of two numbers",
                 name, pair);
    return 0;
  }
  return PyArg_ParseTuple(pair, "ii", first, second);
}

static PyObject* Dlpack(Tensor* self, PyObject* arguments, PyObject* named) {
  static char* names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject* stream = Py_None;
  PyObject* max_version = Py_None;
  PyObject* device = Py_None;
  PyObject* copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|$OOOO:__dlpack__", names,
                                   &stream, &max_version, &device, &copy)) {
    return NULL;
  }
  if (stream != Py_None) {
    PyErr_SetString(PyExc_BufferError,
                    "stream must be None: the tensor is in host memory");
    return NULL;
  }
  if (device != Py_None) {
    int type = 0;
    int number = 0;
    if (!ReadPair("dl_device", device, &type, &number)) return NULL;
    if (type != kDLCPU || number != 0) {
      PyErr_SetString(PyExc_BufferError,
                      "the tensor is in host memory, device (1, 0), and cannot "
                      "be exported to another device");
      return NULL;
    }
  }
  const int wants_copy = copy == Py_None ? 0 : PyObject_IsTrue(copy);
  if (wants_copy < 0) return NULL;
  if (wants_copy) {
    PyErr_SetString(PyExc_BufferError,
                    "copy=True is not supported: copy the result");
    return NULL;
  }
  int major = 0;
  int minor = 0;
  if (max_version != Py_None &&
      !ReadPair("max_version", max_version, &major, &minor)) {
    return NULL;
  }
  return NewCapsule(self, major >= 1);
}

static PyObject* DlpackDevice(Tensor* self, PyObject* unused) {
  return Py_BuildValue("(ii)", (int)kDLCPU, 0);
}

/* ---- The type
 * ----------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))Dlpack,
     METH_VARARGS | METH_KEYWORDS,
     "A DLPack capsule that views the memory; of version 1.0 when max_version "
     "is at least (1, 0)."},
    {"__dlpack_device__", (PyCFunction)DlpackDevice, METH_NOARGS,
     "(1, 0): host memory."},
    {"capsule", (PyCFunction)Capsule, METH_NOARGS,
     "An unversioned DLPack capsule."},
    {"memory", (PyCFunction)Memory, METH_NOARGS,
     "(object, offset): memory of the program, as its function `allocate` has "
     "returned it, and\nwhere in it the tensor begins, in bytes. None: the "
     "memory is the loader's."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {
    {"name", (getter)GetName, NULL, "Name of the field.", NULL},
    {"dtype", (getter)GetDtype, NULL, "Element type, \"float32\".", NULL},
    {"shape", (getter)GetShape, NULL, "Size of each dimension.", NULL},
    {"strides", (getter)GetStrides, NULL, "In bytes.", NULL},
    {"nbytes", (getter)GetBytes, NULL, "Bytes of all elements.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A tensor of a batch in host memory. A view: the memory is free for later "
     "batches when\nthe last view and the last object made from it are gone. "
     "Has the buffer protocol and\n__dlpack__, so numpy.asarray(tensor), "
     "jax.dlpack.from_dlpack(tensor) and\ntorch.from_dlpack(tensor) do not "
     "copy."},
    {Py_tp_dealloc, Dealloc},
    {Py_tp_repr, Repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, GetBuffer},
    {0, NULL}};

static PyType_Spec spec = {
    "millrace._millrace.Tensor", sizeof(Tensor), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int AddTensorType(PyObject* module) {
  PyObject* const type = PyType_FromSpec(&spec);
  if (type == NULL) return -1;
  tensor_type = (PyTypeObject*)type;
  return PyModule_AddObjectRef(module, "Tensor", type);
}
