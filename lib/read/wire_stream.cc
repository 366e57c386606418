// SPDX-License-Identifier: Apache-2.0
#include "read/wire_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pitot::read {

using base::SplitTag;
using base::TakeVarint;
using base::WireField;
using base::WireType;

namespace {

constexpr size_t kStepBytes = 256 << 10;

}  // namespace

size_t WireStream::ReadMore(size_t count) {
  std::memmove(buffer_.data(), buffer_.data() + at_, have_ - at_);
  base_ += at_;
  have_ -= at_;
  at_ = 0;
  while (have_ < count) {
    // A size that the file does not have takes no memory.
    if (buffer_.size() < have_ + kStepBytes) buffer_.resize(std::max(buffer_.size() * 2, have_ + kStepBytes));
    const size_t got = source_.Read(buffer_.data() + have_, buffer_.size() - have_);
    if (got == 0) break;
    have_ += got;
  }
  return std::min(count, have_);
}

bool WireStream::Fail(bool is_cut) {
  has_ended_ = true;
  (is_cut ? is_cut_ : is_damaged_) = true;
  return false;
}

bool WireStream::Varint(uint64_t* value) {
  const size_t have = Fill(10);
  const char* const begin = buffer_.data() + at_;
  const char* at = begin;
  if (!TakeVarint(&at, begin + have, value)) return Fail(have < 10);
  at_ += static_cast<size_t>(at - begin);
  return true;
}

bool WireStream::Next(WireField* field) {
  if (has_ended_) return false;
  if (pending_ != 0) Skip(std::exchange(pending_, 0));
  if (has_ended_ || at() >= ends_.back()) return false;
  if (Fill(1) == 0) {
    has_ended_ = true;
    is_cut_ = ends_.size() > 1;
    return false;
  }
  uint64_t tag = 0;
  if (!Varint(&tag)) return false;
  // Zeros after the last field: a file that was made larger first.
  while (tag == 0 && ends_.size() == 1) {
    if (Fill(1) == 0) return has_ended_ = true, false;
    if (!Varint(&tag)) return false;
  }
  if (!SplitTag(tag, field)) return Fail(false);
  if (field->type == WireType::kVarint) {
    if (!Varint(&field->value)) return false;
  } else if (field->type == WireType::kBytes) {
    if (!Varint(&field->value)) return false;
    pending_ = field->value;
    field->bytes = {};
  } else {
    const size_t size = field->type == WireType::kFixed64 ? 8 : 4;
    if (Fill(size) < size) return Fail(true);
    field->value = 0;
    for (size_t i = 0; i < size; ++i) field->value |= uint64_t{static_cast<unsigned char>(buffer_[at_ + i])} << (8 * i);
    at_ += size;
  }
  // A field does not end after its message.
  return (at() <= ends_.back() && pending_ <= ends_.back() - at()) || Fail(false);
}

std::string_view WireStream::Take() {
  const uint64_t size = std::exchange(pending_, 0);
  if (size > kMostBytes) {
    ++skipped_;
    Skip(size);
    return {};
  }
  if (Fill(static_cast<size_t>(size)) < size) return Fail(true), std::string_view();
  const std::string_view bytes(buffer_.data() + at_, static_cast<size_t>(size));
  at_ += bytes.size();
  return bytes;
}

void WireStream::Enter() { ends_.push_back(at() + std::exchange(pending_, 0)); }

void WireStream::Leave() {
  const uint64_t end = ends_.back();
  ends_.pop_back();
  pending_ = 0;
  if (!has_ended_ && end > at()) Skip(end - at());
}

void WireStream::Skip(uint64_t count) {
  while (count > 0 && !has_ended_) {
    const size_t step = Fill(static_cast<size_t>(std::min<uint64_t>(count, kStepBytes)));
    if (step == 0) {
      Fail(true);
      return;
    }
    at_ += step;
    count -= step;
  }
}

}  // namespace pitot::read
