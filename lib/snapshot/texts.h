// SPDX-License-Identifier: Apache-2.0
//
// Names, sites and literals, by their numbers and addresses in records: those of this process, or those in a black box.
#ifndef PITOT_LIB_SNAPSHOT_TEXTS_H_
#define PITOT_LIB_SNAPSHOT_TEXTS_H_

#include <cstdint>
#include <string>

#include "snapshot/site_reader.h"

namespace pitot::snapshot {

class Texts {
 public:
  virtual std::string Name(uint32_t index) const = 0;
  virtual SiteText Site(uint64_t address) const = 0;
  // False: it is gone.
  virtual bool Literal(uint64_t address, std::string* text) const = 0;
  // The site of threads' ends (trace::Record::kThreadEnd). 0: it is not known.
  virtual uint64_t ThreadEndSite() const = 0;

 protected:
  ~Texts() = default;
};

// This process's. Lives as long as it.
const Texts& OwnTexts();

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_TEXTS_H_
