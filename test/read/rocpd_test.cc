// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "read/parse.h"
#include "read/rocprof_file.h"
#include "read/rocprof_work.h"
#include "read/sqlite_file.h"

using namespace read_test;

TEST_CASE("a database of rocprofv3 has calls, work, devices and marks", "[rocpd]") {
  const Read read = Parse(Database(RocpdSql("_0190_aa", 100)));

  REQUIRE(read.status.ok());
  CHECK(read.report.format == "rocpd");
  CHECK(read.Events() == "step \"7\" 1400+1600, here 1450+0");
  CheckRocprofWork(read);
  REQUIRE(read.trace.threads.size() == 1);
  CHECK(read.Name(read.trace.threads[0].name) == "worker");
  CHECK(read.trace.AttributeOf("command") == "app --fast");
}

TEST_CASE("joined databases of rocprofv3 are kept apart", "[rocpd]") {
  std::string second = RocpdSql("_0190_bb", 200);
  second.resize(second.find("CREATE VIEW"));
  const Read read = Parse(Database(RocpdSql("_0190_aa", 100) + second));

  REQUIRE(read.status.ok());
  CHECK(read.trace.gpu.size() == 6);
  REQUIRE(read.trace.devices.size() == 2);
  CHECK(read.Name(read.trace.devices[1].name) == "[pid 200] AMD Instinct MI300X");
  CHECK(read.Count("gpu_unlinked") == 0);
  CHECK(read.Count("correlations_shared") == 0);
}

TEST_CASE("work on a stream of HIP is on that stream, whatever its queue", "[rocpd]") {
  const Read read = Parse(Database(RocpdSql("_x", 100) + "UPDATE rocpd_kernel_dispatch_x SET stream_id = 2;"
                                                         "UPDATE rocpd_memory_copy_x SET stream_id = 2;"));

  REQUIRE(read.trace.streams.size() == 1);
  CHECK(read.trace.streams[0].stream == 2);
}

TEST_CASE("times, places and categories may be in tables of their own", "[rocpd]") {
  const Read read = Parse(Database(R"sql(
    CREATE TABLE rocpd_info_process_x (id INTEGER PRIMARY KEY, pid INTEGER);
    INSERT INTO rocpd_info_process_x VALUES (1, 100);
    CREATE TABLE rocpd_info_agent_x (id INTEGER PRIMARY KEY, type TEXT, name TEXT, extdata TEXT);
    INSERT INTO rocpd_info_agent_x VALUES (4, 'GPU', 'gfx942', '{}');
    CREATE TABLE rocpd_info_kernel_symbol_x (id INTEGER PRIMARY KEY, display_name TEXT);
    INSERT INTO rocpd_info_kernel_symbol_x VALUES (5, 'gemm');
    CREATE TABLE rocpd_string_x (id INTEGER PRIMARY KEY, string TEXT);
    INSERT INTO rocpd_string_x VALUES (1, 'hipLaunchKernel');
    CREATE TABLE rocpd_info_category_x (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO rocpd_info_category_x VALUES (1, 'HIP_RUNTIME_API');
    CREATE TABLE rocpd_timestamp_x (id INTEGER PRIMARY KEY, value BIGINT);
    INSERT INTO rocpd_timestamp_x VALUES (1, 10), (2, 20), (3, 30), (4, 70);
    CREATE TABLE rocpd_track_x (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER,
      stream_id INTEGER, name_id INTEGER);
    INSERT INTO rocpd_track_x VALUES (1, 100, 101, NULL, NULL, NULL, NULL), (2, 100, 101, 4, 1, 3, NULL);
    CREATE TABLE rocpd_event_x (id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, extdata TEXT);
    INSERT INTO rocpd_event_x VALUES (1, 1, 9, '{}'), (2, 7, 9, '{}');
    CREATE TABLE rocpd_region_x (id INTEGER PRIMARY KEY, track_id INTEGER, start_id INTEGER, end_id INTEGER,
      name_id INTEGER, event_id INTEGER);
    INSERT INTO rocpd_region_x VALUES (1, 1, 1, 2, 1, 1);
    CREATE TABLE rocpd_kernel_dispatch_x (id INTEGER PRIMARY KEY, track_id INTEGER, kernel_id INTEGER,
      start_id INTEGER, end_id INTEGER, event_id INTEGER);
    INSERT INTO rocpd_kernel_dispatch_x VALUES (1, 2, 5, 3, 4, 2);)sql"));

  REQUIRE(read.status.ok());
  REQUIRE(read.trace.gpu.size() == 1);
  CHECK(read.trace.gpu.begin_ns[0] == 30);
  CHECK(read.trace.gpu.duration_ns[0] == 40);
  CHECK(read.trace.gpu.call[0] == 0);
  CHECK(read.trace.streams.at(0).stream == 3);
  CHECK(read.Name(read.trace.devices.at(0).name) == "gfx942");
  CHECK(read.trace.threads.at(0).tid == 101);
}

TEST_CASE("a cut database of rocprofv3 is damaged", "[rocpd]") {
  const std::string bytes = Database(RocpdSql("_x", 100));
  for (size_t size = 512; size < bytes.size(); size += 4096) CHECK_FALSE(Parse(bytes.substr(0, size)).status.ok());
}
