// SPDX-License-Identifier: Apache-2.0
#include "pitot/request.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "pitot/c.h"

struct pitot_request {
  pitot::Request request;
};
struct pitot_batch {
  pitot::Batch batch;
};

namespace pitot::c {
namespace {

static_assert(PITOT_OUTCOME_OK == static_cast<int>(Outcome::kOk));
static_assert(PITOT_OUTCOME_FAILED == static_cast<int>(Outcome::kFailed));
static_assert(PITOT_OUTCOME_CANCELLED == static_cast<int>(Outcome::kCancelled));
static_assert(PITOT_OUTCOME_TIMED_OUT == static_cast<int>(Outcome::kTimedOut));
static_assert(PITOT_OUTCOME_SHED == static_cast<int>(Outcome::kShed));
static_assert(PITOT_OUTCOME_ABANDONED == static_cast<int>(Outcome::kAbandoned));
static_assert(PITOT_BATCH_UNKNOWN == static_cast<int>(BatchClose::kUnknown));
static_assert(PITOT_BATCH_FULL == static_cast<int>(BatchClose::kFull));
static_assert(PITOT_BATCH_TIMEOUT == static_cast<int>(BatchClose::kTimeout));
static_assert(PITOT_BATCH_FLUSH == static_cast<int>(BatchClose::kFlush));
static_assert(PITOT_BATCH_STEP == static_cast<int>(BatchClose::kStep));

static_assert(sizeof(pitot_token) == sizeof(Token));
Token FromC(const pitot_token* token) { return token != nullptr ? std::bit_cast<Token>(*token) : Token(); }
pitot_token ToC(const Token& token) { return std::bit_cast<pitot_token>(token); }

// No handle for an inert request: a server that does not record allocates nothing.
pitot_request* Handle(Request request) {
  return request.id() != 0 ? new (std::nothrow) pitot_request{std::move(request)} : nullptr;
}

// Builds an Adopt in the caller's room for it; the last word marks it as open.
constexpr uint64_t kOpen = 0x7069746f745f6164;
constexpr int kMark = sizeof(pitot_adopt) / 8 - 1;
static_assert(sizeof(Adopt) <= 8 * kMark && alignof(Adopt) <= alignof(pitot_adopt));

}  // namespace
}  // namespace pitot::c

