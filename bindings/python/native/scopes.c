// SPDX-License-Identifier: Apache-2.0
//
// Scopes, moments, values and waits of the calling thread.
#include "native.h"

PyTypeObject *g_scope_type, *g_wait_type;
static PyTypeObject* g_hook_type;
static PyObject* g_log_failure;  // of pitot._record

// The result of `scope`. Its only state is its name, so one object serves all threads and nests in itself.
typedef struct ScopeObject {
  Block block;
  pitot_name name;
} ScopeObject;

// Scopes by name; instants, counters and waits find their names here, too.
static PyObject* g_scopes;
static PyObject* CallScope(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords);

// As many as the library's own table holds: further names cost a call each.
enum { kMostNames = 16384 };

static ScopeObject* MakeScope(pitot_name name) {
  ScopeObject* self = PyObject_New(ScopeObject, g_scope_type);
  if (self == NULL) return NULL;
  self->block.call = CallScope;
  self->name = name;
  return self;
}

// A new reference to the scope of that name.
static ScopeObject* ScopeOf(const char* argument, PyObject* name) {
  const bool is_plain = PyUnicode_CheckExact(name);  // others may run Python when they are compared
  if (is_plain) {
    PyObject* known = PyDict_GetItemWithError(g_scopes, name);
    if (known != NULL) {
      Py_INCREF(known);
      return (ScopeObject*)known;
    }
    if (PyErr_Occurred()) return NULL;
  }
  Text text;
  if (!TextOf(argument, name, &text)) return NULL;
  ScopeObject* made = MakeScope(g_pitot.intern(text.text));
  Release(&text);
  if (made != NULL && is_plain && PyDict_Size(g_scopes) < kMostNames &&
      PyDict_SetItem(g_scopes, name, (PyObject*)made) != 0) {
    Py_CLEAR(made);
  }
  return made;
}

static bool NameOf(const char* argument, PyObject* text, pitot_name* out) {
  ScopeObject* scope = ScopeOf(argument, text);
  if (scope == NULL) return false;
  *out = scope->name;
  Py_DECREF(scope);
  return true;
}

static PyObject* Scope(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static const Signature kSignature = {"scope", 1, 1, 1, {"name"}};
  PyObject* given[1];
  (void)module;
  return Take(&kSignature, args, count, keywords, given) ? (PyObject*)ScopeOf("name", given[0]) : NULL;
}

static PyObject* Instant(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static const Signature kSignature = {"instant", 2, 1, 2, {"name", "detail"}};
  PyObject* given[2];
  pitot_name name;
  Text detail;
  (void)module;
  if (!Take(&kSignature, args, count, keywords, given) || !NameOf("name", given[0], &name) ||
      !OptionalTextOf("detail", given[1], &detail)) {
    return NULL;
  }
  g_pitot.instant(name, detail.text);
  Release(&detail);
  Py_RETURN_NONE;
}

static PyObject* Counter(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static const Signature kSignature = {"counter", 2, 2, 2, {"name", "value"}};
  PyObject* given[2];
  pitot_name name;
  double value;
  (void)module;
  if (!Take(&kSignature, args, count, keywords, given) || !NameOf("name", given[0], &name) ||
      !RealOf("value", given[1], &value)) {
    return NULL;
  }
  g_pitot.counter(name, value);
  Py_RETURN_NONE;
}

static PyObject* MakeHook(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* keywords);

PyMethodDef kScopeFunctions[] = {
    PITOT_FAST("hook", MakeHook,
               "hook($module, function, name, after=None, failed=None)\n--\n\nReturns a function that calls `function` "
               "in a scope, and then `after` with its result and arguments."),
    PITOT_FAST("scope", Scope,
               "scope($module, name)\n--\n\nRecords the time of a block: `with pitot.scope(\"decode\"):`."),
    PITOT_FAST("instant", Instant,
               "instant($module, name, detail=None)\n--\n\nRecords a moment, with a detail of at most 48 bytes."),
    PITOT_FAST("counter", Counter,
               "counter($module, name, value)\n--\n\nRecords a value that holds until the next one of that name."),
    {0}};

// ---- Scope. ----

static PyObject* CallScope(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  (void)args, (void)keywords;
  if (PyVectorcall_NARGS(count) == 0) {
    g_pitot.scope_begin(((ScopeObject*)self)->name);
  } else {
    g_pitot.scope_end();
  }
  Py_RETURN_NONE;
}

static PyType_Slot kScopeSlots[] = {
    {Py_tp_doc, "The result of `scope`."}, {Py_tp_dealloc, FreeObject}, PITOT_BLOCK_SLOTS, {0, NULL}};
