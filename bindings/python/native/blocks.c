// SPDX-License-Identifier: Apache-2.0
#include "native.h"

PyMemberDef kBlockMembers[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Block, call), READONLY, NULL}, {0}};

// __enter__ and __exit__ of blocks. contextlib.ExitStack takes them from the type: then they are functions of a block.
typedef struct Method {
  PyObject base;
  vectorcallfunc call;
} Method;

static PyObject* MethodCall(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  (void)self;
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  if (given == 0) {
    PyErr_SetString(PyExc_TypeError, "the argument 'self' is missing");
    return NULL;
  }
  return PyObject_Vectorcall(args[0], args + 1, (size_t)(given - 1), keywords);
}

static PyObject* MethodGet(PyObject* self, PyObject* block, PyObject* type) {
  (void)type;
  PyObject* const bound = block != NULL ? block : self;
  Py_INCREF(bound);
  return bound;
}

static PyMemberDef kMethodMembers[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, call), READONLY, NULL},
                                       {0}};
static PyType_Slot kMethodSlots[] = {{Py_tp_dealloc, FreeObject},
                                     {Py_tp_call, PyVectorcall_Call},
                                     {Py_tp_descr_get, MethodGet},
                                     {Py_tp_members, kMethodMembers},
                                     {0, NULL}};
static PyType_Spec kMethodSpec = {"pitot.BlockMethod", sizeof(Method), 0, kBlockFlags, kMethodSlots};

PyTypeObject* AddBlock(PyObject* module, PyType_Spec* spec, vectorcallfunc make) {
  PyTypeObject* type = AddType(module, spec, make);
  PyTypeObject* of_method = (PyTypeObject*)PyType_FromModuleAndSpec(module, &kMethodSpec, NULL);
  Method* method = type != NULL && of_method != NULL ? PyObject_New(Method, of_method) : NULL;
  if (method != NULL) method->call = MethodCall;
  if (method == NULL || PyObject_SetAttrString((PyObject*)type, "__enter__", (PyObject*)method) != 0 ||
      PyObject_SetAttrString((PyObject*)type, "__exit__", (PyObject*)method) != 0) {
    Py_CLEAR(type);
  }
  Py_XDECREF(method);
  Py_XDECREF(of_method);
  return type;
}
