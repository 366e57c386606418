// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <string.h>

#include "native.h"

Library g_pitot;

PyTypeObject* AddType(PyObject* module, PyType_Spec* spec, vectorcallfunc call) {
  PyTypeObject* type = (PyTypeObject*)PyType_FromModuleAndSpec(module, spec, NULL);
  if (type != NULL) type->tp_vectorcall = call;
  const char* const dot = strrchr(spec->name, '.');
  if (type != NULL && PyModule_AddObjectRef(module, dot + 1, (PyObject*)type) != 0) Py_CLEAR(type);
  return type;
}

// An attribute of pitot._library, which has loaded the library.
static PyObject* OfLibrary(const char* name) {
  PyObject* library = PyImport_ImportModule("pitot._library");
  PyObject* value = library != NULL ? PyObject_GetAttrString(library, name) : NULL;
  Py_XDECREF(library);
  return value;
}

// Finds the library's functions. The handle of ctypes is that of dlopen.
static bool Bind(void) {
  PyObject* library = OfLibrary("_quick");
  PyObject* number = library != NULL ? PyObject_GetAttrString(library, "_handle") : NULL;
  void* const handle = number != NULL ? PyLong_AsVoidPtr(number) : NULL;
  Py_XDECREF(number);
  Py_XDECREF(library);
  if (handle == NULL) return false;
#define PITOT_FIND(name)                                                                \
  *(void**)&g_pitot.name = dlsym(handle, "pitot_" #name);                               \
  if (g_pitot.name == NULL) {                                                           \
    PyErr_SetString(PyExc_ImportError, "the loaded libpitot_c.so has no pitot_" #name); \
    return false;                                                                       \
  }
  PITOT_FUNCTIONS(PITOT_FIND)
#undef PITOT_FIND
  Py_XDECREF(g_invalid_argument);
  g_invalid_argument = OfLibrary("InvalidArgument");
  return g_invalid_argument != NULL;
}

static int Execute(PyObject* module) {
  // Types and caches are the process's, as the recorder is.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "pitot._native is for the main interpreter; others call the library through ctypes");
    return -1;
  }
  const bool is_good = Bind() && AddContexts(module) && AddScopes(module) && AddRequests(module) &&
                       AddBatches(module) && PyModule_AddFunctions(module, kContextFunctions) == 0 &&
                       PyModule_AddFunctions(module, kScopeFunctions) == 0 &&
                       PyModule_AddFunctions(module, kRequestFunctions) == 0;
  return is_good ? 0 : -1;
}

static PyModuleDef_Slot kSlots[] = {{Py_mod_exec, Execute}, {0, NULL}};
static PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                              "pitot._native",
                              "The calls of a server's hot path, in C.",
                              0,
                              NULL,
                              kSlots,
                              NULL,
                              NULL,
                              NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&kModule); }
