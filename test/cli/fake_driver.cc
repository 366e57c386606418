// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so for tests, loaded in the program's processes and controlled by the environment.
//   FAKE_ON_LOAD, FAKE_ON_INIT  crash; hang; exit; fork (a process that lives on, then crash); print.
//   FAKE_PID                    a file for the process's number, written before any of these.
//   FAKE_INIT                   the result of cuInit; 0 if not set.
//   FAKE_CUDA                   the version, 13000 if not set.
//   FAKE_GPUS                   names, with commas between.
//   FAKE_CAPABILITY             of each GPU, 90 if not set.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::string Get(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr ? value : "";
}
int Number(const char* name, int otherwise) { return Get(name).empty() ? otherwise : atoi(getenv(name)); }

void Do(const std::string& what) {
  if (what.empty()) return;
  if (what == "fork" && fork() == 0) {
    std::ofstream(Get("FAKE_PID")) << getpid() << std::flush;
    sleep(60);
    _exit(0);
  }
  if (what != "fork") std::ofstream(Get("FAKE_PID")) << getpid() << std::flush;
  if (what == "exit") exit(3);
  while (what == "hang") pause();
  if (what != "print") abort();
  printf("step nonsense\n");
  fprintf(stderr, "nonsense\n");
  fflush(stdout);
}

std::vector<std::string> Gpus() {
  std::vector<std::string> names;
  const std::string all = Get("FAKE_GPUS");
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    names.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

__attribute__((constructor)) void OnLoad() { Do(Get("FAKE_ON_LOAD")); }

}  // namespace

FAKE_EXPORT int cuInit(unsigned int) {
  Do(Get("FAKE_ON_INIT"));
  return Number("FAKE_INIT", 0);
}
FAKE_EXPORT int cuDriverGetVersion(int* version) { return *version = Number("FAKE_CUDA", 13000), 0; }
FAKE_EXPORT int cuGetErrorName(int, const char** name) { return *name = "CUDA_ERROR_OF_TESTS", 0; }
FAKE_EXPORT int cuDeviceGetCount(int* count) {
  return *count = static_cast<int>(Gpus().size()), Number("FAKE_INIT", 0);
}
FAKE_EXPORT int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
FAKE_EXPORT int cuDeviceGetName(char* name, int size, int device) {
  snprintf(name, static_cast<size_t>(size), "%s", Gpus()[static_cast<size_t>(device)].c_str());
  return 0;
}
FAKE_EXPORT int cuDevicePrimaryCtxRetain(void** context, int) { return *context = nullptr, 0; }
FAKE_EXPORT int cuDevicePrimaryCtxGetState(int, unsigned int* flags, int* is_active) {
  return *flags = 0, *is_active = 1, 0;
}
FAKE_EXPORT int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  std::fill_n(uuid, 16, static_cast<unsigned char>(0xa0 + device));
  return 0;
}
FAKE_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = Number("FAKE_CAPABILITY", 90);
  return *value = attribute == 75 ? capability / 10 : capability % 10, 0;
}
