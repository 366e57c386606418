// SPDX-License-Identifier: Apache-2.0
//
// Triggers are added here, collectors in server_common/recording.cc.
#include "decode_server/recorder.h"

#include <algorithm>

#include "decode_server/transformer.h"

namespace decode_server {

pitot::Recorder StartRecorder(const Options& options) {
  const pitot::Options recording = server_common::WithRoomForOperators(pitot::Options::FromEnvironment());
  pitot::Recorder recorder = server_common::StartRecorder(recording, options.recording, UsesCuda(options.transformer));
  if (!recorder.status().ok() || !options.recording.trigger) return recorder;

  // A late first token, or a gap between tokens.
  pitot::TokensTriggerOptions tokens;
  tokens.route = "/generate";
  tokens.first_token_above_ms = options.first_token_slo_ms;
  tokens.gap_above_ms = options.gap_slo_ms;
  (void)recorder.Add(pitot::MakeTokensTrigger(tokens));

  // A slow request; how long it may take depends on its tokens.
  pitot::LatencyTriggerOptions objective;
  objective.route = "/generate";
  objective.above_ms = options.slo_ms;
  (void)recorder.Add(pitot::MakeLatencyTrigger(objective));

  // A failed request, and a request without an end.
  (void)recorder.Add(pitot::MakeFailureTrigger({}));
  pitot::StallTriggerOptions stall;
  stall.request_open_ms = std::max(10'000.0, 3 * options.slo_ms);
  (void)recorder.Add(pitot::MakeStallTrigger(stall));
  return recorder;
}

}  // namespace decode_server
