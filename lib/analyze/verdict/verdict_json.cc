// SPDX-License-Identifier: Apache-2.0
//
// Verdicts for programs: rows become ids and names, which have a meaning outside of the trace.
#include "analyze/blame/index_data.h"
#include "analyze/facts/unusual_arguments.h"
#include "analyze/verdict/gpu_evidence.h"
#include "analyze/verdict/namespace.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/proof.h"
#include "analyze/verdict/verdict_words.h"
#include "base/columns.h"
#include "base/json.h"
#include "model/host_language.h"
#include "model/ncu_command.h"
#include "model/request_text.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/drift.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {
namespace {

using base::Json;
using base::RequestId;
using model::kNone;
using model::Trace;

// What fired, in an incident.
struct FiredWords {
  const Asked* asked = nullptr;  // null: it is not said
  std::string sentence;
};

class Writer {
 public:
  // Without a verdict `blame` is empty.
  Writer(const BlameIndex& index, const RequestBlame& blame, const FiredWords& fired)
      : index_(index), trace_(index.data()->index.trace), blame_(blame), fired_(fired) {}

  std::string WriteWithout(const std::string& why_not, const Drift* drifts, size_t drift_count) {
    json_.Begin('{');
    json_.Key("summary").Text(fired_.sentence.empty() ? why_not : fired_.sentence);
    Fired();
    json_.Key("verdict").Text("none");
    json_.Key("why_not").Text(why_not);
    Drifts(drifts, drift_count);
    json_.End();
    return json_.text() + "\n";
  }

  std::string Write(const Verdict& v, const Drift* drifts, size_t drift_count) {
    json_.Begin('{');
    json_.Key("summary").Text(fired_.sentence.empty() ? VerdictSentence(index_, blame_, v) : fired_.sentence);
    Fired();
    Request();
    json_.Key("verdict").Text(VerdictKindName(v.kind));
    json_.Key("why_not");
    v.why_not.empty() ? json_.Null() : json_.Text(v.why_not);
    json_.Key("latency_ns").Int(v.latency_ns);
    json_.Key("typical_ns").Int(v.typical_ns);
    json_.Key("percentile").Real(v.percentile);
    Normal(v);
    MoreOfAll(v);
    Others(v);
    if (*v.advice.code != '\0') Say(v.advice);
    RootOf(v);
    Causes("causes", v.causes, v.latency_ns);
    Causes("largest", v.largest, v.latency_ns);
    json_.Key("joint_saving_ns").Int(v.joint_saving_ns);
    Drags(v.drags);
    json_.Key("rest_ns").Int(v.rest_ns);
    json_.Key("unnamed").Int(v.unnamed);
    json_.Key("unnamed_ns").Int(v.unnamed_ns);
    Tree(v);
    Parts("blame_ns", blame_.blame);
    Parts("normal_ns", v.normal);
    json_.Key("segments").Begin('[');
    for (const BlameSegment& segment : blame_.segments) Segment(segment);
    json_.End();
    Drifts(drifts, drift_count);
    Quality();
    json_.End();
    return json_.text() + "\n";
  }

 private:
  void Name(const char* key, model::StringId id) { json_.Key(key).Text(trace_.strings[id]); }

  void Fired() {
    if (fired_.asked == nullptr || fired_.asked->kind == FiredKind::kNothing) return;
    const Asked& asked = *fired_.asked;
    const model::FiringRow& first = trace_.firings[0];
    json_.Key("fired").Begin('{');
    json_.Key("kind").Text(FiredKindName(asked.kind));
    Name("cause", first.cause);
    Name("detail", first.detail);
    if (asked.kind == FiredKind::kFailure)
      json_.Key("outcome").Text(OutcomeName(trace_.requests[asked.request].outcome));
    if (asked.event != kNone) {
      json_.Key("scope").Text(trace_.EventName(asked.event));
      json_.Key("thread").Text(ThreadName(trace_, trace_.events.thread[asked.event]));
      json_.Key("open_ns").Int(trace_.EventEnd(asked.event) - trace_.events.begin_ns[asked.event]);
    }
    json_.End();
  }

  void Drifts(const Drift* drifts, size_t drift_count) {
    json_.Key("drifts").Begin('[');
    for (size_t i = 0; i < drift_count; ++i) Slower(drifts[i]);
    json_.End();
  }

