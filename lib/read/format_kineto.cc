// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "pitot/read/kineto.h"
#include "read/formats.h"
#include "read/kineto_builder.h"
#include "read/kineto_names.h"

namespace pitot::read {

void TakeKinetoReport(const KinetoReport& kineto, TraceReport* report) {
  report->is_gzip = kineto.is_gzip;
  report->complete = kineto.complete && kineto.events_bad == 0;
  report->events = kineto.events;
  report->events_bad = kineto.events_bad;
  report->problems = kineto.Problems();
  report->counts = {{"bytes", kineto.bytes},
                    {"events", kineto.events},
                    {"unused", kineto.events_unused},
                    {"bad", kineto.events_bad},
                    {"not_text", kineto.events_not_text},
                    {"as_written", kineto.events_as_written},
                    {"unknown", kineto.events_unknown},
                    {"documents", kineto.documents},
                    {"processes", kineto.processes},
                    {"times_out_of_range", kineto.times_out_of_range},
                    {"durations_negative", kineto.durations_negative},
                    {"correlations_shared", kineto.correlations_shared},
                    {"correlations_mixed", kineto.correlations_mixed},
                    {"gpu_unlinked", kineto.gpu_unlinked},
                    {"gpu_no_time", kineto.gpu_no_time},
                    {"gpu_impossible", kineto.gpu_impossible},
                    {"host_no_time", kineto.host_no_time},
                    {"launches_without_work", kineto.launches_without_work},
                    {"names_unused", kineto.names_unused}};
}

namespace {

// By a member that Kineto writes next to the events, or a kind of its events.
bool IsKineto(const Head& head) {
  static constexpr const char* kMembers[] = {"schemaVersion", "deviceProperties", "traceName", "Trace name"};
  static constexpr const char* kArguments[] = {"External id", "external id", "correlation", "stream", "Input dims"};
  const bool has_argument = std::any_of(std::begin(kArguments), std::end(kArguments),
                                        [&](const char* name) { return head.json.arguments.count(name) != 0; });
  return std::any_of(std::begin(kMembers), std::end(kMembers),
                     [&](const char* member) { return head.json.HasMember(member); }) ||
         std::any_of(head.json.categories.begin(), head.json.categories.end(),
                     [&](const auto& category) { return IsKinetoKind(category.first, has_argument); });
}

Status ReadKinetoFormat(const Input& input, model::Trace* trace, TraceReport* report) {
  KinetoReport kineto;
  Status status =
      input.IsFile() ? ReadKineto(input.path, trace, &kineto) : ParseKineto(input.data, input.size, trace, &kineto);
  TakeKinetoReport(kineto, report);
  if (kineto.says_losses) std::erase(report->lacks, "losses");
  return status;
}

}  // namespace

const Format kKinetoFormat = {"kineto",
                              "Kineto JSON",
                              "JSON of PyTorch's profiler",
                              "PyTorch's profiler",
                              "profile while the model works, and call the schedule's step() if it has one",
                              {"requests and batches", "losses"},
                              {{"op", "record with activities=[ProfilerActivity.CPU]"},
                               {"kernel", "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"},
                               {"call", "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"},
                               {"scope", "name them with torch.profiler.record_function"},
                               {"layer", "name them with torch.profiler.record_function"},
                               {"shapes", "record with record_shapes=True"}},
                              IsKineto,
                              ReadKinetoFormat};

}  // namespace pitot::read
