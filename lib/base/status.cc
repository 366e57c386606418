// SPDX-License-Identifier: Apache-2.0
#include "pitot/status.h"

#include <cstring>
#include <iterator>
#include <new>

PITOT_NAMESPACE_BEGIN
namespace {
constexpr uint64_t kMaxMessage = 1023;
}

struct Status::Rep {
  bool is_counted() const { return __atomic_load_n(&references, __ATOMIC_RELAXED) != 0; }

  uint32_t references;  // 0: never freed
  StatusCode code;
  char message[1];  // as long as necessary
};

namespace {
// Replaces an error without memory for its message: one for each code, never freed.
template <class Rep> Rep* WithoutMemory(StatusCode code) {
  static char storage[11][64];
  char* memory = storage[static_cast<uint8_t>(code) % std::size(storage)];
  auto* rep = reinterpret_cast<Rep*>(memory);
  static_assert(sizeof(Rep) + 40 <= sizeof storage[0]);
  rep->references = 0;
  rep->code = code;
  std::memcpy(rep->message, "(no memory for the message)", 28);
  return rep;
}
}  // namespace

const char* StatusCodeName(StatusCode code) noexcept {
  static constexpr const char* kNames[] = {
      "ok",          "invalid_argument", "already_running", "not_running", "resource_exhausted",
      "unavailable", "not_found",        "data_loss",       "io_error",    "internal",
      "disabled"};
  const auto i = static_cast<size_t>(code);
  return i < std::size(kNames) ? kNames[i] : "internal";
}

Status::Status(StatusCode code, const char* message) noexcept {
  if (code == StatusCode::kOk) return;
  const uint64_t size = message != nullptr ? strnlen(message, kMaxMessage) : 0;
  void* memory = ::operator new(sizeof(Rep) + size, std::nothrow);
  if (memory == nullptr) {
    rep_ = WithoutMemory<Rep>(code);
    return;
  }
  rep_ = static_cast<Rep*>(memory);
  rep_->references = 1;
  rep_->code = code;
  if (size != 0) std::memcpy(rep_->message, message, size);
  rep_->message[size] = '\0';
}

Status::Status(const Status& other) noexcept : rep_(other.rep_) {
  if (rep_ != nullptr && rep_->is_counted()) __atomic_fetch_add(&rep_->references, 1, __ATOMIC_RELAXED);
}

Status& Status::operator=(const Status& other) noexcept {
  Status copy(other);
  return *this = static_cast<Status&&>(copy);
}

void Status::Release() noexcept {
  if (rep_->is_counted() && __atomic_fetch_sub(&rep_->references, 1, __ATOMIC_ACQ_REL) == 1) ::operator delete(rep_);
}

StatusCode Status::code() const noexcept { return rep_ == nullptr ? StatusCode::kOk : rep_->code; }

const char* Status::message() const noexcept { return rep_ == nullptr ? "" : rep_->message; }

PITOT_NAMESPACE_END
