// SPDX-License-Identifier: Apache-2.0
//
// A program that ranks the costs in a trace.
#include <cstdio>

#include "pitot/analyze/top.h"

int main() {
  pitot::model::Trace trace;
  trace.window_end_ns = 1000;
  trace.sites.emplace_back();
  trace.sites[0].name = trace.strings.Add("work");
  trace.threads.emplace_back();
  trace.threads[0].event_count = 1;
  trace.events.begin_ns = {100};
  trace.events.duration_ns = {250};
  trace.events.site = {0};
  trace.events.thread = {0};
  trace.events.request = trace.events.batch = trace.events.args = {pitot::model::kNone};
  pitot::analyze::TopOptions options;
  options.by = pitot::analyze::TopBy::kScope;
  pitot::analyze::TopTable table;
  const pitot::Status status = pitot::analyze::FindTop(trace, options, &table);
  if (!status.ok() || table.rows.size() != 1) {
    std::printf("top: %s, %zu rows\n", status.message(), table.rows.size());
    return 1;
  }
  std::printf("%s took %lld ns\n", table.rows[0].name.c_str(), static_cast<long long>(table.rows[0].self_cpu_ns));
  return table.cpu_ns == 250 ? 0 : 1;
}
