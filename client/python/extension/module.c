/* The module _millrace: its functions and its types. */

#include "client/python/extension/extension.h"

PyObject* RaiseStatus(const char* status, const char* message,
                      const char* detail) {
  PyObject* const errors = PyImport_ImportModule("millrace.errors");
  if (errors != NULL) {
    PyObject* const exception = PyObject_CallMethod(
        errors, "from_status", "sss", status, message, detail);
    if (exception != NULL) {
      PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
      Py_DECREF(exception);
    }
    Py_DECREF(errors);
  }
  return NULL;
}

PyObject* RaiseError(millrace_error* error) {
  RaiseStatus(millrace_status_name(millrace_error_status(error)),
              millrace_error_message(error), millrace_error_detail(error));
  millrace_error_free(error);
  return NULL;
}

static PyObject* Version(PyObject* module, PyObject* unused) {
  return PyUnicode_FromString(millrace_version());
}

static PyObject* SetLogLevel(PyObject* module, PyObject* argument) {
  const char* const level = PyUnicode_AsUTF8AndSize(argument, NULL);
  if (level == NULL) return NULL;
  millrace_error* error = NULL;
  if (millrace_set_log_level(level, &error) != MILLRACE_STATUS_OK) {
    return RaiseError(error);
  }
  Py_RETURN_NONE;
}

static PyObject* CheckOptions(PyObject* module, PyObject* settings) {
  if (!PyDict_Check(settings)) {
    PyErr_SetString(PyExc_TypeError, "check_options: expected a dict");
    return NULL;
  }
  millrace_options* const options = millrace_options_new();
  if (options == NULL) return PyErr_NoMemory();
  millrace_error* error = NULL;
  const int failed = SetOptions(options, settings, &error);
  if (!failed) millrace_options_validate(options, &error);
  millrace_options_free(options);
  if (error != NULL) return RaiseError(error);
  if (failed) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"version", Version, METH_NOARGS, "Version of the library."},
    {"set_log_level", SetLogLevel, METH_O,
     "\"debug\", \"info\", \"warning\" or \"error\", for the whole process."},
    {"check_options", CheckOptions, METH_O,
     "check_options(settings): checks options of the C interface, {name: "
     "value}, "
     "as opening a loader does, without a server."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "millrace._millrace",
    "The C interface of Millrace's client. Use the package millrace instead.",
    -1, methods};

PyMODINIT_FUNC PyInit__millrace(void) {
  if (millrace_interface_version() != MILLRACE_INTERFACE_VERSION) {
    return PyErr_Format(
        PyExc_ImportError,
        "libmillrace.so has interface version %u, and this module needs %u: "
        "reinstall the package millrace",
        (unsigned)millrace_interface_version(),
        (unsigned)MILLRACE_INTERFACE_VERSION);
  }
  PyObject* const module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
  if (AddTensorType(module) < 0 || AddLoaderType(module) < 0) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
