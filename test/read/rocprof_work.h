// SPDX-License-Identifier: Apache-2.0
#ifndef PITOT_TEST_READ_ROCPROF_WORK_H_
#define PITOT_TEST_READ_ROCPROF_WORK_H_

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "read/parse.h"

namespace read_test {

// The work of rocprof_file.h, in either form.
inline void CheckRocprofWork(const Read& read) {
  const auto& trace = read.trace;
  REQUIRE(trace.gpu.size() == 3);
  std::string work;
  for (uint32_t row = 0; row < 3; ++row) {
    REQUIRE(trace.gpu.call[row] != pitot::model::kNone);
    work += read.Name(trace.gpu.name[row]) + " by " + read.Name(trace.calls.name[trace.gpu.call[row]]) + " at " +
            std::to_string(trace.calls.begin_ns[trace.gpu.call[row]]) + "; ";
  }
  CHECK(work ==
        "gemm(float*) by hipLaunchKernel at 1500; (unknown kernel) by hipLaunchKernel at 1600; HtoD by hipMemcpy at "
        "2500; ");
  CHECK(trace.gpu.begin_ns == std::vector<int64_t>{2000, 2100, 2600});
  CHECK(trace.gpu.duration_ns == std::vector<int64_t>{400, 50, 200});
  CHECK(trace.gpu.bytes == std::vector<uint64_t>{0, 0, 4096});
  // Queues of the default stream are apart: their work may overlap.
  CHECK(trace.streams.size() == 3);
  // The grid counts threads. The last block is not full.
  const auto& shape = trace.shapes.at(trace.gpu.shape[0]);
  CHECK(shape.grid[0] == 5);
  CHECK(shape.grid[1] == 2);
  CHECK(shape.block[0] == 256);
  CHECK(shape.static_shared_bytes == 64);
  CHECK(shape.dynamic_shared_bytes == 1024);
  CHECK(shape.registers_per_thread == 32);
  REQUIRE(trace.devices.size() == 1);
  CHECK(read.Name(trace.devices[0].name) == "AMD Instinct MI300X");
  CHECK(trace.devices[0].multiprocessors == 304);
  CHECK(trace.devices[0].threads_per_multiprocessor == 2048);
  CHECK(trace.devices[0].threads_per_warp == 64);
  CHECK(trace.devices[0].shared_bytes_per_multiprocessor == 65536);
  CHECK(trace.pid == 100);
  CHECK(trace.clock.realtime_ns == 0);
  CHECK(read.report.problems.find("1 kernel had no name in the file") != std::string::npos);
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_ROCPROF_WORK_H_
