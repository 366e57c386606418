// SPDX-License-Identifier: Apache-2.0
//
// What rocprofv3 writes of a process that launches two kernels, copies memory and has marks: as JSON, after
// rocprofv3-schema.json, and as the tables of its database, after rocpd_tables.sql (schema 3).
#ifndef PITOT_TEST_READ_ROCPROF_FILE_H_
#define PITOT_TEST_READ_ROCPROF_FILE_H_

#include <string>

namespace read_test {

inline std::string RocprofProcess(int64_t pid) {
  const std::string p = std::to_string(pid);
  return R"json({"metadata":{"pid":)json" + p +
         R"json(,"init_time":1000,"fini_time":9000,"config":{},"command":["app"]},
"agents":[{"size":304,"id":{"handle":700},"type":1,"name":"EPYC","caches":[{"size":1}]},
 {"size":304,"id":{"handle":701},"type":2,"cu_count":304,"simd_per_cu":4,"max_waves_per_simd":8,"wave_front_size":64,
  "lds_size_in_kb":64,"gfx_target_version":90402,"name":"gfx942","product_name":"AMD Instinct MI300X","mem_banks":[]}],
"counters":[],
"strings":{"callback_records":[],"buffer_records":[{"kind":"NONE","operations":[]},
 {"kind":"HIP_RUNTIME_API","operations":["none","hipLaunchKernel","hipMemcpy"]},
 {"kind":"MARKER_CORE_API","operations":["none","roctxRangePushA","roctxMarkA"]},
 {"kind":"KERNEL_DISPATCH","operations":["none","dispatch"]},
 {"kind":"MEMORY_COPY","operations":["none","MEMORY_COPY_HOST_TO_DEVICE"]},
 {"kind":"RCCL_API","operations":["ncclAllReduce"]}],
 "marker_api":[{"key":1,"value":"step \"7\""},{"key":9,"value":"here"}]},
"code_objects":[],
"kernel_symbols":[{"size":96,"kernel_id":0,"kernel_name":""},{"size":96,"kernel_id":5,"kernel_name":"_Z4gemmPf.kd",
 "formatted_kernel_name":"gemm(float*)","group_segment_size":64,"arch_vgpr_count":24,"accum_vgpr_count":8}],
"summary":[],
"callback_records":{"counter_collection":[]},
"buffer_records":{"kernel_dispatch":[
 {"size":120,"kind":3,"operation":1,"thread_id":101,"correlation_id":{"internal":2,"external":0},
  "start_timestamp":2000,"end_timestamp":2400,"dispatch_info":{"size":64,"agent_id":{"handle":701},
  "queue_id":{"handle":3},"kernel_id":5,"dispatch_id":1,"group_segment_size":1088,
  "workgroup_size":{"x":256,"y":1,"z":1},"grid_size":{"x":1025,"y":2,"z":1}},"stream_id":{"handle":0}},
 {"size":120,"kind":3,"operation":1,"thread_id":101,"correlation_id":{"internal":3,"external":0},
  "start_timestamp":2100,"end_timestamp":2150,"dispatch_info":{"size":64,"agent_id":{"handle":701},
  "queue_id":{"handle":4},"kernel_id":6,"dispatch_id":2,"workgroup_size":{"x":64,"y":1,"z":1},
  "grid_size":{"x":64,"y":1,"z":1}},"stream_id":{"handle":0}}],
 "hip_api":[{"size":56,"kind":1,"operation":1,"correlation_id":{"internal":2,"external":0},"start_timestamp":1500,
  "end_timestamp":1550,"thread_id":101},{"size":56,"kind":1,"operation":1,"correlation_id":{"internal":3,"external":0},
  "start_timestamp":1600,"end_timestamp":1650,"thread_id":101},{"size":56,"kind":1,"operation":2,
  "correlation_id":{"internal":4,"external":0},"start_timestamp":2500,"end_timestamp":2900,"thread_id":101}],
 "marker_api":[{"size":56,"kind":2,"operation":1,"correlation_id":{"internal":1,"external":0},"start_timestamp":1400,
  "end_timestamp":3000,"thread_id":101},{"size":56,"kind":2,"operation":2,"correlation_id":{"internal":9,"external":0},
  "start_timestamp":1450,"end_timestamp":1450,"thread_id":101}],
 "rccl_api":[{"size":56,"kind":5,"operation":0,"correlation_id":{"internal":10,"external":0},"start_timestamp":3100,
  "end_timestamp":3200,"thread_id":101}],
 "memory_copy":[{"size":80,"kind":4,"operation":1,"thread_id":101,"correlation_id":{"internal":4,"external":0},
  "start_timestamp":2600,"end_timestamp":2800,"dst_agent_id":{"handle":701},"src_agent_id":{"handle":700},
  "bytes":4096,"stream_id":{"handle":0}}]}})json";
}
inline std::string RocprofJson() { return "{\"rocprofiler-sdk-tool\": [" + RocprofProcess(100) + "]}"; }

