// SPDX-License-Identifier: Apache-2.0
//
// Shared by the fuzzers. Each fuzzer is one file with LLVMFuzzerTestOneInput, and with WriteCorpus if
// PITOT_CORPUS_WRITER is defined. Together with corpus_main.cc the latter is a program for machines without libFuzzer.
#ifndef PITOT_TEST_FUZZ_FUZZ_H_
#define PITOT_TEST_FUZZ_FUZZ_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fuzz {

inline void Require(bool is_true, const char* what, const char* why) {
  if (is_true) return;
  fprintf(stderr, "%s: %s\n", what, why);
  abort();
}

// False if the file was not written.
inline bool WriteFile(const std::string& path, const std::string& bytes) {
  FILE* const file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool is_written = fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return fclose(file) == 0 && is_written;
}

// Writes the initial inputs into an existing folder. False if one was not written.
bool WriteCorpus(const std::string& folder);

}  // namespace fuzz

#endif  // PITOT_TEST_FUZZ_FUZZ_H_
