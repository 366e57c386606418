// SPDX-License-Identifier: Apache-2.0
//
// A black box in memory, for the last rows of collectors, without a recorder.
#ifndef PITOT_TEST_FAKES_OWN_BOX_H_
#define PITOT_TEST_FAKES_OWN_BOX_H_

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "snapshot/box_reader.h"
#include "trace/box.h"
#include "trace/last_rows.h"
#include "trace/parent_only.h"

namespace fakes {

class OwnBox {
 public:
  OwnBox() {
    REQUIRE(pitot::trace::MakeParentOnly());
    REQUIRE(box_.Begin());
    pitot::trace::BoxHeader* const header = box_.header();
    std::memcpy(header->magic, pitot::trace::kBoxMagic, sizeof header->magic);
    header->version = pitot::trace::kBoxVersion;
    header->bytes = sizeof *header;
    REQUIRE(pitot::trace::WriteLastRowsTo(&box_, 1 << 20));
  }
  ~OwnBox() {
    pitot::trace::WriteLastRowsTo(nullptr, 0);
    close(fd_);
  }
  OwnBox(const OwnBox&) = delete;
  OwnBox& operator=(const OwnBox&) = delete;

  struct Work {
    std::string name;
    pitot::trace::LastWork row;
  };
  std::vector<Work> WorkNow() const {
    pitot::snapshot::BoxReader reader;
    REQUIRE(std::string(reader.Open(fd_)) == "");
    const std::vector<std::string> texts = reader.LastTexts();
    std::vector<Work> all;
    for (const pitot::trace::LastWork& row : reader.LastWork())
      all.push_back({row.name != 0 ? texts.at(row.name - 1) : "", row});
    return all;
  }
  // By "name, unit".
  std::map<std::string, std::vector<double>> ValuesNow() const {
    pitot::snapshot::BoxReader reader;
    REQUIRE(std::string(reader.Open(fd_)) == "");
    const std::vector<std::string> texts = reader.LastTexts();
    std::map<std::string, std::vector<double>> all;
    for (const pitot::trace::LastValue& row : reader.LastValues())
      all[texts.at(row.name - 1) + ", " + texts.at(row.unit - 1)].push_back(row.value);
    return all;
  }

 private:
  const int fd_ = memfd_create("box", MFD_CLOEXEC);
  pitot::trace::Box box_{fd_, 8 << 20};
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_OWN_BOX_H_