// The same without RCCL. `ending` is that of the tables' names.
inline std::string RocpdSql(const std::string& ending, int64_t pid) {
  const std::string p = std::to_string(pid);
  const auto table = [&](const char* name, const std::string& columns, const std::string& rows) {
    const std::string full = std::string(name) + ending;
    return "CREATE TABLE \"" + full +
           "\" (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, guid TEXT DEFAULT 'g' NOT NULL, " + columns +
           "); INSERT INTO \"" + full + "\" VALUES " + rows + ";";
  };
  return table("rocpd_string", "string TEXT NOT NULL",
               "(1,'g',''),(2,'g','HIP_RUNTIME_API'),(3,'g','hipLaunchKernel'),(4,'g','hipMemcpy'),"
               "(5,'g','MARKER_CORE_RANGE_API'),(6,'g','roctxThreadRangeA'),(7,'g','KERNEL_DISPATCH'),"
               "(8,'g','MEMORY_COPY'),(9,'g','MEMORY_COPY_HOST_TO_DEVICE')") +
         table("rocpd_info_process", "nid INTEGER, ppid INTEGER, pid INTEGER NOT NULL, init BIGINT, command TEXT",
               "(" + p + ",'g',1,1," + p + ",1000,'app --fast')") +
         table("rocpd_info_thread", "nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, name TEXT",
               "(101,'g',1,1," + p + ",101,'worker')") +
         table(
             "rocpd_info_agent",
             "nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, name TEXT, product_name TEXT, extdata JSONB",
             "(0,'g',1," + p + ",'CPU',0,'EPYC','EPYC','{}'),(1,'g',1," + p +
                 ",'GPU',1,'gfx942','AMD Instinct MI300X','{\"cu_count\": 304, \"simd_per_cu\": 4, "
                 "\"max_waves_per_simd\": 8, \"wave_front_size\": 64, \"lds_size_in_kb\": 64, "
                 "\"gfx_target_version\": 90402, \"caches\": [{\"size\": 1}]}')") +
         table("rocpd_info_kernel_symbol",
               "kernel_name TEXT, display_name TEXT, group_segment_size INTEGER, arch_vgpr_count INTEGER, "
               "accum_vgpr_count INTEGER",
               "(5,'g','_Z4gemmPf.kd','gemm(float*)',64,24,8)") +
         table("rocpd_event", "category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, extdata JSONB",
               "(1,'g',5,1,0,'{\"message\": \"step \\\"7\\\"\"}'),(2,'g',2,2,0,'{}'),(3,'g',2,3,0,'{}'),"
               "(4,'g',2,4,0,'{}'),(5,'g',7,2,2,'{}'),(6,'g',7,3,3,'{}'),(7,'g',8,4,4,'{}'),"
               "(8,'g',5,9,0,'{\"message\": \"here\"}')") +
         table("rocpd_region",
               "nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER, event_id INTEGER",
               "(1,'g',1," + p + ",101,1400,3000,6,1),(2,'g',1," + p + ",101,1500,1550,3,2),(3,'g',1," + p +
                   ",101,1600,1650,3,3),(4,'g',1," + p + ",101,2500,2900,4,4)") +
         table("rocpd_track", "nid INTEGER, pid INTEGER, tid INTEGER, name_id INTEGER", "(1,'g',1," + p + ",101,5)") +
         table("rocpd_sample", "track_id INTEGER, timestamp BIGINT, event_id INTEGER", "(9,'g',1,1450,8)") +
         table("rocpd_kernel_dispatch",
               "nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER, queue_id INTEGER, "
               "stream_id INTEGER, start BIGINT, end BIGINT, group_segment_size INTEGER, workgroup_size_x INTEGER, "
               "workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, "
               "grid_size_z "
               "INTEGER, event_id INTEGER",
               "(1,'g',1," + p + ",101,1,5,3,0,2000,2400,1088,256,1,1,1025,2,1,5),(2,'g',1," + p +
                   ",101,1,6,4,0,2100,2150,0,64,1,1,64,1,1,6)") +
         table(
             "rocpd_memory_copy",
             "nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER, dst_agent_id INTEGER, "
             "src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER",
             "(1,'g',1," + p + ",101,2600,2800,9,1,0,4096,NULL,0,7)") +
         "CREATE VIEW rocpd_string AS SELECT * FROM \"rocpd_string" + ending + "\";";
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_ROCPROF_FILE_H_
