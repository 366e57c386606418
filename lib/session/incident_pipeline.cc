// SPDX-License-Identifier: Apache-2.0
//
// Session on the worker: makes traces of copies, has them written, tells the host.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "assemble/assemble.h"
#include "base/message.h"
#include "pitot/recorder.h"
#include "session/overhead.h"
#include "session/session.h"

namespace pitot::session {
namespace {

using base::Error;

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

void Session::Work() noexcept {
  pthread_setname_np(pthread_self(), "pitot-work");
  pace_.Enter();
  while (std::unique_ptr<Incident> copied = handover_.Await()) {
    TakeCopied(std::move(copied));
    judging_.JudgeWaiting();
    pace_.Calm();
    handover_.Done();
  }
}

// Writes the copied incident, or learns from the sample.
void Session::TakeCopied(std::unique_ptr<Incident> incident) noexcept {
  if (incident->is_sample)
    judging_.Learn([&] { return TakeTrace(incident.get()); });
  else
    WriteIncident(std::move(incident));
}

// Writes a waiting incident, or learns from a sample, in the middle of other work. False: none waits.
bool Session::WriteWaiting() noexcept {
  const Awake awake(pace_.priority());
  std::unique_ptr<Incident> waiting = handover_.TakeWaiting();
  if (waiting == nullptr) return false;
  TakeCopied(std::move(waiting));
  pace_.Calm();
  return true;
}

// The trace of a copy. Frees the copy's room, so the next incident may be copied while this one is written.
model::Trace Session::TakeTrace(Incident* incident) {
  const struct Room {
    ~Room() {
      incident->snapshot = {};
      session->reserve_.GiveBackPages();
      const Awake awake(session->pace_.priority());
      session->handover_.FreeReserve();
    }
    Session* session;
    Incident* incident;
  } room{this, incident};
  return MakeTrace(*incident);
}

model::Trace Session::MakeTrace(const Incident& incident) {
  // A thread that hangs in one and was left by Stop must not call the next.
  const HostCalls::Entry entry(&host_);
  const std::span<Collector* const> collectors(incident.collectors);
  model::Trace trace =
      assemble::Assemble(incident.snapshot, RowBytes(split_), entry.is_allowed() ? collectors : collectors.first(0));
  trace.process_name = trace.strings.Add(options_.process_name);
  for (const QueuedFiring& firing : incident.firings) {
    model::FiringRow row;
    row.at_ns = incident.snapshot.clock.Ns(firing.at_ticks);
    row.request_id = firing.request;
    row.cause = trace.strings.Add(firing.cause);
    row.detail = trace.strings.Add(firing.detail);
    trace.firings.push_back(row);
  }
  std::stable_sort(trace.firings.begin(), trace.firings.end(), [](auto& a, auto& b) { return a.at_ns < b.at_ns; });
  AddAttributes(incident, &trace);
  return trace;
}

void Session::AddAttributes(const Incident& incident, model::Trace* trace) {
  const auto add = [trace](const char* key, const std::string& value) {
    trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(value)});
  };
  const Stats stats = [this] {
    const Awake awake(pace_.priority());  // takes locks that the host's threads need, too
    return meter_.Count();
  }();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  add("pitot.version", Version());
  add("host", host);
  add("incident.number", std::to_string(incident.number));
  add("incident.cause", incident.cause);
  if (incident.firings_unlisted != 0) add("incident.firings_unlisted", std::to_string(incident.firings_unlisted));
  add("cost.recording", stats.recording_cpu_percent >= 0
                            ? Format("%.3f", stats.recording_cpu_percent) + " % of the process's CPU time (" +
                                  std::to_string(stats.events_recorded) + " events at " +
                                  Format("%.1f", stats.scope_cost_ns) + " ns, calibrated at the start)"
                            : "unknown");
  add("cost.own_threads", stats.own_threads_cpu_percent >= 0
                              ? Format("%.3f", stats.own_threads_cpu_percent) + " % of the process's CPU time"
                              : "unknown");
  add("memory.budget_bytes", std::to_string(options_.values.memory_budget_bytes));
  add("memory.rings_bytes", std::to_string(stats.memory.rings));
  add("threads.refused", std::to_string(stats.threads_refused));
  add("requests.refused", std::to_string(stats.requests_refused));
  add("requests.abandoned", std::to_string(stats.requests_abandoned));
  add("names.refused", std::to_string(stats.names_refused));
  add("labels.folded", std::to_string(stats.labels_folded));
  add("details.refused", std::to_string(stats.details_refused));
  add("scopes.misnested", std::to_string(stats.scopes_misnested));
  add("incidents.suppressed", std::to_string(stats.incidents_suppressed));
  AddOverhead(incident, depths_.fixed(), options_.values.overhead_budget_percent, trace);
  const Awake awake(pace_.priority());
  for (const auto& [name, why] : depths_.Refused()) add(("collector." + name).c_str(), "refused: " + why);
}

// Logs each reason once; other numbers do not make it another reason.
void Session::SayWhatIsNotRecorded(const model::Trace& trace) {
  constexpr std::string_view kEnd = ".not_recorded";
  constexpr size_t kMost = 64;
  for (const model::Attribute& attribute : trace.attributes) {
    const std::string_view key = trace.strings[attribute.key];
    if (key.size() <= kEnd.size() || key.substr(key.size() - kEnd.size()) != kEnd) continue;
    const std::string text = std::string(key.substr(0, key.size() - kEnd.size())) +
                             ": not recorded: " + std::string(trace.strings[attribute.value]);
    std::string reason = text;
    reason.erase(
        std::remove_if(reason.begin(), reason.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; }),
        reason.end());
    if (said_.size() >= kMost || !said_.insert(reason).second) continue;
    const Awake awake(pace_.priority());  // the host's log takes locks of its own
    host_.Log(LogLevel::kWarning, text.c_str());
  }
}

void Session::WriteIncident(std::unique_ptr<Incident> taken) noexcept {
  Case written;
  written.incident = std::move(taken);
  const Incident& incident = *written.incident;
  std::string& path = written.path;
  Status& status = written.written;
  pace_.BeginWriting();
  pace_.priority()->BeIdle();
  try {
    pace_.Proceed();
    const model::Trace& trace = written.trace.emplace(TakeTrace(written.incident.get()));
    SayWhatIsNotRecorded(trace);
    if (files_.AreKept()) status = files_.Write(incident, trace, &path);
  } catch (const std::exception& e) {
    files_.Abandon();
    status = Error(StatusCode::kResourceExhausted, "cannot write it: %s", e.what());
  }
  pace_.priority()->BeNormal();
  pace_.EndWriting();
  files_.Conclude(incident, path, status);
  host_.Tell(&Hooks::on_incident, incident, path, status, "");
  if (written.trace && !lifetime_.HasGivenUp() && judging_.HasJudge())
    judging_.Take(std::move(written));
  else
    host_.Tell(&Hooks::on_verdict, incident, path, status, "");
}

}  // namespace pitot::session
