// SPDX-License-Identifier: Apache-2.0
//
// Exports of Nsight Systems, after NVIDIA's "SQLite Schema Reference" (schema version 3.28), as SQL. Only columns with
// a meaning for a trace are here.
#ifndef PITOT_TEST_READ_NSYS_FILE_H_
#define PITOT_TEST_READ_NSYS_FILE_H_

#include <string>

namespace read_test {

// A global number of a thread.
inline std::string Thread(int64_t pid, int64_t thread, int64_t machine = 1) {
  return std::to_string(machine << 48 | pid << 24 | thread);
}
inline std::string Process(int64_t pid) { return Thread(pid, 0); }

// 2026-05-24 13:42:50 UTC.
inline constexpr int64_t kNsysStartNs = 1779630170000000000;

inline const std::string kNsysNames = R"sql(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1,'void gemm<float>(float*)'), (2,'gemm'), (3,'_Z4gemmIfEvPf'),
  (4,'cudaLaunchKernel_v7000'), (5,'cudaMemcpyAsync_v3020'), (6,'cuLaunchKernel'), (7,'python'), (8,'poll'),
  (9,'step 7'), (10,'cudaGraphLaunch_v10000'), (11,'cudaStreamSynchronize_v3020'), (12,'cublasSgemm_v2'),
  (13,'Buffer Flush'), (14,'cudaDeviceSynchronize_v3020'), (15,'cudaMemsetAsync_v3020');
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION','2026.4.1'), ('EXPORT_SCHEMA_VERSION','3.28.1');
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT, systemClockNs INTEGER);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779630170000000000, '', '', 5);
)sql";

inline const std::string kNsysRuntime = R"sql(
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
)sql";
inline const std::string kNsysKernel = R"sql(
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
  registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
  dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, graphNodeId INTEGER, graphId INTEGER);
)sql";
inline const std::string kNsysCopies = R"sql(
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);
)sql";
inline const std::string kNsysGpu = R"sql(
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, smCount INTEGER,
  maxRegistersPerSm INTEGER, maxShmemPerSm INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm INTEGER,
  maxRegistersPerBlock INTEGER, computeMajor INTEGER, computeMinor INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL);
INSERT INTO TARGET_INFO_GPU VALUES (0,0,'H100',132,65536,233472,32,64,65536,9,0), (0,1,'L4',58,65536,102400,32,48,65536,8,9);
)sql";
inline const std::string kNsysNvtx = R"sql(
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER,
  domainId INTEGER, uint64Value INTEGER, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT,
  eventId INTEGER NOT NULL PRIMARY KEY);
)sql";

// A process 100 that launches a kernel, copies and sets memory, waits, and has ranges, functions and names.
inline std::string NsysSql() {
  const std::string t = Thread(100, 101), p = Process(100);
  return kNsysNames + kNsysRuntime + kNsysKernel + kNsysCopies + kNsysGpu + kNsysNvtx +
         "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 100);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1100, 0, " +
         t + ", 11, 4, 0, NULL), (1200, 1300, 0, " + t + ", 12, 5, 0, NULL), (1320, 1330, 0, " + t +
         ", 15, 15, 0, NULL), (1400, 2300, 0, " + t +
         ", 13, 11, 0, NULL);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1500, 1900, 0, 1, NULL, 7, 11, " +
         p +
         ", 1, 2, 3, 40, 8, 2, 1, 256, 1, 1, 16, 1024, 8, NULL, NULL);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1950, 2100, 0, 1, 7, 12, " +
         p +
         ", 4096, 1, 0, 2, NULL);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (2110, 2120, 0, 1, 7, 15, " +
         p +
         ", 0, 512, NULL, 2);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId "
         "INTEGER "
         "NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType "
         "INTEGER "
         "NOT NULL, eventId INTEGER NOT NULL);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (1450, 2250, 0, 1, 7, 13, " +
         p +
         ", 3, 0);"
         "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId) VALUES (900, 2500, 59, NULL, " +
         t +
         ", 9), (950, 1350, 59, 'aten::mm, seq = 3, op_id = 5, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]', " +
         t + ", NULL), (1000, NULL, 34, 'first token', " + t +
         ", NULL);"
         "CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid "
         "INTEGER, "
         "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);"
         "INSERT INTO OSRT_API VALUES (2310, 2400, 27, " +
         t +
         ", 8, 0);"
         "CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);"
         "INSERT INTO ThreadNames VALUES (7, 20, " +
         t +
         ");"
         "CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);"
         "INSERT INTO PROCESSES VALUES (" +
         p + ", 100, 'python3');";
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_NSYS_FILE_H_
