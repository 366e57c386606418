// SPDX-License-Identifier: Apache-2.0
//
// Batches, and steps of continuous batching: each is a batch.
#include "native.h"

PyTypeObject* g_batch_type;

typedef struct BatchObject {
  PyObject base;
  pitot_batch* handle;  // NULL: inert, or over
  uint64_t id;
} BatchObject;

static BatchObject* AsBatch(PyObject* self) { return (BatchObject*)self; }

static void FinishBatch(BatchObject* self) {
  pitot_batch* const handle = self->handle;
  self->handle = NULL;
  if (handle != NULL) g_pitot.batch_finish(handle);
}

// Takes a batch that was begun; NULL: inert.
static void TakeBatch(BatchObject* self, pitot_batch* handle) {
  self->handle = handle;
  self->id = handle != NULL ? g_pitot.batch_id(handle) : 0;
}

static const Signature kBatchSignature = {"Batch", 2, 1, 2, {"executor", "work_unit"}};

static bool BeginBatch(BatchObject* self, PyObject** given) {
  Text executor, unit;
  if (!TextOf("executor", given[0], &executor)) return false;
  const bool is_good = OptionalTextOf("work_unit", given[1], &unit);
  if (is_good) TakeBatch(self, g_pitot.batch_begin_unit(executor.text, unit.text));
  Release(&executor);
  Release(&unit);
  return is_good;
}

static BatchObject* NewBatch(PyTypeObject* type) {
  BatchObject* self = PyObject_New(BatchObject, type);
  if (self != NULL) TakeBatch(self, NULL);
  return self;
}

static PyObject* BatchCall(PyObject* type, PyObject* const* args, size_t count, PyObject* keywords) {
  PyObject* given[2];
  if (!Take(&kBatchSignature, args, PyVectorcall_NARGS(count), keywords, given)) return NULL;
  BatchObject* self = NewBatch((PyTypeObject*)type);
  if (self == NULL || BeginBatch(self, given)) return (PyObject*)self;
  Py_DECREF(self);
  return NULL;
}

static int BatchInit(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* given[2];
  if (!TakeTuple(&kBatchSignature, args, keywords, given)) return -1;
  FinishBatch(AsBatch(self));
  return BeginBatch(AsBatch(self), given) ? 0 : -1;
}

static void BatchDealloc(PyObject* self) {
  FinishBatch(AsBatch(self));
  FreeObject(self);
}

#define PITOT_METHOD(name) \
  static PyObject* name(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords)

PITOT_METHOD(BatchJoin) {
  static const Signature kSignature = {"join", 2, 1, 2, {"token", "work"}};
  PyObject* given[2];
  pitot_token token;
  double work = 0;
  if (!Take(&kSignature, args, count, keywords, given) || !TokenOf(given[0], &token)) return NULL;
  if (given[1] == NULL || given[1] == Py_None) {
    g_pitot.batch_join(AsBatch(self)->handle, &token);
  } else {
    if (!RealOf("work", given[1], &work)) return NULL;
    g_pitot.batch_join_work(AsBatch(self)->handle, &token, work);
  }
  Py_RETURN_NONE;
}

PITOT_METHOD(BatchJoinMany) {
  static const Signature kSignature = {"join_many", 2, 1, 2, {"tokens", "works"}};
  PyObject* given[2];
  if (!Take(&kSignature, args, count, keywords, given)) return NULL;
  Members members;
  Numbers works;
  EmptyMembers(&members);
  EmptyNumbers(&works);
  const bool is_good = MembersOf("tokens", given[0], &members) && WorksOf(given[1], members.count, &works);
  if (is_good) {
    g_pitot.batch_join_many(AsBatch(self)->handle, members.tokens, works.works, (uint64_t)members.count);
  }
  FreeMembers(&members);
  FreeNumbers(&works);
  if (!is_good) return NULL;
  Py_RETURN_NONE;
}

PITOT_METHOD(BatchLeave) {
  static const Signature kSignature = {"leave", 1, 1, 1, {"token"}};
  PyObject* given[1];
  pitot_token token;
  if (!Take(&kSignature, args, count, keywords, given) || !TokenOf(given[0], &token)) return NULL;
  g_pitot.batch_leave(AsBatch(self)->handle, &token);
  Py_RETURN_NONE;
}

PITOT_METHOD(BatchClose) {
  static const Signature kSignature = {"close", 1, 1, 1, {"why"}};
  PyObject* given[1];
  int32_t why;
  if (!Take(&kSignature, args, count, keywords, given) || !ConstantOf("why", given[0], &why)) return NULL;
  g_pitot.batch_close(AsBatch(self)->handle, why);
  Py_RETURN_NONE;
}

static PyObject* BatchSubmitted(PyObject* self, PyObject* unused) {
  (void)unused;
  g_pitot.batch_submitted(AsBatch(self)->handle);
  Py_RETURN_NONE;
}

static PyObject* BatchFinish(PyObject* self, PyObject* unused) {
  (void)unused;
  FinishBatch(AsBatch(self));
  Py_RETURN_NONE;
}

