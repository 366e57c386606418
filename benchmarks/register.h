// SPDX-License-Identifier: Apache-2.0
//
// The groups of benchmarks, each in a file of its own.
#ifndef PITOT_BENCHMARKS_REGISTER_H_
#define PITOT_BENCHMARKS_REGISTER_H_

#include <cstdint>

namespace pitot::benchmarks {

void RegisterScopes();
void RegisterRequests();
void RegisterMemory();
void RegisterNvtx();
void RegisterHost();
void RegisterIncidents();
void RegisterGpuRecords();
void RegisterWhy();

// Compresses as PerfettoOptions::compress wants it; null if this build has no zlib.
using Compress = uint64_t (*)(void* context, const void* data, uint64_t size, void* out, uint64_t capacity);
Compress ZlibCompress();

}  // namespace pitot::benchmarks

#endif  // PITOT_BENCHMARKS_REGISTER_H_
