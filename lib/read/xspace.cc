// SPDX-License-Identifier: Apache-2.0
//
// The xplane.pb of JAX's, XLA's and TensorFlow's profiler, and of `pitot convert --to xspace`.
#include <algorithm>
#include <string_view>

#include "read/decimal.h"
#include "read/formats.h"
#include "read/xla_rows.h"
#include "read/xspace_file.h"
#include "read/xspace_own.h"

namespace pitot::read {
namespace {

class XlaTarget final : public XSpaceTarget {
 public:
  XlaTarget(model::Trace* trace, TraceReport* report) : rows_(trace, report) {}

  void TakeHeads(const std::vector<XSpacePlaneHead>& planes) override {
    for (size_t plane = 0; plane < planes.size(); ++plane) {
      rows_.NamePlane(static_cast<int64_t>(plane), planes[plane].name);
      for (const auto& [id, name] : planes[plane].lines) rows_.NameLine(static_cast<int64_t>(plane), id, name);
      if (const auto begin_ns = ParseDecimal(planes[plane].StatOf("profile_start_time"), 0)) unix_begin_ns_ = *begin_ns;
    }
  }
  void Take(size_t plane, int64_t line, const ChromeEvent& event) override {
    begin_ns_ = std::min(begin_ns_, *event.begin_ns);
    rows_.Take(static_cast<int64_t>(plane), line, event);
  }
  void Skip() override { rows_.Skip(); }

  void Finish(TraceReport* report) {
    // Times are Unix time, or since the profile began.
    constexpr int64_t kIn2001 = 1'000'000'000'000'000'000;
    if (begin_ns_ >= kIn2001 && begin_ns_ != INT64_MAX) {
      rows_.builder().SetUnixOffset(0);
    } else if (unix_begin_ns_ >= kIn2001) {
      rows_.builder().SetUnixOffset(unix_begin_ns_);
    } else {
      report->lacks.push_back("the date");
    }
    rows_.Finish();
  }

 private:
  XlaRows rows_;
  int64_t begin_ns_ = INT64_MAX, unix_begin_ns_ = 0;
};

bool RecognizesXSpace(const Head& head) { return IsXSpace(head.bytes); }

// Passes the content to one of two readers, by the first plane.
class AnyTarget final : public XSpaceTarget {
 public:
  AnyTarget(model::Trace* trace, TraceReport* report) : xla_(trace, report), own_(trace) {}

  void TakeHeads(const std::vector<XSpacePlaneHead>& planes) override {
    is_own_ = OwnXSpaceTarget::Knows(planes);
    if (is_own_) target_ = &own_;
    target_->TakeHeads(planes);
  }
  void Take(size_t plane, int64_t line, const ChromeEvent& event) override { target_->Take(plane, line, event); }
  void Skip() override { target_->Skip(); }
  bool EndsWithHostName() const override { return target_->EndsWithHostName(); }
  Status Finish(TraceReport* report) {
    if (is_own_) return own_.Finish(report);
    xla_.Finish(report);
    return {};
  }

 private:
  XlaTarget xla_;
  OwnXSpaceTarget own_;
  XSpaceTarget* target_ = &xla_;
  bool is_own_ = false;
};

Status ReadXSpace(const Input& input, model::Trace* trace, TraceReport* report) {
  std::vector<XSpacePlaneHead> planes;
  AnyTarget target(trace, report);
  const Status status = ReadXSpaceFile(input, &planes, &target, report);
  if (!status.ok() && status.code() != StatusCode::kDataLoss) return status;
  const Status made = target.Finish(report);
  return made.ok() ? status : made;
}

}  // namespace

const Format kXSpaceFormat = {"xspace",
                              "XSpace",
                              "XSpaces (xplane.pb)",
                              "JAX's profiler",
                              "profile while the program works, and block_until_ready() before the end",
                              {"requests and batches", "sizes of inputs", "losses"},
                              {{"kernel", "profile a program that runs on a GPU or TPU"},
                               {"scope", "name them with jax.profiler.TraceAnnotation"},
                               {"layer", "name them with jax.named_scope"}},
                              RecognizesXSpace,
                              ReadXSpace};

}  // namespace pitot::read
