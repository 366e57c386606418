// SPDX-License-Identifier: Apache-2.0
//
// The image server's handler (samples/image_server/classify.h) with faults in it: a copy, so that users read one
// without.
#ifndef PITOT_TEST_SCOREBOARD_IMAGE_SERVER_FAULTY_CLASSIFY_H_
#define PITOT_TEST_SCOREBOARD_IMAGE_SERVER_FAULTY_CLASSIFY_H_

#include <cstdint>
#include <string_view>

#include "image_server/classify.h"
#include "scoreboard/image_server/batch_delays.h"
#include "scoreboard/image_server/faults.h"
#include "scoreboard/image_server/preprocessor.h"

namespace image_server {

class FaultyClassify {
 public:
  // `delays` are the hooks of `batcher`. All outlive it.
  FaultyClassify(const ClassifyOptions& options, Preprocessor* preprocessor, Batcher* batcher, BatchDelays* delays,
                 Faults* faults);

  // As Classify, with one more stage after "decode": "look up", in which requests take a shared lock.
  server_common::Reply Handle(std::string_view jpeg, server_common::Exchange& exchange);

 private:
  Image Decode(std::string_view jpeg, uint64_t id);

  const ClassifyOptions options_;
  Preprocessor* const preprocessor_;
  Batcher* const batcher_;
  BatchDelays* const delays_;
  Faults* const faults_;
};

}  // namespace image_server

#endif  // PITOT_TEST_SCOREBOARD_IMAGE_SERVER_FAULTY_CLASSIFY_H_