PITOT_METHOD(BatchBeginStep) {
  static const Signature kSignature = {"begin_step", 4, 2, 4, {"executor", "members", "works", "work_unit"}};
  PyObject* given[4];
  Text executor, unit = {"tokens", NULL};
  if (!Take(&kSignature, args, count, keywords, given) || !TextOf("executor", given[0], &executor)) return NULL;
  Members members;
  Numbers works;
  EmptyMembers(&members);
  EmptyNumbers(&works);
  const bool is_good = (given[3] == NULL || TextOf("work_unit", given[3], &unit)) &&
                       MembersOf("members", given[1], &members) && WorksOf(given[2], members.count, &works);
  PyTypeObject* const type = (PyTypeObject*)self;
  BatchObject* step = NULL;
  if (is_good) step = type == g_batch_type ? NewBatch(type) : (BatchObject*)PyType_GenericAlloc(type, 0);
  if (step != NULL) {
    TakeBatch(step, g_pitot.batch_begin_unit(executor.text, unit.text));
    if (step->handle != NULL) {
      g_pitot.batch_join_many(step->handle, members.tokens, works.works, (uint64_t)members.count);
      g_pitot.batch_close(step->handle, PITOT_BATCH_STEP);
    }
  }
  FreeMembers(&members);
  FreeNumbers(&works);
  Release(&executor);
  Release(&unit);
  return (PyObject*)step;
}

// Finishes the requests of a tuple.
static bool FinishAll(PyObject* requests, int32_t outcome) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(requests); ++i) {
    if (!FinishRequest((RequestObject*)PyTuple_GetItem(requests, i), outcome, NULL)) return false;
  }
  return true;
}

// A tuple of requests; with InvalidArgument for anything else.
static PyObject* RequestsOf(const char* name, PyObject* value) {
  PyObject* requests = PySequence_Tuple(value);
  for (Py_ssize_t i = 0; requests != NULL && i < PyTuple_Size(requests); ++i) {
    PyObject* const item = PyTuple_GetItem(requests, i);
    if (PyObject_TypeCheck(item, g_request_type)) continue;
    PyErr_Format(g_invalid_argument, "%s has %R; it must be a Request", name, item);
    Py_CLEAR(requests);
  }
  return requests;
}

PITOT_METHOD(BatchEndStep) {
  static const Signature kSignature = {"end_step", 2, 0, 4, {"members", "counts", "finished", "outcome"}};
  PyObject *given[4], *finished = NULL;
  int32_t outcome = PITOT_OUTCOME_OK;
  if (!Take(&kSignature, args, count, keywords, given)) return NULL;
  Members members;
  Numbers counts;
  EmptyMembers(&members);
  EmptyNumbers(&counts);
  bool is_good = (given[3] == NULL || ConstantOf("outcome", given[3], &outcome)) &&
                 (given[0] == NULL || MembersOf("members", given[0], &members)) &&
                 CountsOf(given[1], members.count, &counts) &&
                 (given[2] == NULL || (finished = RequestsOf("finished", given[2])) != NULL);
  if (is_good) {
    FinishBatch(AsBatch(self));
    EmitAll(&members, &counts);
    is_good = finished == NULL || FinishAll(finished, outcome);
  }
  FreeMembers(&members);
  FreeNumbers(&counts);
  Py_XDECREF(finished);
  if (!is_good) return NULL;
  Py_RETURN_NONE;
}

static PyObject* BatchId(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(AsBatch(self)->id);
}

static PyObject* BatchEnter(PyObject* self, PyObject* unused) {
  (void)unused;
  Py_INCREF(self);
  return self;
}

PITOT_METHOD(BatchExit) {
  (void)args, (void)count, (void)keywords;
  FinishBatch(AsBatch(self));
  Py_RETURN_NONE;
}

static PyMethodDef kBatchMethods[] = {
    PITOT_FAST("join", BatchJoin, "join($self, token, work=None)\n--\n\nMakes the token's request a member."),
    PITOT_FAST("join_many", BatchJoinMany,
               "join_many($self, tokens, works=None)\n--\n\nJoins several members in one call, 64 at the same moment."),
    PITOT_FAST("leave", BatchLeave, "leave($self, token)\n--\n\nEnds the request's membership early."),
    PITOT_FAST("close", BatchClose, "close($self, why)\n--\n\nSays why no more members are accepted."),
    PITOT_NONE("submitted", BatchSubmitted,
               "submitted($self)\n--\n\nAll of its work is launched; GPU work may still run."),
    PITOT_NONE("finish", BatchFinish, "finish($self)\n--\n\nThe results are available. A second call does nothing."),
    {"begin_step", (PyCFunction)(void (*)(void))BatchBeginStep, METH_CLASS | METH_FASTCALL | METH_KEYWORDS,
     "begin_step($type, executor, members, works=None, work_unit='tokens')\n--\n\nBegins a step with all its members."},
    PITOT_FAST("end_step", BatchEndStep,
               "end_step($self, members=(), counts=None, *, finished=(), outcome=1)\n--\n\n"
               "Ends a step, with the tokens that its members put out."),
    PITOT_NONE("__enter__", BatchEnter, NULL),
    PITOT_FAST("__exit__", BatchExit, NULL),
    {0}};
static PyGetSetDef kBatchProperties[] = {{"id", BatchId, NULL, "0 while no recorder runs.", NULL}, {0}};
static PyType_Slot kBatchSlots[] = {
    {Py_tp_doc, "Batch(executor, work_unit=None)\n--\n\nOne execution that serves several requests."},
    {Py_tp_init, BatchInit},
    {Py_tp_dealloc, BatchDealloc},
    {Py_tp_methods, kBatchMethods},
    {Py_tp_getset, kBatchProperties},
    {0, NULL}};
static PyType_Spec kBatchSpec = {"pitot.Batch", sizeof(BatchObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 kBatchSlots};

bool AddBatches(PyObject* module) {
  g_batch_type = AddType(module, &kBatchSpec, BatchCall);
  return g_batch_type != NULL;
}
