// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/operator_patterns.h"

#include <charconv>

#include "analyze/facts/arguments.h"
#include "analyze/facts/calls_within.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/subjects.h"

namespace pitot::facts {

using model::kNone;
using model::Trace;

namespace {

enum class Role : uint8_t { kOther, kChoice, kMaker, kMove, kProduct, kBackward };

// Softmax and the operators that pick from it: servers leave them on the CPU.
constexpr std::string_view kChoices[] = {"aten::softmax", "aten::log_softmax", "aten::argmax",  "aten::topk",
                                         "aten::sort",    "aten::multinomial", "aten::_softmax"};
constexpr std::string_view kMakers[] = {"aten::zeros",    "aten::ones",  "aten::full",  "aten::rand",
                                        "aten::randn",    "aten::fill_", "aten::zero_", "aten::normal_",
                                        "aten::uniform_", "aten::arange"};
constexpr std::string_view kProducts[] = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"};

template <size_t kCount> bool IsOneOf(std::string_view name, const std::string_view (&names)[kCount]) {
  return std::find(names, names + kCount, name) != names + kCount;
}
Role RoleOf(std::string_view name) {
  if (IsOneOf(name, kChoices)) return Role::kChoice;
  if (IsOneOf(name, kMakers)) return Role::kMaker;
  if (IsOneOf(name, kProducts)) return Role::kProduct;
  if (name == "aten::to") return Role::kMove;
  return name.find("Backward") != std::string_view::npos ? Role::kBackward : Role::kOther;
}

class Scan {
 public:
  Scan(const Trace& trace, const model::Indexes& indexes)
      : trace_(trace), calls_(trace, indexes.launches), shapes_(trace, "shapes"), sequence_(trace, "sequence") {
    for (model::StringId name = 0; name < trace.strings.size(); ++name) roles_.push_back(RoleOf(trace.strings[name]));
  }
  OperatorPatterns Take() {
    for (const model::ThreadRow& thread : trace_.threads) OfThread(thread);
    return std::move(found_);
  }

 private:
  void OfThread(const model::ThreadRow& thread) {
    int64_t choice_until_ns = INT64_MIN, made_until_ns = INT64_MIN;
    uint32_t maker = kNone;  // the last operator, if it made a tensor: the next may move it
    for (uint32_t event = thread.first_event; event < thread.first_event + thread.event_count; ++event) {
      if (trace_.sites[trace_.events.site[event]].kind != SiteKind::kOperator) continue;
      const Role role = roles_[EventNameId(trace_, event)];
      const int64_t begin_ns = trace_.events.begin_ns[event], end_ns = trace_.EventEnd(event);
      Context(event, role);
      if (begin_ns >= made_until_ns) {
        if (role == Role::kMove && maker != kNone && Uploads(event))
          found_.copied.Show(maker, {trace_.events.begin_ns[maker], end_ns});
        maker = kNone;
        if (role == Role::kMaker && IsOnHost(event)) maker = event, made_until_ns = end_ns;
      }
      if (role == Role::kChoice && begin_ns >= choice_until_ns) {
        choice_until_ns = end_ns;
        if (IsOnHost(event)) found_.on_host.Show(event, {begin_ns, end_ns});
      }
      if (role == Role::kProduct && IsUnalignedHalf(shapes_.Text(event))) Product(event);
    }
  }

  // Autograd numbers operators if it would follow them back.
  void Context(uint32_t event, Role role) {
    if (trace_.events.request[event] == kNone && trace_.events.batch[event] == kNone) return;
    ++found_.operators_of_requests;
    const model::ArgValue* const sequence = sequence_.Of(event);
    const bool is_numbered = sequence != nullptr && static_cast<int64_t>(*sequence) >= 0;
    if (is_numbered || role == Role::kBackward)
      found_.autograd.Show(event, {trace_.events.begin_ns[event], trace_.EventEnd(event)});
  }
  bool IsOnHost(uint32_t event) const {
    const CallsWithin::Range calls = calls_.OfEvent(event);
    return calls.first == calls.last && trace_.events.duration_ns[event] != model::kOpen;
  }
  bool Uploads(uint32_t event) const {
    bool is_upload = false;
    calls_.EachGpu(event, [&](uint32_t row) {
      is_upload |= trace_.gpu.kind[row] == model::GpuKind::kMemcpy && DirectionOf(trace_, row) == "HtoD";
    });
    return is_upload;
  }
  void Product(uint32_t event) {
    found_.unaligned.Show(event, {trace_.events.begin_ns[event], trace_.EventEnd(event)});
    calls_.EachGpu(event, [&](uint32_t row) { Accumulate(&found_.unaligned_gpu_ns, trace_.gpu.duration_ns[row]); });
  }

  const Trace& trace_;
  const CallsWithin calls_;
  const Argument shapes_, sequence_;
  std::vector<Role> roles_;  // by name
  OperatorPatterns found_;
};

}  // namespace

bool IsUnalignedHalf(std::string_view shapes) {
  bool is_half = false, is_unaligned = false;
  while (!shapes.empty()) {
    const std::string_view tensor = shapes.substr(0, shapes.find(','));
    shapes.remove_prefix(std::min(shapes.size(), tensor.size() + 2));
    const size_t space = tensor.find(' ');
    if (space == std::string_view::npos) continue;  // without dimensions
    const std::string_view type = tensor.substr(space + 1);
    if (type != "f16" && type != "bf16") return false;
    is_half = true;
    const char* const end = tensor.data() + space;
    for (const char* at = tensor.data(); at < end;) {
      int64_t size = 0;
      const auto [next, error] = std::from_chars(at, end, size);
      if (error != std::errc()) return false;
      const bool is_list = next == end && at == tensor.data();  // a bias
      is_unaligned |= !is_list && size % 8 != 0;
      at = next + 1;
    }
  }
  return is_half && is_unaligned;
}

OperatorPatterns FindOperatorPatterns(const Trace& trace, const model::Indexes& indexes) {
  return Scan(trace, indexes).Take();
}

}  // namespace pitot::facts