static PyType_Spec kScopeSpec = {"pitot.Scope", sizeof(ScopeObject), 0, kBlockFlags, kScopeSlots};

// ---- Wait. ----

typedef struct WaitObject {
  Block block;
  int32_t kind;
  pitot_name resource;
  pitot_owner owner;
  pitot_wait wait;
} WaitObject;

// An Owner, or any pair of numbers.
static bool OwnerOf(PyObject* value, pitot_owner* out) {
  *out = (pitot_owner){0, 0};
  if (value == NULL) return true;
  PyObject* pair = PySequence_Tuple(value);
  if (pair == NULL) return false;
  bool is_good = PyTuple_Size(pair) == 2;
  if (!is_good) PyErr_Format(g_invalid_argument, "owner is %R; it must have two values", value);
  is_good = is_good && WholeOf("thread", PyTuple_GetItem(pair, 0), 64, &out->thread) &&
            WholeOf("request", PyTuple_GetItem(pair, 1), 64, &out->request);
  Py_DECREF(pair);
  return is_good;
}

static PyObject* CallWait(PyObject* object, PyObject* const* args, size_t count, PyObject* keywords) {
  WaitObject* self = (WaitObject*)object;
  (void)args, (void)keywords;
  if (PyVectorcall_NARGS(count) != 0) {
    g_pitot.wait_end(&self->wait);
    Py_RETURN_NONE;
  }
  g_pitot.wait_begin(&self->wait, self->kind, self->resource, self->owner);
  Py_INCREF(object);
  return object;
}

static PyObject* MakeWait(PyObject* type, PyObject* const* args, size_t count, PyObject* keywords) {
  static const Signature kSignature = {"Wait", 3, 2, 3, {"kind", "resource", "owner"}};
  PyObject* given[3];
  if (!Take(&kSignature, args, PyVectorcall_NARGS(count), keywords, given)) return NULL;
  WaitObject* self = PyObject_New(WaitObject, (PyTypeObject*)type);
  if (self == NULL) return NULL;
  self->block.call = CallWait;
  self->wait = (pitot_wait){{0}};
  if (!ConstantOf("kind", given[0], &self->kind) || !NameOf("resource", given[1], &self->resource) ||
      !OwnerOf(given[2], &self->owner)) {
    Py_CLEAR(self);
  }
  return (PyObject*)self;
}

static PyObject* WaitSetOwner(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static const Signature kSignature = {"set_owner", 1, 1, 1, {"owner"}};
  PyObject* given[1];
  pitot_owner owner;
  if (!Take(&kSignature, args, count, keywords, given) || !OwnerOf(given[0], &owner)) return NULL;
  g_pitot.wait_set_owner(&((WaitObject*)self)->wait, owner);
  Py_RETURN_NONE;
}

static PyMethodDef kWaitMethods[] = {
    PITOT_FAST("set_owner", WaitSetOwner,
               "set_owner($self, owner)\n--\n\nSets the owner, if it is known only after the wait began."),
    {0}};
static PyType_Slot kWaitSlots[] = {{Py_tp_doc, "Wait(kind, resource, owner=(0, 0))\n--\n\nRecords a block as a wait."},
                                   {Py_tp_dealloc, FreeObject},
                                   {Py_tp_methods, kWaitMethods},
                                   PITOT_BLOCK_SLOTS,
                                   {0, NULL}};
static PyType_Spec kWaitSpec = {"pitot.Wait", sizeof(WaitObject), 0, kBlockFlags, kWaitSlots};

// ---- Hook. ----

// The result of `hook`: a function of a server, in a scope. A wrapper in Python costs a server with short steps several
// times as much, because its code is no longer in the CPU's caches. It takes part in collections: as a rule it is an
// attribute of the object whose method it calls.
typedef struct HookObject {
  PyObject base;
  vectorcallfunc call;
  pitot_name name;
  PyObject* function;
  PyObject* after;  // NULL: none, or it has failed or asked for no more
  PyObject* failed;
} HookObject;

// Tells of the exception that `after` raised. It is called no more. What `failed` raises goes to sys.unraisablehook.
static void FailHook(HookObject* self) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace != NULL) PyException_SetTraceback(error, trace);
  Py_CLEAR(self->after);
  PyObject* const done = PyObject_CallFunctionObjArgs(self->failed, error, NULL);
  if (done == NULL) PyErr_WriteUnraisable(self->failed);
  Py_XDECREF(done);
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
}

