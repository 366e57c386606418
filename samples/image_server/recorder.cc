// SPDX-License-Identifier: Apache-2.0
//
// Triggers are added here, collectors in server_common/recording.cc.
#include "image_server/recorder.h"

#include <algorithm>

#include "image_server/classifier.h"

namespace image_server {

pitot::Recorder StartRecorder(const Options& options) {
  const bool uses_cuda = UsesCuda(options.classifier);
  pitot::Options recording = pitot::Options::FromEnvironment();
  if (uses_cuda) recording = server_common::WithRoomForOperators(recording);
  pitot::Recorder recorder = server_common::StartRecorder(recording, options.recording, uses_cuda);
  if (!recorder.status().ok() || !options.recording.trigger) return recorder;

  // A request above the objective.
  pitot::LatencyTriggerOptions objective;
  objective.route = "/classify";
  objective.above_ms = options.slo_ms;
  (void)recorder.Add(pitot::MakeLatencyTrigger(objective));

  // Several requests within a short time are slow for their size, although they meet the objective.
  pitot::LatencyTriggerOptions unusual;
  unusual.route = "/classify";
  unusual.or_above_quantile = 0.995;
  unusual.k = 3;
  unusual.n = 32;
  unusual.cool_down_ms = 10'000;
  (void)recorder.Add(pitot::MakeLatencyTrigger(unusual));

  // A failed request, and a request without an end.
  (void)recorder.Add(pitot::MakeFailureTrigger({}));
  pitot::StallTriggerOptions stall;
  stall.request_open_ms = std::max(1000.0, 20 * options.slo_ms);
  (void)recorder.Add(pitot::MakeStallTrigger(stall));
  return recorder;
}

}  // namespace image_server
