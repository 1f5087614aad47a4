/* What the files of the extension module `_millrace` share. The module is the
 * C interface (client/c/millrace.h) as Python sees it, without any policy: the
 * package `millrace` has the names, the defaults and the iteration.
 *
 * Built for the limited API of CPython 3.11: one file serves that and later
 * versions. Functions need the interpreter's lock where nothing else is said.
 */

#ifndef MILLRACE_CLIENT_PYTHON_EXTENSION_EXTENSION_H_
#define MILLRACE_CLIENT_PYTHON_EXTENSION_EXTENSION_H_

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <python3.11/Python.h>

#include "client/c/millrace.h"
#include "client/python/extension/memory.h"

enum { kMaxDims = 16 };

/* A tensor in a block of memory. Plain data, without Python. */
typedef struct {
  Block* block; /* one reference of it is owned */
  void* data;
  int32_t dtype; /* MILLRACE_DTYPE_... */
  int32_t dims;
  int64_t shape[kMaxDims];
  int64_t strides[kMaxDims]; /* in bytes */
} TensorView;

/* Bytes of an element; 0: unknown. */
int64_t ElementBytesOf(int32_t dtype);

/* Raises the exception of a status by name (millrace.errors). `detail` is a
 * JSON object. Returns NULL. */
PyObject* RaiseStatus(const char* status, const char* message,
                      const char* detail);

/* Raises the exception of the error (millrace.errors), and frees the error.
 * Returns NULL. */
PyObject* RaiseError(millrace_error* error);

/* Sets options of the C interface, {name: value}, without the ones that
 * _millrace.Loader needs itself. -1: an exception is set, or *error. */
int SetOptions(millrace_options* options, PyObject* settings,
               millrace_error** error);

/* Adds the type to the module. -1: an exception is set. */
int AddLoaderType(PyObject* module);
int AddTensorType(PyObject* module);

/* A new _millrace.Tensor, which takes view->block over, also when it fails. */
PyObject* NewTensor(PyObject* name, const TensorView* view);

#endif /* MILLRACE_CLIENT_PYTHON_EXTENSION_EXTENSION_H_ */