extern "C" {

using namespace pitot;     // NOLINT: this part only implements the C functions on what stands above
using namespace pitot::c;  // NOLINT

uint64_t pitot_now() { return Now().ticks; }

uint64_t pitot_token_request(const pitot_token* token) { return FromC(token).request; }
int32_t pitot_token_is_late(const pitot_token* token) { return IsLate(FromC(token)); }
void pitot_token_stage(const pitot_token* token, const char* name) { Stage(FromC(token), name); }
void pitot_token_emit(const pitot_token* token, uint32_t count) { Emit(FromC(token), count); }
pitot_token pitot_token_enqueue(const pitot_token* token, const char* queue) {
  return ToC(Enqueue(FromC(token), queue));
}
void pitot_token_set_label(const pitot_token* token, const char* key, const char* value) {
  SetLabel(FromC(token), key, value);
}
void pitot_token_set_size(const pitot_token* token, const char* name, double value) {
  SetSize(FromC(token), name, value);
}

pitot_request* pitot_request_begin(const char* route, const char* traceparent, uint64_t arrival) {
  return Handle(Request::Begin(route, traceparent, Timestamp{arrival}));
}
pitot_request* pitot_request_begin_child(pitot_request* parent, const char* route) {
  return parent != nullptr ? Handle(parent->request.BeginChild(route)) : nullptr;
}
pitot_request* pitot_request_begin_from(const pitot_token* parent, const char* route) {
  return Handle(Request::BeginFrom(FromC(parent), route));
}
void pitot_request_finish(pitot_request* request, pitot_outcome outcome) {
  pitot_request_finish_reason(request, outcome, nullptr);
}
void pitot_request_finish_reason(pitot_request* request, pitot_outcome outcome, const char* reason) {
  if (request == nullptr) return;
  const bool is_known = outcome >= PITOT_OUTCOME_OK && outcome <= PITOT_OUTCOME_ABANDONED;
  request->request.Finish(is_known ? static_cast<Outcome>(outcome) : Outcome::kAbandoned, reason);
  delete request;
}

uint64_t pitot_request_id(const pitot_request* request) { return request != nullptr ? request->request.id() : 0; }
void pitot_request_write_traceparent(const pitot_request* request, char out[56]) {
  char text[56] = "";
  if (request != nullptr) request->request.WriteTraceparent(text);
  if (out != nullptr) std::memcpy(out, text, sizeof text);
}
void pitot_request_set_id(pitot_request* request, const char* id) {
  if (request != nullptr) request->request.SetId(id);
}
void pitot_request_set_label(pitot_request* request, const char* key, const char* value) {
  if (request != nullptr) request->request.SetLabel(key, value);
}
void pitot_request_set_size(pitot_request* request, const char* name, double value) {
  if (request != nullptr) request->request.SetSize(name, value);
}
void pitot_request_set_deadline(pitot_request* request, uint64_t ns) {
  if (request != nullptr) request->request.SetDeadline(ns);
}
void pitot_request_stage(pitot_request* request, const char* name) {
  if (request != nullptr) request->request.Stage(name);
}
void pitot_request_emit(pitot_request* request, uint32_t count) {
  if (request != nullptr) request->request.Emit(count);
}
int32_t pitot_request_is_late(const pitot_request* request) { return request != nullptr && request->request.IsLate(); }
pitot_token pitot_request_token(const pitot_request* request) {
  return ToC(request != nullptr ? request->request.token() : Token());
}
pitot_token pitot_request_enqueue(pitot_request* request, const char* queue) {
  return ToC(request != nullptr ? request->request.Enqueue(queue) : Token());
}

void pitot_adopt_begin(pitot_adopt* adopt, const pitot_token* token) {
  if (adopt == nullptr) return;
  new (adopt->opaque) Adopt(FromC(token));
  adopt->opaque[kMark] = kOpen;
}
void pitot_adopt_end(pitot_adopt* adopt) {
  if (adopt == nullptr || adopt->opaque[kMark] != kOpen) return;
  std::launder(reinterpret_cast<Adopt*>(adopt->opaque))->~Adopt();
  adopt->opaque[kMark] = 0;
}

pitot_batch* pitot_batch_begin(const char* executor) { return pitot_batch_begin_unit(executor, nullptr); }
pitot_batch* pitot_batch_begin_unit(const char* executor, const char* work_unit) {
  Batch batch = Batch::Begin(executor, work_unit);
  return batch.id() != 0 ? new (std::nothrow) pitot_batch{std::move(batch)} : nullptr;
}
uint64_t pitot_batch_id(const pitot_batch* batch) { return batch != nullptr ? batch->batch.id() : 0; }
void pitot_batch_join(pitot_batch* batch, const pitot_token* token) {
  if (batch != nullptr) batch->batch.Join(FromC(token));
}
void pitot_batch_join_work(pitot_batch* batch, const pitot_token* token, double work) {
  if (batch != nullptr) batch->batch.Join(FromC(token), work);
}
void pitot_batch_join_many(pitot_batch* batch, const pitot_token* tokens, const double* work, uint64_t count) {
  if (batch == nullptr || tokens == nullptr) return;
  constexpr uint64_t kAtOnce = 64;
  Token some[kAtOnce];
  for (uint64_t from = 0; from < count; from += kAtOnce) {
    const uint64_t here = std::min(kAtOnce, count - from);
    std::transform(tokens + from, tokens + from + here, some, [](const pitot_token& token) { return FromC(&token); });
    batch->batch.JoinMany(some, work != nullptr ? work + from : nullptr, here);
  }
}
void pitot_batch_leave(pitot_batch* batch, const pitot_token* token) {
  if (batch != nullptr) batch->batch.Leave(FromC(token));
}
void pitot_batch_close(pitot_batch* batch, pitot_batch_close_reason why) {
  if (batch == nullptr) return;
  const bool is_known = why >= PITOT_BATCH_UNKNOWN && why <= PITOT_BATCH_STEP;
  batch->batch.Close(is_known ? static_cast<BatchClose>(why) : BatchClose::kUnknown);
}
void pitot_batch_submitted(pitot_batch* batch) {
  if (batch != nullptr) batch->batch.Submitted();
}
void pitot_batch_finish(pitot_batch* batch) { delete batch; }

}  // extern "C"
