// SPDX-License-Identifier: Apache-2.0
//
// The reader of JSON of rocprofv3.
#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kRocprofFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
#include "read/rocprof_file.h"

bool fuzz::WriteCorpus(const std::string& folder) {
  const std::string sample = read_test::RocprofJson();
  return fuzz::WriteFile(folder + "/sample", sample) && fuzz::WriteFile(folder + "/cut", sample.substr(0, 3000)) &&
         fuzz::WriteFile(folder + "/two", sample + "\n" + sample);
}
#endif
