// SPDX-License-Identifier: Apache-2.0
//
// Requests and tokens: they join the events of many threads to one unit of service.
#include <math.h>
#include <string.h>

#include "native.h"

PyTypeObject *g_token_type, *g_request_type, *g_adopt_type;
PyObject* g_enter;

static TokenObject* AsToken(PyObject* self) { return (TokenObject*)self; }
static RequestObject* AsRequest(PyObject* self) { return (RequestObject*)self; }

static PyObject* Now(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromUnsignedLongLong(g_pitot.now());
}

static PyObject* EmitMany(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  static const Signature kSignature = {"emit_many", 2, 1, 2, {"members", "counts"}};
  PyObject* given[2];
  (void)module;
  if (!Take(&kSignature, args, count, keywords, given)) return NULL;
  Members members;
  Numbers counts;
  EmptyMembers(&members);
  EmptyNumbers(&counts);
  const bool is_good = MembersOf("members", given[0], &members) && CountsOf(given[1], members.count, &counts);
  if (is_good) EmitAll(&members, &counts);
  FreeMembers(&members);
  FreeNumbers(&counts);
  if (!is_good) return NULL;
  Py_RETURN_NONE;
}

static PyObject* SetEnter(PyObject* module, PyObject* enter) {
  PyObject* before = g_enter;
  (void)module;
  g_enter = enter != Py_None ? enter : NULL;
  Py_XINCREF(g_enter);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

PyMethodDef kRequestFunctions[] = {
    PITOT_NONE("now", Now, "now($module)\n--\n\nReturns the time on the recorder's clock; 0 while no recorder runs."),
    PITOT_FAST("emit_many", EmitMany,
               "emit_many($module, members, counts=None)\n--\n\nMarks output tokens of several requests."),
    {"set_enter", SetEnter, METH_O,
     "set_enter($module, enter, /)\n--\n\nSets the function that makes a request part of its task's context."},
    {0}};

// ---- Token. ----

PyObject* MakeToken(pitot_token token) {
  TokenObject* self = PyObject_New(TokenObject, g_token_type);
  if (self != NULL) self->token = token;
  return (PyObject*)self;
}

static int TokenInit(PyObject* self, PyObject* args, PyObject* keywords) {
  static const Signature kSignature = {"Token", 1, 0, 1, {"data"}};
  PyObject* given[1];
  pitot_token token = {{0}};
  if (!TakeTuple(&kSignature, args, keywords, given)) return -1;
  if (given[0] != NULL && given[0] != Py_None) {
    Py_buffer view;
    if (PyObject_GetBuffer(given[0], &view, PyBUF_SIMPLE) != 0) return -1;
    const Py_ssize_t size = view.len;
    if (size >= (Py_ssize_t)sizeof token) memcpy(&token, view.buf, sizeof token);
    PyBuffer_Release(&view);
    if (size < (Py_ssize_t)sizeof token) {
      PyErr_Format(g_invalid_argument, "data has %zd bytes; it must have 32", size);
      return -1;
    }
  }
  AsToken(self)->token = token;
  return 0;
}

static PyObject* TokenBytes(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBytes_FromStringAndSize((const char*)&AsToken(self)->token, sizeof(pitot_token));
}
static PyObject* TokenReduce(PyObject* self, PyObject* unused) {
  return Py_BuildValue("(O(N))", Py_TYPE(self), TokenBytes(self, unused));
}
static PyObject* TokenRequestId(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(g_pitot.token_request(&AsToken(self)->token));
}
static PyObject* TokenIsLate(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(g_pitot.token_is_late(&AsToken(self)->token));
}

// Parts that tokens and requests share: the one argument `name`, a count, two texts, a text and a number.

static const Signature kStage = {"stage", 1, 1, 1, {"name"}};
static const Signature kEmit = {"emit", 1, 0, 1, {"count"}};
static const Signature kEnqueue = {"enqueue", 1, 1, 1, {"queue"}};
static const Signature kSetLabel = {"set_label", 2, 2, 2, {"key", "value"}};
static const Signature kSetSize = {"set_size", 2, 2, 2, {"name", "value"}};

static bool TakeText(const Signature* signature, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                     Text* out) {
  PyObject* given[1];
  return Take(signature, args, count, keywords, given) && TextOf(signature->names[0], given[0], out);
}
static bool TakeCount(PyObject* const* args, Py_ssize_t count, PyObject* keywords, uint32_t* out) {
  PyObject* given[1];
  *out = 1;
  return Take(&kEmit, args, count, keywords, given) && (given[0] == NULL || IntegerOf("count", given[0], out));
}
static bool TakeLabel(PyObject* const* args, Py_ssize_t count, PyObject* keywords, Text* key, Text* value) {
  PyObject* given[2];
  if (!Take(&kSetLabel, args, count, keywords, given) || !TextOf("key", given[0], key)) return false;
  if (TextOf("value", given[1], value)) return true;
  Release(key);
  return false;
}
static bool TakeSize(PyObject* const* args, Py_ssize_t count, PyObject* keywords, Text* name, double* value) {
  PyObject* given[2];
  if (!Take(&kSetSize, args, count, keywords, given) || !TextOf("name", given[0], name)) return false;
  if (RealOf("value", given[1], value)) return true;
  Release(name);
  return false;
}

#define PITOT_METHOD(name) \
  static PyObject* name(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords)

PITOT_METHOD(TokenStage) {
  Text name;
  if (!TakeText(&kStage, args, count, keywords, &name)) return NULL;
  g_pitot.token_stage(&AsToken(self)->token, name.text);
  Release(&name);
  Py_RETURN_NONE;
}
PITOT_METHOD(TokenEmit) {
  uint32_t number;
  if (!TakeCount(args, count, keywords, &number)) return NULL;
  g_pitot.token_emit(&AsToken(self)->token, number);
  Py_RETURN_NONE;
}
PITOT_METHOD(TokenEnqueue) {
  Text queue;
  if (!TakeText(&kEnqueue, args, count, keywords, &queue)) return NULL;
  const pitot_token token = g_pitot.token_enqueue(&AsToken(self)->token, queue.text);
  Release(&queue);
  return MakeToken(token);
}
PITOT_METHOD(TokenSetLabel) {
  Text key, value;
  if (!TakeLabel(args, count, keywords, &key, &value)) return NULL;
  g_pitot.token_set_label(&AsToken(self)->token, key.text, value.text);
  Release(&key);
  Release(&value);
  Py_RETURN_NONE;
}
PITOT_METHOD(TokenSetSize) {
  Text name;
  double value;
  if (!TakeSize(args, count, keywords, &name, &value)) return NULL;
  g_pitot.token_set_size(&AsToken(self)->token, name.text, value);
  Release(&name);
  Py_RETURN_NONE;
}

// ---- Adopt. ----

typedef struct AdoptObject {
  Block block;
  pitot_token token;
  pitot_adopt adopt;
} AdoptObject;

static PyObject* CallAdopt(PyObject* object, PyObject* const* args, size_t count, PyObject* keywords) {
  AdoptObject* self = (AdoptObject*)object;
  (void)args, (void)keywords;
  if (PyVectorcall_NARGS(count) == 0) {
    g_pitot.adopt_begin(&self->adopt, &self->token);
  } else {
    g_pitot.adopt_end(&self->adopt);
  }
  Py_RETURN_NONE;
}

static PyObject* TokenAdopt(PyObject* self, PyObject* unused) {
  AdoptObject* adopt = PyObject_New(AdoptObject, g_adopt_type);
  (void)unused;
  if (adopt == NULL) return NULL;
  adopt->block.call = CallAdopt;
  adopt->token = AsToken(self)->token;
  adopt->adopt = (pitot_adopt){{0}};
  return (PyObject*)adopt;
}
static PyType_Slot kAdoptSlots[] = {{Py_tp_doc, "The result of `Token.adopt`: a context manager."},
                                    {Py_tp_dealloc, FreeObject},
                                    PITOT_BLOCK_SLOTS,
                                    {0, NULL}};
static PyType_Spec kAdoptSpec = {"pitot.Adopt", sizeof(AdoptObject), 0, kBlockFlags, kAdoptSlots};

static PyMethodDef kTokenMethods[] = {
    PITOT_FAST("stage", TokenStage,
               "stage($self, name)\n--\n\nBegins the stage `name`, which ends the previous stage."),
    PITOT_FAST("emit", TokenEmit, "emit($self, count=1)\n--\n\nMarks output tokens."),
    PITOT_FAST("enqueue", TokenEnqueue,
               "enqueue($self, queue)\n--\n\nRecords that the request was put into `queue`; returns the token for it."),
    PITOT_FAST("set_label", TokenSetLabel,
               "set_label($self, key, value)\n--\n\nSets a bounded dimension of the request."),
    PITOT_FAST("set_size", TokenSetSize, "set_size($self, name, value)\n--\n\nSets an amount of work of the request."),
    PITOT_NONE("adopt", TokenAdopt, "adopt($self)\n--\n\nMakes the request this thread's context for a block."),
    PITOT_NONE("__bytes__", TokenBytes, NULL),
    PITOT_NONE("__reduce__", TokenReduce, NULL),
    {0}};
static PyGetSetDef kTokenProperties[] = {{"request_id", TokenRequestId, NULL, "The id of its request; 0: none.", NULL},
                                         {"is_late", TokenIsLate, NULL, "Whether the request is late.", NULL},
                                         {0}};
static PyType_Slot kTokenSlots[] = {
    {Py_tp_doc, "Token(data=None)\n--\n\nRepresents a request in a queue, on another thread, or in another process."},
    {Py_tp_init, TokenInit},
    {Py_tp_dealloc, FreeObject},
    {Py_tp_methods, kTokenMethods},
    {Py_tp_getset, kTokenProperties},
    {0, NULL}};
static PyType_Spec kTokenSpec = {"pitot.Token", sizeof(TokenObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 kTokenSlots};

// ---- Request. ----

enum { kAbandoned = PITOT_OUTCOME_ABANDONED };

static const Signature kRequestSignature = {"Request", 2, 1, 4, {"route", "traceparent", "arrival", "id"}};

// Takes a request that was begun. On error it is abandoned with the object.
static bool TakeRequest(RequestObject* self, pitot_request* handle, PyObject* parent) {
  self->handle = handle;
  self->id = handle != NULL ? g_pitot.request_id(handle) : 0;
  self->context = NULL;
  self->parent = parent;
  Py_XINCREF(parent);
  if (g_enter == NULL) return true;
  PyObject* id = PyLong_FromUnsignedLongLong(self->id);
  if (id == NULL) return false;
  PyObject* context = PyObject_CallOneArg(g_enter, id);
  Py_DECREF(id);
  if (context != NULL && !Py_IS_TYPE(context, g_current_type)) {
    PyErr_Format(PyExc_TypeError, "%R is not a Current", context);
    Py_CLEAR(context);
  }
  self->context = context;
  return context != NULL;
}

static bool BeginRequest(RequestObject* self, PyObject** given) {
  Text route = {NULL, NULL}, traceparent = {NULL, NULL}, own_id = {NULL, NULL};
  uint64_t arrival = 0;
  bool is_good = OptionalTextOf("id", given[3], &own_id) && TextOf("route", given[0], &route) &&
                 OptionalTextOf("traceparent", given[1], &traceparent) &&
                 (given[2] == NULL || WholeOf("arrival", given[2], 64, &arrival));
  if (is_good) {
    is_good = TakeRequest(self, g_pitot.request_begin(route.text, traceparent.text, arrival), NULL);
    if (own_id.text != NULL) g_pitot.request_set_id(self->handle, own_id.text);
  }
  Release(&route);
  Release(&traceparent);
  Release(&own_id);
  return is_good;
}

// An inert request.
static RequestObject* NewRequest(PyTypeObject* type) {
  RequestObject* self = PyObject_New(RequestObject, type);
  if (self == NULL) return NULL;
  self->handle = NULL;
  self->id = 0;
  self->context = self->parent = NULL;
  return self;
}

static PyObject* RequestCall(PyObject* type, PyObject* const* args, size_t count, PyObject* keywords) {
  PyObject* given[4];
  if (!Take(&kRequestSignature, args, PyVectorcall_NARGS(count), keywords, given)) return NULL;
  RequestObject* self = NewRequest((PyTypeObject*)type);
  if (self == NULL || BeginRequest(self, given)) return (PyObject*)self;
  Py_DECREF(self);
  return NULL;
}

// Ends it, if it is open: nobody finished it.
static void Abandon(RequestObject* self) {
  if (self->handle != NULL) {
    PyObject *type, *value, *trace;  // predicates in Python run with no exception set
    PyErr_Fetch(&type, &value, &trace);
    pitot_request* const handle = self->handle;
    self->handle = NULL;
    g_pitot.request_finish_reason(handle, kAbandoned, NULL);
    if (self->context != NULL) ForgetContext(self->context);
    PyErr_Restore(type, value, trace);
  }
  Py_CLEAR(self->context);
  Py_CLEAR(self->parent);
}

static int RequestInit(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* given[4];
  if (!TakeTuple(&kRequestSignature, args, keywords, given)) return -1;
  Abandon(AsRequest(self));
  return BeginRequest(AsRequest(self), given) ? 0 : -1;
}

static void RequestDealloc(PyObject* self) {
  Abandon(AsRequest(self));
  FreeObject(self);
}

// The members are cleared first: a predicate in Python may use the request.
bool FinishRequest(RequestObject* self, int32_t outcome, const char* reason) {
  pitot_request* const handle = self->handle;
  PyObject* const context = self->context;
  self->handle = NULL;
  self->context = NULL;
  if (handle != NULL) g_pitot.request_finish_reason(handle, outcome, reason);
  const bool is_good = context == NULL || LeaveContext(context, self->parent);
  Py_XDECREF(context);
  return is_good;
}

PITOT_METHOD(RequestFromToken) {
  static const Signature kSignature = {"from_token", 2, 2, 2, {"token", "route"}};
  PyObject* given[2];
  pitot_token token;
  Text route;
  if (!Take(&kSignature, args, count, keywords, given) || !TokenOf(given[0], &token) ||
      !TextOf("route", given[1], &route)) {
    return NULL;
  }
  PyTypeObject* const type = (PyTypeObject*)self;
  // A subclass has more members, which only its own allocation knows.
  RequestObject* begun = type == g_request_type ? NewRequest(type) : (RequestObject*)PyType_GenericAlloc(type, 0);
  if (begun != NULL && !TakeRequest(begun, g_pitot.request_begin_from(&token, route.text), NULL)) Py_CLEAR(begun);
  Release(&route);
  return (PyObject*)begun;
}

PITOT_METHOD(RequestChild) {
  static const Signature kSignature = {"child", 1, 1, 1, {"route"}};
  Text route;
  if (!TakeText(&kSignature, args, count, keywords, &route)) return NULL;
  RequestObject* part = NewRequest(g_request_type);
  if (part != NULL) {
    pitot_request* const parent = AsRequest(self)->handle;
    if (!TakeRequest(part, g_pitot.request_begin_child(parent, route.text), AsRequest(self)->context)) Py_CLEAR(part);
  }
  Release(&route);
  return (PyObject*)part;
}

static PyObject* RequestId(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(AsRequest(self)->id);
}
static PyObject* RequestTraceparent(PyObject* self, void* unused) {
  char text[56];
  (void)unused;
  g_pitot.request_write_traceparent(AsRequest(self)->handle, text);
  return PyUnicode_FromString(text);
}
static PyObject* RequestIsLate(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(g_pitot.request_is_late(AsRequest(self)->handle));
}
static PyObject* RequestToken(PyObject* self, void* unused) {
  (void)unused;
  return MakeToken(g_pitot.request_token(AsRequest(self)->handle));
}

PITOT_METHOD(RequestEnqueue) {
  Text queue;
  if (!TakeText(&kEnqueue, args, count, keywords, &queue)) return NULL;
  const pitot_token token = g_pitot.request_enqueue(AsRequest(self)->handle, queue.text);
  Release(&queue);
  return MakeToken(token);
}
PITOT_METHOD(RequestStage) {
  Text name;
  if (!TakeText(&kStage, args, count, keywords, &name)) return NULL;
  g_pitot.request_stage(AsRequest(self)->handle, name.text);
  Release(&name);
  Py_RETURN_NONE;
}
PITOT_METHOD(RequestEmit) {
  uint32_t number;
  if (!TakeCount(args, count, keywords, &number)) return NULL;
  g_pitot.request_emit(AsRequest(self)->handle, number);
  Py_RETURN_NONE;
}
PITOT_METHOD(RequestSetId) {
  static const Signature kSignature = {"set_id", 1, 1, 1, {"id"}};
  Text id;
  if (!TakeText(&kSignature, args, count, keywords, &id)) return NULL;
  g_pitot.request_set_id(AsRequest(self)->handle, id.text);
  Release(&id);
  Py_RETURN_NONE;
}
PITOT_METHOD(RequestSetLabel) {
  Text key, value;
  if (!TakeLabel(args, count, keywords, &key, &value)) return NULL;
  g_pitot.request_set_label(AsRequest(self)->handle, key.text, value.text);
  Release(&key);
  Release(&value);
  Py_RETURN_NONE;
}
PITOT_METHOD(RequestSetSize) {
  Text name;
  double value;
  if (!TakeSize(args, count, keywords, &name, &value)) return NULL;
  g_pitot.request_set_size(AsRequest(self)->handle, name.text, value);
  Release(&name);
  Py_RETURN_NONE;
}
PITOT_METHOD(RequestSetDeadline) {
  static const Signature kSignature = {"set_deadline", 1, 1, 1, {"ms"}};
  const double most_ns = 9223372036854775808.0;  // 2^63
  PyObject* given[1];
  double ms;
  if (!Take(&kSignature, args, count, keywords, given) || !RealOf("ms", given[0], &ms)) return NULL;
  if (!(ms * 1e6 < most_ns)) {  // true for NaN, too
    PyErr_Format(g_invalid_argument, "ms is %R; it must be less than 9223372036855", given[0]);
    return NULL;
  }
  g_pitot.request_set_deadline(AsRequest(self)->handle, ms > 0 ? (uint64_t)(ms * 1e6) : 0);
  Py_RETURN_NONE;
}

PITOT_METHOD(RequestFinish) {
  static const Signature kSignature = {"finish", 2, 0, 2, {"outcome", "reason"}};
  PyObject* given[2];
  int32_t outcome = PITOT_OUTCOME_OK;
  Text reason;
  if (!Take(&kSignature, args, count, keywords, given) ||
      (given[0] != NULL && !ConstantOf("outcome", given[0], &outcome)) ||
      !OptionalTextOf("reason", given[1], &reason)) {
    return NULL;
  }
  const bool is_good = FinishRequest(AsRequest(self), outcome, reason.text);
  Release(&reason);
  if (!is_good) return NULL;
  Py_RETURN_NONE;
}

static PyObject* RequestEnter(PyObject* self, PyObject* unused) {
  (void)unused;
  Py_INCREF(self);
  return self;
}

// By name: importing asyncio for its CancelledError takes long, and concurrent.futures has another.
static bool IsCancelled(PyObject* kind) {
  PyObject* bases = PyObject_GetAttrString(kind, "__mro__");
  bool is_cancelled = false;
  for (Py_ssize_t i = 0; bases != NULL && i < PyTuple_Size(bases) && !is_cancelled; ++i) {
    PyObject* name = PyObject_GetAttrString(PyTuple_GetItem(bases, i), "__name__");
    is_cancelled =
        name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "CancelledError") == 0;
    Py_XDECREF(name);
  }
  Py_XDECREF(bases);
  return is_cancelled;
}

// The request of a block that an exception leaves: its type is the reason.
static bool FinishFailed(RequestObject* self, PyObject* kind) {
  PyObject* name = PyObject_GetAttrString(kind, "__name__");
  Text reason;
  if (name == NULL) return false;
  bool is_good = TextOf("reason", name, &reason);
  if (is_good) {
    const int32_t outcome = IsCancelled(kind) ? PITOT_OUTCOME_CANCELLED : PITOT_OUTCOME_FAILED;
    PyErr_Clear();
    is_good = FinishRequest(self, outcome, reason.text);
    Release(&reason);
  }
  Py_DECREF(name);
  return is_good;
}

PITOT_METHOD(RequestExit) {
  (void)keywords;
  const bool is_failed = count > 0 && args[0] != Py_None;
  const bool is_good =
      is_failed ? FinishFailed(AsRequest(self), args[0]) : FinishRequest(AsRequest(self), PITOT_OUTCOME_OK, NULL);
  if (!is_good) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef kRequestMethods[] = {
    {"from_token", (PyCFunction)(void (*)(void))RequestFromToken, METH_CLASS | METH_FASTCALL | METH_KEYWORDS,
     "from_token($type, token, route)\n--\n\nBegins a request with the token's as parent."},
    PITOT_FAST("child", RequestChild, "child($self, route)\n--\n\nBegins a part of this request."),
    PITOT_FAST("enqueue", RequestEnqueue,
               "enqueue($self, queue)\n--\n\nRecords the hand-over to `queue` and returns the token to put there."),
    PITOT_FAST("stage", RequestStage,
               "stage($self, name)\n--\n\nBegins the stage `name`, which ends the previous stage. At most 16."),
    PITOT_FAST("emit", RequestEmit, "emit($self, count=1)\n--\n\nMarks output tokens."),
    PITOT_FAST("set_id", RequestSetId, "set_id($self, id)\n--\n\nSets your own id of the request."),
    PITOT_FAST("set_label", RequestSetLabel,
               "set_label($self, key, value)\n--\n\nSets a bounded dimension: model, version, tenant. At most 4."),
    PITOT_FAST("set_size", RequestSetSize,
               "set_size($self, name, value)\n--\n\nSets the amount of work: pixels, prompt tokens. At most 4."),
    PITOT_FAST("set_deadline", RequestSetDeadline,
               "set_deadline($self, ms)\n--\n\nSets the deadline, ms after its arrival; 0 or less changes nothing."),
    PITOT_FAST(
        "finish", RequestFinish,
        "finish($self, outcome=1, reason=None)\n--\n\nEnds it and calls the triggers. A second call does nothing."),
    PITOT_NONE("__enter__", RequestEnter, NULL),
    PITOT_FAST("__exit__", RequestExit, NULL),
    {0}};
static PyGetSetDef kRequestProperties[] = {
    {"id", RequestId, NULL, "Its id; 0 if none was begun: no recorder runs, or too many are open.", NULL},
    {"traceparent", RequestTraceparent, NULL, "The traceparent for services called for this request.", NULL},
    {"is_late", RequestIsLate, NULL, "Whether it already exceeds its route's latency objective or its deadline.", NULL},
    {"token", RequestToken, NULL, "A token without an enqueue time.", NULL},
    {0}};
static PyType_Slot kRequestSlots[] = {
    {Py_tp_doc, "Request(route, traceparent=None, *, arrival=0, id=None)\n--\n\nA unit of service."},
    {Py_tp_init, RequestInit},
    {Py_tp_dealloc, RequestDealloc},
    {Py_tp_methods, kRequestMethods},
    {Py_tp_getset, kRequestProperties},
    {0, NULL}};
// Without the garbage collector: its contexts hold no objects.
static PyType_Spec kRequestSpec = {"pitot.Request", sizeof(RequestObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                   kRequestSlots};

bool AddRequests(PyObject* module) {
  g_token_type = AddType(module, &kTokenSpec, NULL);
  g_adopt_type = AddBlock(module, &kAdoptSpec, NULL);
  g_request_type = AddType(module, &kRequestSpec, RequestCall);
  return g_token_type != NULL && g_adopt_type != NULL && g_request_type != NULL;
}
