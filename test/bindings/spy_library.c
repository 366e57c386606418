// SPDX-License-Identifier: Apache-2.0
//
// A libpitot_c.so with some functions of its own: each notes its name, its handle and its arguments, and records
// nothing. Whoever loads it finds the other functions in the real library, which it links.
#include <math.h>
#include <stddef.h>

#include "pitot/c.h"

extern const char* spy_function;
extern const void* spy_handle;
extern uint64_t spy_calls, spy_count;
extern double spy_works[256];  // NaN: none
extern pitot_token spy_tokens[256];

const char* spy_function;
const void* spy_handle;
uint64_t spy_calls, spy_count;
double spy_works[256];
pitot_token spy_tokens[256];

static void Note(const char* function, const void* handle, uint64_t count) {
  spy_function = function;
  spy_handle = handle;
  spy_count = count;
  ++spy_calls;
}
static void NoteMembers(const char* function, const void* handle, const pitot_token* tokens, const double* works,
                        uint64_t count) {
  Note(function, handle, count);
  for (uint64_t i = 0; i < count && i < 256; ++i) {
    spy_tokens[i] = tokens[i];
    spy_works[i] = works != NULL ? works[i] : NAN;
  }
}

void pitot_request_stage(pitot_request* request, const char* name) { (void)name, Note("stage", request, 0); }
void pitot_request_emit(pitot_request* request, uint32_t count) { Note("emit", request, count); }
void pitot_request_set_id(pitot_request* request, const char* id) { (void)id, Note("set_id", request, 0); }
void pitot_request_set_label(pitot_request* request, const char* key, const char* value) {
  (void)key, (void)value, Note("set_label", request, 0);
}
void pitot_request_set_size(pitot_request* request, const char* name, double value) {
  (void)name, (void)value, Note("set_size", request, 0);
}
void pitot_request_set_deadline(pitot_request* request, uint64_t ns) { Note("set_deadline", request, ns); }
pitot_token pitot_request_enqueue(pitot_request* request, const char* queue) {
  (void)queue, Note("enqueue", request, 0);
  return (pitot_token){{0}};
}
pitot_request* pitot_request_begin_child(pitot_request* parent, const char* route) {
  (void)route, Note("child", parent, 0);
  return NULL;
}
void pitot_request_finish_reason(pitot_request* request, pitot_outcome outcome, const char* reason) {
  (void)reason, Note("finish", request, (uint64_t)outcome);
}
void pitot_token_emit(const pitot_token* token, uint32_t count) {
  NoteMembers("emit token", NULL, token, NULL, 1), spy_count = count;
}
void pitot_batch_join(pitot_batch* batch, const pitot_token* token) { NoteMembers("join", batch, token, NULL, 1); }
void pitot_batch_join_work(pitot_batch* batch, const pitot_token* token, double work) {
  NoteMembers("join with work", batch, token, &work, 1);
}
void pitot_batch_join_many(pitot_batch* batch, const pitot_token* tokens, const double* work, uint64_t count) {
  NoteMembers("join many", batch, tokens, work, count);
}
void pitot_batch_leave(pitot_batch* batch, const pitot_token* token) { NoteMembers("leave", batch, token, NULL, 1); }
void pitot_batch_close(pitot_batch* batch, pitot_batch_close_reason why) { Note("close", batch, (uint64_t)why); }
