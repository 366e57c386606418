// SPDX-License-Identifier: Apache-2.0
//
// Requests as a part of contexts (contextvars), and steps of event loops (_loops.py).
#include "native.h"

PyTypeObject* g_current_type;

// A request as a part of contexts. Tasks keep their context when the request is over.
typedef struct CurrentObject {
  PyObject base;
  uint64_t id, value, ended;  // `value`: its id, or 0 once it has ended, at that tick
} CurrentObject;

static PyObject* g_current;  // the variable
static uint64_t g_tick;      // orders moments of all threads

static CurrentObject* AsCurrent(PyObject* self) { return (CurrentObject*)self; }

static PyObject* Tick(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromUnsignedLongLong(++g_tick);
}

static PyObject* StepBegin(PyObject* module, PyObject* current) {
  (void)module;
  if (!Py_IS_TYPE(current, g_current_type)) return PyErr_Format(PyExc_TypeError, "%R is not a Current", current);
  g_pitot.step_begin(AsCurrent(current)->value);
  Py_RETURN_NONE;
}

static PyObject* StepEnd(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(g_pitot.step_end());
}

PyMethodDef kContextFunctions[] = {
    PITOT_NONE("tick", Tick, "tick($module)\n--\n\nReturns a number that is larger at each call."),
    {"step_begin", StepBegin, METH_O, "step_begin($module, current, /)\n--\n\nBegins a step of an event loop."},
    PITOT_NONE("step_end", StepEnd, "step_end($module)\n--\n\nEnds it; whether it took 1 ms or more."),
    {0}};

bool LeaveContext(PyObject* current, PyObject* outer) {
  AsCurrent(current)->ended = ++g_tick;
  AsCurrent(current)->value = 0;
  if (outer == NULL) return true;
  PyObject* now = NULL;
  if (PyContextVar_Get(g_current, NULL, &now) != 0) return false;
  PyObject* token = NULL;
  if (now == current) token = PyContextVar_Set(g_current, outer);
  const bool is_good = now != current || token != NULL;
  Py_XDECREF(now);
  Py_XDECREF(token);
  return is_good;
}

static PyObject* CurrentLeave(PyObject* self, PyObject* outer) {
  if (!LeaveContext(self, outer != Py_None ? outer : NULL)) return NULL;
  Py_RETURN_NONE;
}

void ForgetContext(PyObject* current) { AsCurrent(current)->value = 0; }

static const Signature kCurrentSignature = {"Current", 1, 0, 1, {"request"}};

static bool FillCurrent(PyObject* self, PyObject** given) {
  uint64_t id = 0;
  if (given[0] != NULL && !WholeOf("request", given[0], 64, &id)) return false;
  AsCurrent(self)->id = AsCurrent(self)->value = id;
  AsCurrent(self)->ended = 0;
  return true;
}

static PyObject* CurrentCall(PyObject* type, PyObject* const* args, size_t count, PyObject* keywords) {
  PyObject* given[1];
  if (!Take(&kCurrentSignature, args, PyVectorcall_NARGS(count), keywords, given)) return NULL;
  PyObject* self = (PyObject*)PyObject_New(CurrentObject, (PyTypeObject*)type);
  if (self != NULL && !FillCurrent(self, given)) Py_CLEAR(self);
  return self;
}

static PyMethodDef kCurrentMethods[] = {
    {"leave", CurrentLeave, METH_O, "leave($self, outer, /)\n--\n\nEnds it in all contexts."}, {0}};
static PyMemberDef kCurrentMembers[] = {{"id", T_ULONGLONG, offsetof(CurrentObject, id), 0, NULL},
                                        {"value", T_ULONGLONG, offsetof(CurrentObject, value), 0, NULL},
                                        {"ended", T_ULONGLONG, offsetof(CurrentObject, ended), 0, NULL},
                                        {0}};
static PyType_Slot kCurrentSlots[] = {{Py_tp_doc, "Current(request=0)\n--\n\nA request as a part of contexts."},
                                      {Py_tp_dealloc, FreeObject},
                                      {Py_tp_methods, kCurrentMethods},
                                      {Py_tp_members, kCurrentMembers},
                                      {0, NULL}};
static PyType_Spec kCurrentSpec = {"pitot.Current", sizeof(CurrentObject), 0, Py_TPFLAGS_DEFAULT, kCurrentSlots};

bool AddContexts(PyObject* module) {
  g_current_type = AddType(module, &kCurrentSpec, CurrentCall);
  if (g_current_type == NULL) return false;
  PyObject* none = CurrentCall((PyObject*)g_current_type, NULL, 0, NULL);
  g_current = none != NULL ? PyContextVar_New("pitot.request", none) : NULL;
  Py_XDECREF(none);
  return g_current != NULL && PyModule_AddObjectRef(module, "current", g_current) == 0;
}
