// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "native.h"

PyObject* g_invalid_argument;

// ---- Parameters. ----

// Whether a required parameter was not given.
static bool Missing(const Signature* signature, PyObject** out) {
  for (int i = 0; i < signature->required; ++i) {
    if (out[i] != NULL) continue;
    PyErr_Format(PyExc_TypeError, "%s() misses the argument '%s'", signature->function, signature->names[i]);
    return true;
  }
  return false;
}

static bool TooMany(const Signature* signature, Py_ssize_t count) {
  if (count <= signature->positional) return false;
  PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", signature->function,
               signature->positional, count);
  return true;
}

// Puts an argument given by name.
static bool Put(const Signature* signature, PyObject* name, PyObject* value, PyObject** out) {
  for (int i = 0; i < signature->count; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, signature->names[i]) != 0) continue;
    if (out[i] != NULL) {
      PyErr_Format(PyExc_TypeError, "%s() got two values for the argument '%U'", signature->function, name);
      return false;
    }
    out[i] = value;
    return true;
  }
  PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", signature->function, name);
  return false;
}

bool Take(const Signature* signature, PyObject* const* args, Py_ssize_t count, PyObject* keywords, PyObject** out) {
  if (TooMany(signature, count)) return false;
  for (int i = 0; i < signature->count; ++i) out[i] = i < count ? args[i] : NULL;
  const Py_ssize_t named = keywords != NULL ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    if (!Put(signature, PyTuple_GetItem(keywords, i), args[count + i], out)) return false;
  }
  return !Missing(signature, out);
}

bool TakeTuple(const Signature* signature, PyObject* args, PyObject* keywords, PyObject** out) {
  const Py_ssize_t count = PyTuple_Size(args);
  if (TooMany(signature, count)) return false;
  for (int i = 0; i < signature->count; ++i) out[i] = i < count ? PyTuple_GetItem(args, i) : NULL;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; keywords != NULL && PyDict_Next(keywords, &at, &name, &value);) {
    if (!Put(signature, name, value, out)) return false;
  }
  return !Missing(signature, out);
}

// ---- Single values. ----

static bool Refuse(const char* name, PyObject* value, const char* rule) {
  PyErr_Format(g_invalid_argument, "%s is %R; it must be %s", name, value, rule);
  return false;
}

bool TextOf(const char* name, PyObject* value, Text* out) {
  *out = (Text){NULL, NULL};
  if (!PyUnicode_Check(value)) return Refuse(name, value, "a str");
  out->text = PyUnicode_AsUTF8AndSize(value, NULL);
  if (out->text != NULL) return true;
  PyErr_Clear();
  out->held = PyUnicode_AsEncodedString(value, "utf-8", "replace");
  if (out->held == NULL) return false;
  out->text = PyBytes_AsString(out->held);
  return true;
}

bool OptionalTextOf(const char* name, PyObject* value, Text* out) {
  *out = (Text){NULL, NULL};
  return value == NULL || value == Py_None || TextOf(name, value, out);
}

bool WholeOf(const char* name, PyObject* value, int bits, uint64_t* out) {
  const uint64_t most = UINT64_MAX >> (64 - bits);
  PyObject* number = PyNumber_Index(value);  // an int: itself
  if (number == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    return Refuse(name, value, "a whole number");
  }
  *out = PyLong_AsUnsignedLongLong(number);
  const bool is_wide = *out == UINT64_MAX && PyErr_Occurred() != NULL;
  if (is_wide) PyErr_Clear();
  const bool is_good = !is_wide && *out <= most;
  if (!is_good) PyErr_Format(g_invalid_argument, "%s is %S; it must be 0 to %llu", name, number, most);
  Py_DECREF(number);
  return is_good;
}

bool ConstantOf(const char* name, PyObject* value, int32_t* out) {
  uint64_t number;
  if (!WholeOf(name, value, 31, &number)) return false;
  *out = (int32_t)number;
  return true;
}