  void Request() {
    const model::RequestRow& row = trace_.requests[blame_.request];
    json_.Key("request").Text(RequestId(row.id));
    Name("host_id", row.host_id);
    Name("route", row.route);
    json_.Key("is_open").Bool(row.duration_ns == model::kOpen);
    json_.Key("outcome").Text(model::OutcomeText(row));
    Name("reason", row.reason);
    if (blame_.token != kNone) json_.Key("token_ns").Int(trace_.tokens[blame_.token].at_ns - row.begin_ns);
  }

  // The requests it was compared with.
  void Normal(const Verdict& v) {
    json_.Key("baseline").Begin('{');
    json_.Key("level").Text(LevelName(v.level));
    json_.Key("requests").Int(v.baseline_size);
    json_.Key("is_kept").Bool(v.is_baseline_kept);
    json_.Key("is_coarse").Bool(v.is_coarse);
    json_.Key("alpha").Real(v.alpha);
    json_.Key("least_p").Real(v.least_p);
    json_.End();
  }

  // Reasons that make all parts longer: more work, a factor common to them, low clocks.
  void MoreOfAll(const Verdict& v) {
    if (!v.more_of.empty()) {
      json_.Key("more_work").Begin('{');
      json_.Key("of").Text(v.more_of);
      json_.Key("factor").Real(v.more_factor);
      json_.Key("more_ns").Int(v.more_ns);
      json_.End();
    }
    if (v.of_route.requests != 0) {
      json_.Key("size_of_route").Begin('{');
      Name("name", v.of_route.name);
      json_.Key("size").Real(v.of_route.size);
      json_.Key("usual_size").Real(v.of_route.usual);
      json_.Key("usual_ns").Int(v.of_route.usual_ns);
      json_.Key("more_ns").Int(v.of_route.more_ns);
      json_.Key("requests").Int(v.of_route.requests);
      json_.Key("percentile").Real(v.of_route.percentile);
      json_.End();
    }
    json_.Key("common_factor").Real(v.common_factor);
    json_.Key("common_ns").Int(v.common_ns);
    if (!v.clocks.empty()) json_.Key("clocks").Text(v.clocks);
  }

  // Requests like it that were slow, too, and a tool that made them so.
  void Others(const Verdict& v) {
    if (v.like != 0) {
      json_.Key("slow_too").Begin('{');
      json_.Key("requests").Int(v.like);
      json_.Key("median_ns").Int(v.like_median_ns);
      json_.End();
    }
    if (v.meanwhile != 0) {
      json_.Key("meanwhile").Begin('{');
      json_.Key("requests").Int(v.meanwhile);
      json_.Key("slow").Int(v.meanwhile_slow);
      json_.End();
    }
    if (const ProfiledTime profiled = FindProfiles(trace_, blame_); profiled.runs != 0) {
      json_.Key("profiled").Begin('{');
      json_.Key("runs").Int(profiled.runs);
      json_.Key("begin_ns").Int(profiled.begin_ns);
      json_.Key("end_ns").Int(profiled.end_ns);
      json_.End();
    }
  }

  void Drags(const std::vector<Drag>& drags) {
    json_.Key("drags").Begin('[');
    for (const Drag& drag : drags) {
      json_.Begin('{');
      json_.Key("segment").Int(drag.segment);
      json_.Key("drag_ns").Int(drag.ns);
      json_.End();
    }
    json_.End();
  }

  void Quality() {
    json_.Key("quality").Begin('{');
    json_.Key("reliable").Bool(blame_.is_reliable);
    json_.Key("losses").Int(static_cast<int64_t>(blame_.losses));
    json_.Key("clamps").Int(static_cast<int64_t>(blame_.clamps));
    json_.Key("clamped_ns").Int(blame_.clamped_ns);
    json_.End();
  }

  // `segment`: one of that wait; null: none is known.
  void By(const Culprit& by, const BlameSegment* segment) {
    if (!by.IsKnown()) {
      json_.Null();
      return;
    }
    json_.Begin('{');
    Thread(by.thread);
    if (by.request != kNone) {
      json_.Key("request").Text(RequestId(trace_.requests[by.request].id));
      Name("host_id", trace_.requests[by.request].host_id);
      Name("route", trace_.requests[by.request].route);
      Labels(trace_.requests[by.request]);
      if (segment != nullptr && segment->by.request == by.request) Work(*segment);
    }
    if (by.batch != kNone) {
      const model::BatchRow& batch = trace_.batches[by.batch];
      json_.Key("batch").Text(RequestId(batch.id));
      Name("executor", batch.executor);
      json_.Key("requests").Begin('[');
      for (uint32_t m = batch.first_member; m < batch.first_member + batch.member_count; ++m) {
        if (trace_.members[m].request != kNone) json_.Text(RequestId(trace_.requests[trace_.members[m].request].id));
      }
      json_.End();
    }
    if (by.event != kNone) json_.Key("event").Text(trace_.EventName(by.event));
    if (const std::string holder = index_.data()->index.interpreter.Text(by.event); !holder.empty())
      json_.Key("holder").Text(holder);
    if (by.gpu != kNone) Name("gpu", trace_.gpu.name[by.gpu]);
    json_.End();
  }

