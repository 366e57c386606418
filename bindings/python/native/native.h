// SPDX-License-Identifier: Apache-2.0
//
// pitot._native: the calls of a server's hot path, in C. The rest of the package calls the library through ctypes.
//
// It does not link the library. It takes the functions from the file that ctypes has loaded, so both use one recorder.
// The interpreter's lock is kept during each call, because none of them waits. A handle is read after all arguments
// were converted: a conversion may run Python, and that may finish the handle.
#ifndef PITOT_BINDINGS_PYTHON_NATIVE_H_
#define PITOT_BINDINGS_PYTHON_NATIVE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>  // after Python.h

#include "pitot/c.h"

// ---- The library. ----

// clang-format off
#define PITOT_FUNCTIONS(X) \
  X(intern) X(scope_begin) X(scope_end) X(instant) X(counter) X(now) \
  X(wait_begin) X(wait_set_owner) X(wait_end) X(adopt_begin) X(adopt_end) \
  X(token_request) X(token_is_late) X(token_stage) X(token_emit) X(token_enqueue) X(token_set_label) X(token_set_size) \
  X(request_begin) X(request_begin_child) X(request_begin_from) X(request_finish_reason) X(request_id) \
  X(request_write_traceparent) X(request_set_id) X(request_set_label) X(request_set_size) X(request_set_deadline) \
  X(request_stage) X(request_emit) X(request_is_late) X(request_token) X(request_enqueue) \
  X(batch_begin_unit) X(batch_id) X(batch_join) X(batch_join_work) X(batch_join_many) X(batch_leave) X(batch_close) \
  X(batch_submitted) X(batch_finish) X(step_begin) X(step_end)
// clang-format on

typedef struct Library {
#define PITOT_MEMBER(name) __typeof__(&pitot_##name) name;
  PITOT_FUNCTIONS(PITOT_MEMBER)
#undef PITOT_MEMBER
} Library;
extern Library g_pitot;

// ---- Arguments (arguments.c). Functions that return false have set InvalidArgument, with the argument's name. ----

extern PyObject* g_invalid_argument;

// The names of a function's parameters; the first `positional` may be given by place, the first `required` must be
// given.
enum { kMostParameters = 5 };
typedef struct Signature {
  const char* function;
  int positional, required, count;
  const char* names[kMostParameters];
} Signature;
// Fill `out` with borrowed references, NULL for those not given.
bool Take(const Signature* signature, PyObject* const* args, Py_ssize_t count, PyObject* keywords, PyObject** out);
bool TakeTuple(const Signature* signature, PyObject* args, PyObject* keywords, PyObject** out);

// A str as text for C; parts that are not valid UTF-8 become question marks. `held` keeps it alive.
typedef struct Text {
  const char* text;
  PyObject* held;
} Text;
bool TextOf(const char* name, PyObject* value, Text* out);
bool OptionalTextOf(const char* name, PyObject* value, Text* out);  // NULL and None: a null text
static inline void Release(Text* text) { Py_XDECREF(text->held); }

bool WholeOf(const char* name, PyObject* value, int bits, uint64_t* out);
bool ConstantOf(const char* name, PyObject* value, int32_t* out);  // a member of an enumeration
bool RealOf(const char* name, PyObject* value, double* out);
bool IntegerOf(const char* name, PyObject* value, uint32_t* out);
bool TokenOf(PyObject* value, pitot_token* out);  // a Token, or a Request

// Members of a batch, and a number for each. Few of them need no memory of their own.
enum { kFewMembers = 64 };
typedef struct Members {
  pitot_token few[kFewMembers];
  pitot_token* tokens;
  Py_ssize_t count;
} Members;
typedef struct Numbers {
  union {
    double works[kFewMembers];
    uint32_t counts[kFewMembers];
  } few;
  double* works;     // NULL: none given
  uint32_t* counts;  // NULL: none given
} Numbers;
// Both must be emptied first, and freed, also on error.
static inline void EmptyMembers(Members* members) { members->tokens = members->few, members->count = 0; }
static inline void EmptyNumbers(Numbers* numbers) { numbers->works = NULL, numbers->counts = NULL; }
// A sequence of tokens and requests, or a buffer of packed tokens.
bool MembersOf(const char* name, PyObject* value, Members* out);
bool WorksOf(PyObject* value, Py_ssize_t count, Numbers* out);   // a sequence, or a buffer; NULL and None: none
bool CountsOf(PyObject* value, Py_ssize_t count, Numbers* out);  // the same
void FreeMembers(Members* members);
void FreeNumbers(Numbers* numbers);
void EmitAll(const Members* members, const Numbers* counts);  // none given: 1 each

// ---- Types. ----

extern PyTypeObject *g_current_type, *g_token_type, *g_request_type, *g_batch_type, *g_scope_type, *g_wait_type,
    *g_adopt_type;

typedef struct TokenObject {
  PyObject base;
  pitot_token token;
} TokenObject;
typedef struct RequestObject {
  PyObject base;
  pitot_request* handle;  // NULL: inert, or over
  uint64_t id;
  PyObject* context;  // from g_enter; NULL: none
  PyObject* parent;   // the context of the request that it is a part of
} RequestObject;

PyObject* MakeToken(pitot_token token);
bool FinishRequest(RequestObject* self, int32_t outcome, const char* reason);

// Makes a request part of its task's context (_loops.py), as a Current; NULL while no event loop is followed.
extern PyObject* g_enter;
// Ends a request in all contexts. In the calling task `outer` is current again; NULL: nothing changes there.
bool LeaveContext(PyObject* current, PyObject* outer);
void ForgetContext(PyObject* current);  // the request was abandoned, on any thread

// Each adds its types or functions to the module.
bool AddContexts(PyObject* module);
bool AddScopes(PyObject* module);
bool AddRequests(PyObject* module);
bool AddBatches(PyObject* module);
// Makes a type. `call` makes an object without a tuple of arguments: half the time of a limited API's way.
PyTypeObject* AddType(PyObject* module, PyType_Spec* spec, vectorcallfunc call);

// A type for `with` alone: a scope, a wait, an adoption. `with` binds __enter__ and __exit__ for each block, and these
// two objects cost more than the calls. So here both bind to the block itself: called without arguments it begins, and
// with those of __exit__ it ends. Objects of the type begin with a Block.
typedef struct Block {
  PyObject base;
  vectorcallfunc call;
} Block;
PyTypeObject* AddBlock(PyObject* module, PyType_Spec* spec, vectorcallfunc make);
#define PITOT_BLOCK_SLOTS \
  {Py_tp_call, PyVectorcall_Call}, { Py_tp_members, kBlockMembers }
extern PyMemberDef kBlockMembers[];
enum { kBlockFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION };

extern PyMethodDef kContextFunctions[], kScopeFunctions[], kRequestFunctions[];

#define PITOT_FAST(name, function, text) \
  { name, (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS, text }
#define PITOT_NONE(name, function, text) \
  { name, (PyCFunction)function, METH_NOARGS, text }

// The memory of an object whose members have been let go.
static inline void FreeObject(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

#endif  // PITOT_BINDINGS_PYTHON_NATIVE_H_
