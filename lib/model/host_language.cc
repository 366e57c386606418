// SPDX-License-Identifier: Apache-2.0
#include "model/host_language.h"

#include <algorithm>

namespace pitot::model {
namespace {

constexpr const char* kKey = "host.language";
constexpr const char* kNames[] = {"C++", "C", "Python"};

// In each language. A name comes before those that begin it.
constexpr const char* kCalls[][3] = {
    {"PITOT_WAIT (pitot::Owner)", "pitot_wait_set_owner", "Wait.set_owner"},
    {"PITOT_WAIT", "pitot_wait_begin", "pitot.Wait"},
    {"pitot::gpu::Enable", "pitot_recorder_enable_gpu", "pitot.start(gpu=True)"},
    {"pitot::MakeCuptiCollector", "pitot_recorder_add_cupti", "Recorder.add_cupti"},
    {"MakeCuptiCollector", "pitot_recorder_add_cupti", "Recorder.add_cupti"},
    {"MakeCudaEventCollector", "pitot_recorder_add_cuda_events", "Recorder.add_cuda_events"},
    {"MakeHostCollector", "pitot_recorder_add_host", "Recorder.add_host"},
    {"pitot::host", "pitot_recorder_add_host", "Recorder.add_host"},
    {"Request::Finish with pitot::Outcome::kOk", "pitot_request_finish with PITOT_OUTCOME_OK", "Request.finish()"},
    {"pitot::Emit", "pitot_request_emit", "Request.emit"},
    {"Batch::Leave", "pitot_batch_leave", "Batch.leave"},
    {"Batch::Finish", "pitot_batch_finish", "Batch.finish"},
    {"PITOT_SCOPE", "pitot_scope_begin", "pitot.scope"},
    {"pitot::SetThreadName", "pitot_set_thread_name", "pitot.set_thread_name"},
    {"Batch::Join", "pitot_batch_join_work", "Batch.join"},
    {"Request::SetSize", "pitot_request_set_size", "Request.set_size"},
    {"Recorder::SetDepth", "pitot_recorder_set_depth", "Recorder.set_depth"},
    {"Recorder::Resume", "pitot_recorder_resume", "Recorder.resume"},
    {"Recorder::Pause", "pitot_recorder_pause", "Recorder.pause"},
    {"CuptiOptions::", "pitot_cupti.", "add_cupti's "},
    {"Options::incident_directory", "pitot_options.incident_directory", "pitot.start(incident_directory=...)"},
    {"Options::depth", "pitot_options.depth", "pitot.start(depth=...)"},
};

bool HasThreadOfPython(const Trace& trace) {
  constexpr std::string_view kPython = "python";
  const auto is_python = [&](StringId name) { return trace.strings[name].substr(0, kPython.size()) == kPython; };
  return is_python(trace.process_name) || std::any_of(trace.threads.begin(), trace.threads.end(),
                                                      [&](const ThreadRow& row) { return is_python(row.name); });
}
bool HasSiteIn(const Trace& trace, std::string_view file) {
  return std::any_of(trace.sites.begin(), trace.sites.end(),
                     [&](const SiteRow& site) { return trace.strings[site.file] == file; });
}

HostLanguage HostLanguageOf(const Trace& trace) {
  const std::string_view noted = trace.AttributeOf(kKey);
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (noted == kNames[i]) return static_cast<HostLanguage>(i);
  }
  if (HasThreadOfPython(trace) || HasSiteIn(trace, "pitot/interpreter.h")) return HostLanguage::kPython;
  return HasSiteIn(trace, "pitot/c.h") ? HostLanguage::kC : HostLanguage::kCpp;
}

}  // namespace

void SetHostLanguage(HostLanguage language, Trace* trace) {
  const size_t index = std::min(static_cast<size_t>(language), std::size(kNames) - 1);
  trace->attributes.push_back({trace->strings.Add(kKey), trace->strings.Add(kNames[index])});
}

std::string InHostLanguage(const Trace& trace, std::string_view text) {
  std::string said(text);
  const auto language = static_cast<size_t>(HostLanguageOf(trace));
  if (language == 0) return said;
  for (const auto& call : kCalls) {
    const std::string_view from = call[0], to = call[language];
    for (size_t at = 0; (at = said.find(from, at)) != std::string::npos; at += to.size())
      said.replace(at, from.size(), to);
  }
  return said;
}

void PutAttributesInHostLanguage(Trace* trace) {
  for (Attribute& attribute : trace->attributes)
    attribute.value = trace->strings.Add(InHostLanguage(*trace, trace->strings[attribute.value]));
}

}  // namespace pitot::model