  void Thread(uint32_t row) {
    if (row == kNone) return;
    Name("thread", trace_.threads[row].name);
    if (trace_.threads[row].tid != 0) json_.Key("tid").Int(trace_.threads[row].tid);
  }

  void Labels(const model::RequestRow& request) {
    if (request.labels.empty()) return;
    json_.Key("labels").Begin('{');
    for (const model::Label& label : request.labels)
      json_.Key(trace_.strings[label.key]).Text(trace_.strings[label.value]);
    json_.End();
  }

  // The culprit's work in the same batch, if that is why it was long.
  void Work(const BlameSegment& segment) {
    const blame::MixedWork::Part* const part = index_.data()->index.PartBehind(segment);
    if (part == nullptr || part->work == 0) return;
    json_.Key("work").Begin('{');
    json_.Key("amount").Real(part->work);
    json_.Key("typical").Real(part->typical);
    json_.Key("unit").Text(index_.data()->index.mixed_work.UnitOf(trace_.batches[segment.batch].executor));
    json_.End();
  }

  void Say(const Advice& advice) {
    json_.Key("advice").Begin('{');
    json_.Key("code").Text(advice.code);
    json_.Key("text").Text(model::InHostLanguage(trace_, advice.text));
    json_.End();
  }

  void Causes(const char* key, const std::vector<Cause>& causes, int64_t latency_ns) {
    json_.Key(key).Begin('[');
    for (const Cause& cause : causes) {
      json_.Begin('{');
      json_.Key("blame").Text(BlameName(cause.blame));
      json_.Key("blame_ns").Int(cause.blame_ns);
      json_.Key("normal_ns").Int(cause.normal_ns);
      json_.Key("common_ns").Int(cause.common_ns);
      json_.Key("excess_ns").Int(cause.excess_ns);
      json_.Key("lost_ns").Int(cause.lost_ns);
      json_.Key("share").Real(cause.share);
      json_.Key("p").Real(cause.p);
      json_.Key("p_of_launches").Real(cause.p_of_launches);
      json_.Key("confidence").Real(cause.confidence);
      if (*cause.unsure != '\0') json_.Key("unsure").Text(cause.unsure);
      if (*cause.contradicted_by != '\0') {
        json_.Key("contradiction").Begin('{');
        json_.Key("blame").Text(cause.contradicted_by);
        json_.Key("why").Text(cause.contradiction);
        json_.End();
      }
      json_.Key("saving_ns").Int(cause.saving_ns);
      json_.Key("without_ns").Int(cause.without_ns);
      json_.Key("speedup_limit").Real(static_cast<double>(latency_ns) / static_cast<double>(cause.without_ns));
      json_.Key("by");
      By(cause.by, cause.longest.empty() ? nullptr : &blame_.segments[cause.longest[0]]);
      json_.Key("by_ns").Int(cause.by_ns);
      json_.Key("evidence").Text(EvidenceText(index_, blame_, cause));
      json_.Key("segments").Begin('[');
      for (const uint32_t segment : cause.longest) json_.Int(segment);
      json_.End();
      json_.Key("place_ns").Int(cause.place_ns);
      if (!cause.longest.empty()) Arguments(blame_.segments[cause.longest[0]]);
      StacksOf(cause.stacks);
      if (const auto state = GpuStateOf(index_.data()->index, blame_, cause)) GpuMeanwhile(*state);
      Say(cause.advice);
      if (const model::StringId kernel = KernelOf(trace_, blame_, cause); kernel != 0)
        json_.Key("ncu").Text(NcuCommand(trace_, kernel));
      json_.End();
    }
    json_.End();
  }