bool IntegerOf(const char* name, PyObject* value, uint32_t* out) {
  uint64_t number;
  if (!WholeOf(name, value, 32, &number)) return false;
  *out = (uint32_t)number;
  return true;
}

bool RealOf(const char* name, PyObject* value, double* out) {
  *out = PyFloat_AsDouble(value);
  if (*out != -1.0 || PyErr_Occurred() == NULL) return true;
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
  PyErr_Clear();
  return Refuse(name, value, "a number");
}

bool TokenOf(PyObject* value, pitot_token* out) {
  const bool is_request = Py_IS_TYPE(value, g_request_type);
  if (!is_request && PyObject_TypeCheck(value, g_token_type)) {
    *out = ((TokenObject*)value)->token;
    return true;
  }
  if (is_request || PyObject_TypeCheck(value, g_request_type)) {
    *out = g_pitot.request_token(((RequestObject*)value)->handle);
    return true;
  }
  return Refuse("token", value, "a Token or a Request");
}

// ---- Many values. ----

// Room for `count` elements: `few`, or memory of its own.
static bool Allocate(Py_ssize_t count, size_t size, void* few, void** out) {
  *out = count <= kFewMembers ? few : PyMem_Malloc((size_t)count * size);
  if (*out == NULL) PyErr_NoMemory();
  return *out != NULL;
}

// A sequence that cannot change while conversions of its items run Python.
static PyObject* FixedOf(const char* name, PyObject* value) {
  PyObject* fixed = PySequence_Tuple(value);
  if (fixed == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    Refuse(name, value, "a sequence or a buffer");
  }
  return fixed;
}

static inline bool IsSequence(PyObject* value) { return PyTuple_CheckExact(value) || PyList_CheckExact(value); }

