// SPDX-License-Identifier: Apache-2.0
//
// The reader of exports of Nsight Systems: pages and rows of any content.
#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kNsysFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
#include "read/nsys_file.h"
#include "read/sqlite_file.h"

bool fuzz::WriteCorpus(const std::string& folder) {
  const std::string sample = read_test::Database("PRAGMA page_size=512;" + read_test::NsysSql());
  return fuzz::WriteFile(folder + "/sample", sample) && fuzz::WriteFile(folder + "/cut", sample.substr(0, 6000));
}
#endif