  void GpuMeanwhile(const blame::GpuState& state) {
    json_.Key("gpu_meanwhile").Begin('{');
    json_.Key("samples").Int(static_cast<int64_t>(state.samples));
    if (state.engine) json_.Key("engine_active").Real(*state.engine);
    if (state.sms) json_.Key("sms_active").Real(*state.sms);
    if (state.instructions) json_.Key("instructions").Real(*state.instructions);
    if (state.tensor) json_.Key("tensor_active").Real(*state.tensor);
    if (state.dram) json_.Key("dram").Real(*state.dram);
    if (state.pcie) json_.Key("pcie_bytes_per_s").Real(*state.pcie);
    if (state.clock) json_.Key("sm_clock_mhz").Real(*state.clock);
    if (state.usual_clock) json_.Key("usual_sm_clock_mhz").Real(*state.usual_clock);
    if (state.others) json_.Key("active_without_requests").Real(*state.others);
    if (state.Bound() != blame::GpuBound::kUnknown) json_.Key("bound_by").Text(blame::GpuBoundName(state.Bound()));
    json_.End();
  }

  // The stage, the root and the load.
  void RootOf(const Verdict& v) {
    if (v.stage.name != 0) {
      json_.Key("stage").Begin('{');
      Name("name", v.stage.name);
      json_.Key("ns").Int(v.stage.ns);
      json_.Key("usual_ns");
      v.stage.usual_ns < 0 ? json_.Null() : json_.Int(v.stage.usual_ns);
      json_.End();
    }
    if (v.root.node == kNone) return;
    json_.Key("root").Begin('{');
    json_.Key("kind").Text(NodeKindName(v.root.kind));
    json_.Key("blame");
    v.root.kind == NodeKind::kMoreWork ? json_.Null() : json_.Text(BlameName(v.root.blame));
    json_.Key("by");
    By(v.root.by, nullptr);
    json_.Key("hops").Int(v.root.hops);
    json_.Key("excess_ns").Int(v.root.excess_ns);
    json_.Key("share").Real(v.root.share);
    json_.Key("confidence").Real(v.root.confidence);
    Say(v.root.advice);
    if (v.root.kind == NodeKind::kLoad && v.load.queue != 0) {
      json_.Key("load").Begin('{');
      Name("queue", v.load.queue);
      json_.Key("ahead").Int(v.load.ahead);
      json_.Key("within_ns").Int(v.load.within_ns);
      json_.Key("threads").Int(v.load.threads);
      json_.End();
    }
    json_.End();
  }

  void Tree(const Verdict& v) {
    if (v.tree.empty()) return;
    json_.Key("tree");
    Node(v, 0);
  }
  void Node(const Verdict& v, uint32_t row) {
    const VerdictNode& node = v.tree[row];
    const bool is_waited =
        node.kind != NodeKind::kRest && node.kind != NodeKind::kCommon && node.kind != NodeKind::kMoreWork;
    json_.Begin('{');
    json_.Key("kind").Text(NodeKindName(node.kind));
    if (is_waited && node.kind != NodeKind::kVictim) json_.Key("blame").Text(BlameName(node.blame));
    if (is_waited) {
      json_.Key("ns").Int(node.ns);
      json_.Key("whole_ns").Int(node.whole_ns);
      json_.Key("normal_ns");
      node.normal_ns < 0 ? json_.Null() : json_.Int(node.normal_ns);
      json_.Key("is_normal_kept").Bool(node.is_normal_kept);
    }
    json_.Key("excess_ns").Int(node.excess_ns);
    if (node.count != 0) json_.Key("count").Int(node.count);
    if (node.by.IsKnown()) {
      json_.Key("by");
      By(node.by, nullptr);
    }
    if (node.for_request != kNone) json_.Key("for_request").Text(RequestId(trace_.requests[node.for_request].id));
    if (node.kind == NodeKind::kPart || node.kind == NodeKind::kGpuWork)
      json_.Key("is_explained").Bool(node.is_explained);
    if (node.kind == NodeKind::kPart && node.at.end_ns > node.at.begin_ns) {
      json_.Key("at");
      Segment(node.at);
      json_.Key("place_ns").Int(node.place_ns);
      Arguments(node.at);
      StacksOf(node.stacks);
    }
    json_.Key("children").Begin('[');
    for (uint32_t child = row + 1; child < v.tree.size(); ++child) {
      if (v.tree[child].parent == row) Node(v, child);
    }
    json_.End();
    json_.End();
  }

  void Parts(const char* key, const BlameVector& blame) {
    json_.Key(key).Begin('{');
    for (uint32_t k = 0; k < kBlames; ++k) {
      if (blame.ns[k] != 0) json_.Key(BlameName(static_cast<Blame>(k))).Int(blame.ns[k]);
    }
    json_.End();
  }

