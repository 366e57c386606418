// SPDX-License-Identifier: Apache-2.0
//
// The cost for a host, measured against its targets.
#include "benchmarks/register.h"
#include "benchmarks/rounds.h"

namespace {

void RegisterAll() {
  pitot::benchmarks::RegisterScopes();
  pitot::benchmarks::RegisterRequests();
  pitot::benchmarks::RegisterMemory();
  pitot::benchmarks::RegisterNvtx();
  pitot::benchmarks::RegisterHost();
  pitot::benchmarks::RegisterIncidents();
  pitot::benchmarks::RegisterGpuRecords();
  pitot::benchmarks::RegisterWhy();
}

}  // namespace

int main(int argc, char** argv) { return pitot::benchmarks::Run(argc, argv, RegisterAll); }
