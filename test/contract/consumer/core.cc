// SPDX-License-Identifier: Apache-2.0
//
// A minimal server: starts, records, stops.
#include <cstdio>

#include "pitot/pitot.h"

int main() {
  pitot::Options options;
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  if (!recorder.status().ok()) {
    std::printf("start: %s\n", recorder.status().message());
    return 1;
  }
  for (int i = 0; i < 1000; ++i) {
    pitot::Request request = pitot::Request::Begin("/consume");
    PITOT_SCOPE("work", i);
    request.Finish(pitot::Outcome::kOk);
  }
  const pitot::Stats stats = recorder.Stats();
  recorder.Stop();
  std::printf("pitot %s recorded %llu requests\n", pitot::Version(),
              static_cast<unsigned long long>(stats.requests_finished));
  return stats.requests_finished == 1000 ? 0 : 1;
}
