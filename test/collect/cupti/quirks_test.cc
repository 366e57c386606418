// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/quirks.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

namespace {

using pitot::cupti::CudaMajorOf;
using pitot::cupti::HasQuirk;
using pitot::cupti::Quirk;
using pitot::cupti::WhyQuirk;

}  // namespace

TEST_CASE("each version of CUPTI has its known quirks, and no others", "[cupti]") {
  struct Version {
    uint32_t number, cuda_major;
    bool is_refused, needs_buffer, has_per_thread_buffers, has_filtered_records;
  };
  const Version version = GENERATE(Version{17, 11, false, true, false, false},      // 11.6
                                   Version{18, 11, false, true, false, false},      // 11.8
                                   Version{19, 12, false, true, false, false},      // 12.0
                                   Version{20, 12, false, true, false, false},      // 12.2
                                   Version{21, 12, false, true, true, false},       // 12.3
                                   Version{22, 12, false, true, true, false},       // 12.4
                                   Version{23, 12, false, true, true, true},        // 12.5
                                   Version{26, 12, false, true, true, true},        // 12.8
                                   Version{27, 12, false, false, true, true},       // 12.9
                                   Version{28, 12, false, false, true, true},       // 12.9 Update 1
                                   Version{130000, 13, true, false, true, true},    // 13.0
                                   Version{130001, 13, false, false, true, true},   // 13.0 Update 1
                                   Version{130100, 13, false, false, true, true},   // 13.1
                                   Version{130400, 13, false, false, true, true});  // 13.4
  INFO(version.number);

  CHECK(HasQuirk(version.number, Quirk::kRefused) == version.is_refused);
  CHECK(HasQuirk(version.number, Quirk::kNeedsBuffer) == version.needs_buffer);
  CHECK(HasQuirk(version.number, Quirk::kNoPerThreadBuffers) != version.has_per_thread_buffers);
  CHECK(HasQuirk(version.number, Quirk::kNoFilteredRecords) != version.has_filtered_records);
  CHECK(CudaMajorOf(version.number) == version.cuda_major);
}

TEST_CASE("a refused version has a reason, and the version to install", "[cupti]") {
  CHECK_THAT(WhyQuirk(130000, Quirk::kRefused), Catch::Contains("deadlock") && Catch::Contains("13.0 Update 1"));
}