  void Slower(const Drift& drift) {
    json_.Begin('{');
    json_.Key("route").Text(drift.route);
    json_.Key("sizes_from").Int(drift.size_bucket == 0 ? 0 : int64_t{1} << (drift.size_bucket - 1));
    json_.Key("typical_before_ns").Int(drift.before_ns);
    json_.Key("typical_after_ns").Int(drift.after_ns);
    json_.Key("lasts_ns").Int(trace_.window_end_ns - drift.since_ns);
    json_.Key("is_coarse").Bool(drift.is_coarse);
    Parts("before_ns", drift.before);
    Parts("after_ns", drift.after);
    json_.End();
  }

  void Segment(const BlameSegment& segment) {
    json_.Begin('{');
    json_.Key("begin_ns").Int(segment.begin_ns - blame_.begin_ns);
    json_.Key("duration_ns").Int(segment.end_ns - segment.begin_ns);
    json_.Key("blame").Text(BlameName(segment.blame));
    Thread(segment.thread);
    if (segment.event != kNone) json_.Key("event").Text(trace_.EventName(segment.event));
    if (segment.call != kNone) Name("call", trace_.calls.name[segment.call]);
    if (segment.gpu != kNone) Name("gpu", trace_.gpu.name[segment.gpu]);
    if (segment.handoff != kNone) Name("queue", trace_.handoffs[segment.handoff].queue);
    if (segment.batch != kNone) json_.Key("batch").Text(RequestId(trace_.batches[segment.batch].id));
    if (segment.counter != kNone) Name("counter", trace_.counters[segment.counter].name);
    StacksIn(segment);
    if (segment.by.IsKnown()) {
      json_.Key("by");
      By(segment.by, &segment);
    }
    json_.End();
  }

  // Those of its scope, or of one around it, larger than usual.
  void Arguments(const BlameSegment& segment) {
    const facts::UnusualArguments unusual = index_.data()->index.arguments.Find(segment.event);
    if (unusual.all.empty()) return;
    json_.Key("arguments").Begin('[');
    for (const facts::UnusualArgument& one : unusual.all) {
      json_.Begin('{');
      json_.Key("scope").Text(trace_.EventName(unusual.scope));
      Name("name", one.name);
      json_.Key("value").Real(one.value);
      json_.Key("usual").Real(one.usual);
      json_.End();
    }
    json_.End();
  }

  // Where its thread was, by the stacks read meanwhile.
  void StacksIn(const BlameSegment& segment) {
    const blame::Index& index = index_.data()->index;
    const blame::Stacks::Seen seen = index.stacks.Of(segment);
    if (!seen.is_known()) return StacksOf(StacksOfCode(index, {segment}, segment));
    StackPlace place;
    place.event = seen.event;
    place.agree = seen.agree;
    place.count = seen.count;
    StacksAt(index.stacks.Place(seen.event), place);
  }
  void StacksOf(const StackPlace& place) {
    if (place.is_known()) StacksAt(index_.data()->index.stacks.Text(place), place);
  }
  void StacksAt(const std::string& text, const StackPlace& place) {
    const uint32_t event = place.event;
    const blame::Stacks& stacks = index_.data()->index.stacks;
    json_.Key("stacks").Begin('{');
    json_.Key("place").Text(text);
    if (const std::string call = stacks.Call(event); !call.empty()) json_.Key("system_call").Text(call);
    json_.Key("frames").Begin('[');
    for (const std::string& frame : stacks.Frames(event)) json_.Text(frame);
    json_.End();
    json_.Key("agree").Int(place.agree);
    json_.Key("count").Int(place.count);
    if (place.on_cpu != 0) json_.Key("on_cpu").Int(place.on_cpu);
    json_.Key("at_ns").Int(trace_.events.begin_ns[event] - blame_.begin_ns);
    json_.End();
  }

  const BlameIndex& index_;
  const Trace& trace_;
  const RequestBlame& blame_;
  const FiredWords& fired_;
  Json json_;
};

}  // namespace
}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

std::string VerdictJson(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, const Drift* drifts,
                        size_t drift_count) {
  if (index.data() == nullptr || blame.request >= index.data()->index.trace.requests.size()) return "";
  return verdict::Writer(index, blame, {}).Write(verdict, drifts, drift_count);
}

std::string FiredJson(const BlameIndex& index, const Asked& asked, const Judgement* judgement,
                      const std::string& why_not, const Drift* drifts, size_t drift_count) {
  if (index.data() == nullptr) return "";
  const verdict::FiredWords fired{&asked, FiredSentence(index, asked, judgement)};
  if (judgement == nullptr) return verdict::Writer(index, {}, fired).WriteWithout(why_not, drifts, drift_count);
  return verdict::Writer(index, judgement->blame, fired).Write(judgement->verdict, drifts, drift_count);
}

}  // namespace analyze
PITOT_NAMESPACE_END
