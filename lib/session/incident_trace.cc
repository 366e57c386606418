// SPDX-License-Identifier: Apache-2.0
#include "session/incident_trace.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "pitot/recorder.h"

namespace pitot::session {
namespace {

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void AddAttribute(const std::string& key, const std::string& value, model::Trace* trace) {
  trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(value)});
}

}  // namespace

void AddFirings(const Incident& incident, model::Trace* trace) {
  for (const QueuedFiring& firing : incident.firings) {
    model::FiringRow row;
    row.at_ns = incident.snapshot.clock.Ns(firing.at_ticks);
    row.request_id = firing.request;
    row.cause = trace->strings.Add(firing.cause);
    row.detail = trace->strings.Add(firing.detail);
    trace->firings.push_back(row);
  }
  std::stable_sort(trace->firings.begin(), trace->firings.end(), [](auto& a, auto& b) { return a.at_ns < b.at_ns; });
}

void AddFacts(const Incident& incident, const Stats& stats, int64_t age_ns, uint64_t budget_bytes,
              model::Trace* trace) {
  const auto add = [trace](const char* key, const std::string& value) { AddAttribute(key, value, trace); };
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
  add("cost.seconds", Format("%.1f", static_cast<double>(age_ns) * 1e-9));
  add("memory.budget_bytes", std::to_string(budget_bytes));
  add("memory.rings_bytes", std::to_string(stats.memory.rings));
  add("threads.refused", std::to_string(stats.threads_refused));
  add("requests.refused", std::to_string(stats.requests_refused));
  add("requests.abandoned", std::to_string(stats.requests_abandoned));
  add("names.refused", std::to_string(stats.names_refused));
  add("labels.folded", std::to_string(stats.labels_folded));
  add("details.refused", std::to_string(stats.details_refused));
  add("scopes.misnested", std::to_string(stats.scopes_misnested));
  add("incidents.suppressed", std::to_string(stats.incidents_suppressed));
}

void AddRefused(const std::map<std::string, std::string>& refused, model::Trace* trace) {
  for (const auto& [name, why] : refused) AddAttribute("collector." + name, "refused: " + why, trace);
}

}  // namespace pitot::session