// Opens a buffer, which the caller releases. Lists and tuples have none.
static bool IsBuffer(PyObject* value, Py_buffer* view) {
  if (IsSequence(value) || !PyObject_CheckBuffer(value)) return false;
  if (PyObject_GetBuffer(value, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0) return true;
  PyErr_Clear();
  return false;
}

static bool TokensOfBuffer(const char* name, PyObject* value, const Py_buffer* view, Members* out) {
  if (view->len % (Py_ssize_t)sizeof(pitot_token) != 0) return Refuse(name, value, "packed tokens of 32 bytes each");
  out->count = view->len / (Py_ssize_t)sizeof(pitot_token);
  if (!Allocate(out->count, sizeof(pitot_token), out->few, (void**)&out->tokens)) return false;
  if (view->len != 0) memcpy(out->tokens, view->buf, (size_t)view->len);
  return true;
}

bool MembersOf(const char* name, PyObject* value, Members* out) {
  Py_buffer view;
  if (IsBuffer(value, &view)) {
    const bool is_good = TokensOfBuffer(name, value, &view, out);
    PyBuffer_Release(&view);
    return is_good;
  }
  PyObject* fixed = FixedOf(name, value);
  if (fixed == NULL) return false;
  const Py_ssize_t count = PyTuple_Size(fixed);
  bool is_good = Allocate(count, sizeof(pitot_token), out->few, (void**)&out->tokens);
  for (Py_ssize_t i = 0; is_good && i < count; ++i) is_good = TokenOf(PyTuple_GetItem(fixed, i), &out->tokens[i]);
  if (is_good) out->count = count;
  Py_DECREF(fixed);
  return is_good;
}

void FreeMembers(Members* members) {
  if (members->tokens != members->few) PyMem_Free(members->tokens);
}

static bool HasCount(const char* name, Py_ssize_t given, Py_ssize_t count) {
  if (given == count) return true;
  PyErr_Format(g_invalid_argument, "%s has %zd values; it must have %zd, one for each token", name, given, count);
  return false;
}

// An element of a buffer, by the code of module struct; false for other codes.
static bool Load(char code, const char* at, double* real, int64_t* whole, bool* is_real) {
#define PITOT_LOAD(letter, type, out, real_type) \
  case letter: {                                 \
    type element;                                \
    memcpy(&element, at, sizeof element);        \
    *is_real = real_type;                        \
    *out = element;                              \
    return true;                                 \
  }
  switch (code) {
    PITOT_LOAD('d', double, real, true)
    PITOT_LOAD('f', float, real, true)
    PITOT_LOAD('b', int8_t, whole, false)
    PITOT_LOAD('B', uint8_t, whole, false)
    PITOT_LOAD('h', int16_t, whole, false)
    PITOT_LOAD('H', uint16_t, whole, false)
    PITOT_LOAD('i', int32_t, whole, false)
    PITOT_LOAD('I', uint32_t, whole, false)
    PITOT_LOAD('l', int64_t, whole, false)
    PITOT_LOAD('q', int64_t, whole, false)
    case 'L':
    case 'Q': {
      uint64_t element;
      memcpy(&element, at, sizeof element);
      *is_real = element > INT64_MAX;  // as a count it is refused in any case
      *real = (double)element;
      *whole = (int64_t)(element & INT64_MAX);
      return true;
    }
    default:
      return false;
  }
#undef PITOT_LOAD
}

static bool NumbersOfBuffer(const char* name, PyObject* value, const Py_buffer* view, Py_ssize_t count, Numbers* out) {
  if (!HasCount(name, view->itemsize != 0 ? view->len / view->itemsize : 0, count)) return false;
  const char* const format = view->format != NULL ? view->format : "B";
  const char code = format[0] == '@' || format[0] == '<' || format[0] == '=' ? format[1] : format[0];
  for (Py_ssize_t i = 0; i < count; ++i) {
    double real = 0;
    int64_t whole = 0;
    bool is_real = false;
    if (!Load(code, (const char*)view->buf + i * view->itemsize, &real, &whole, &is_real)) {
      return Refuse(name, value, "numbers of a size that C has");
    }
    if (out->works != NULL) {
      out->works[i] = is_real ? real : (double)whole;
    } else if (is_real || whole < 0 || whole > UINT32_MAX) {
      return Refuse(name, value, "whole numbers from 0 to 4294967295");
    } else {
      out->counts[i] = (uint32_t)whole;
    }
  }
  return true;
}

static bool FillNumbers(const char* name, PyObject* value, Py_ssize_t count, Numbers* out) {
  Py_buffer view;
  if (IsBuffer(value, &view)) {
    const bool is_good = NumbersOfBuffer(name, value, &view, count, out);
    PyBuffer_Release(&view);
    return is_good;
  }
  PyObject* fixed = FixedOf(name, value);
  if (fixed == NULL) return false;
  bool is_good = HasCount(name, PyTuple_Size(fixed), count);
  for (Py_ssize_t i = 0; is_good && i < count; ++i) {
    PyObject* item = PyTuple_GetItem(fixed, i);
    is_good = out->works != NULL ? RealOf(name, item, &out->works[i]) : IntegerOf(name, item, &out->counts[i]);
  }
  Py_DECREF(fixed);
  return is_good;
}

bool WorksOf(PyObject* value, Py_ssize_t count, Numbers* out) {
  if (value == NULL || value == Py_None) return true;
  return Allocate(count, sizeof(double), out->few.works, (void**)&out->works) &&
         FillNumbers("works", value, count, out);
}

bool CountsOf(PyObject* value, Py_ssize_t count, Numbers* out) {
  if (value == NULL || value == Py_None) return true;
  return Allocate(count, sizeof(uint32_t), out->few.counts, (void**)&out->counts) &&
         FillNumbers("counts", value, count, out);
}

void FreeNumbers(Numbers* numbers) {
  if (numbers->works != numbers->few.works) PyMem_Free(numbers->works);
  if (numbers->counts != numbers->few.counts) PyMem_Free(numbers->counts);
}

void EmitAll(const Members* members, const Numbers* counts) {
  for (Py_ssize_t i = 0; i < members->count; ++i) {
    const uint32_t count = counts->counts != NULL ? counts->counts[i] : 1;
    if (count != 0) g_pitot.token_emit(&members->tokens[i], count);
  }
}