// Calls `after` with the result and the arguments. False: with an exception that ends the program or thread, and that
// its caller has to see.
static bool CallAfter(HookObject* self, PyObject* result, PyObject* const* args, size_t count, PyObject* keywords) {
  enum { kFew = 8 };
  const Py_ssize_t positional = PyVectorcall_NARGS(count);
  const Py_ssize_t all = positional + (keywords != NULL ? PyTuple_Size(keywords) : 0);
  PyObject* few[kFew + 2];
  PyObject** const given = all <= kFew ? few : PyMem_Malloc((size_t)(all + 2) * sizeof(PyObject*));
  PyObject* done = NULL;
  PyObject* const after = self->after;
  Py_INCREF(after);
  if (given == NULL) {
    PyErr_NoMemory();
  } else {
    given[0] = NULL;  // room for the callee
    given[1] = result;
    for (Py_ssize_t i = 0; i < all; ++i) given[i + 2] = args[i];
    done = PyObject_Vectorcall(after, given + 1, (size_t)(positional + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
  }
  if (given != few) PyMem_Free(given);
  Py_DECREF(after);
  const bool is_over = done == Py_True;
  Py_XDECREF(done);
  if (is_over) Py_CLEAR(self->after);
  if (done != NULL) return true;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  FailHook(self);
  return true;
}

static PyObject* CallHook(PyObject* object, PyObject* const* args, size_t count, PyObject* keywords) {
  HookObject* self = (HookObject*)object;
  Py_INCREF(object);  // the function may put itself back
  g_pitot.scope_begin(self->name);
  PyObject* result = PyObject_Vectorcall(self->function, args, count, keywords);
  g_pitot.scope_end();
  if (result != NULL && self->after != NULL && !CallAfter(self, result, args, count, keywords)) Py_CLEAR(result);
  Py_DECREF(object);
  return result;
}

static PyObject* MakeHook(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static const Signature kSignature = {"hook", 4, 2, 4, {"function", "name", "after", "failed"}};
  PyObject* given[4];
  pitot_name name;
  (void)module;
  if (!Take(&kSignature, args, count, keywords, given) || !NameOf("name", given[1], &name)) return NULL;
  HookObject* self = PyObject_GC_New(HookObject, g_hook_type);
  if (self == NULL) return NULL;
  self->call = CallHook;
  self->name = name;
  self->function = Py_NewRef(given[0]);
  self->after = given[2] != NULL && given[2] != Py_None ? Py_NewRef(given[2]) : NULL;
  self->failed = Py_NewRef(given[3] != NULL && given[3] != Py_None ? given[3] : g_log_failure);
  PyObject_GC_Track(self);
  return (PyObject*)self;
}

static int VisitHook(PyObject* object, visitproc visit, void* arg) {
  HookObject* self = (HookObject*)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->after);
  Py_VISIT(self->failed);
  return 0;
}

static int ClearHook(PyObject* object) {
  HookObject* self = (HookObject*)object;
  Py_CLEAR(self->function);
  Py_CLEAR(self->after);
  Py_CLEAR(self->failed);
  return 0;
}

static void FreeHook(PyObject* object) {
  PyObject_GC_UnTrack(object);
  ClearHook(object);
  FreeObject(object);
}

static PyMemberDef kHookMembers[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(HookObject, call), READONLY, NULL},
                                     {"__wrapped__", T_OBJECT, offsetof(HookObject, function), READONLY, NULL},
                                     {0}};
static PyType_Slot kHookSlots[] = {{Py_tp_doc, "The result of `hook`."},
                                   {Py_tp_dealloc, FreeHook},
                                   {Py_tp_traverse, VisitHook},
                                   {Py_tp_clear, ClearHook},
                                   {Py_tp_call, PyVectorcall_Call},
                                   {Py_tp_members, kHookMembers},
                                   {0, NULL}};
static PyType_Spec kHookSpec = {"pitot.Hook", sizeof(HookObject), 0, kBlockFlags | Py_TPFLAGS_HAVE_GC, kHookSlots};

bool AddScopes(PyObject* module) {
  g_scopes = PyDict_New();
  g_scope_type = AddBlock(module, &kScopeSpec, NULL);
  g_wait_type = AddBlock(module, &kWaitSpec, MakeWait);
  g_hook_type = AddType(module, &kHookSpec, NULL);
  PyObject* const record = PyImport_ImportModule("pitot._record");
  g_log_failure = record != NULL ? PyObject_GetAttrString(record, "log_failure") : NULL;
  Py_XDECREF(record);
  return g_scopes != NULL && g_scope_type != NULL && g_wait_type != NULL && g_hook_type != NULL &&
         g_log_failure != NULL;
}
