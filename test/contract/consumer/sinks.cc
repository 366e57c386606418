// SPDX-License-Identifier: Apache-2.0
//
// A program with a sink that has nothing to send.
#include <cstdio>

#include "pitot/sinks/otlp.h"

int main() {
  pitot::OtlpSink sink = pitot::OtlpSink::Start({});
  const pitot::Status status = sink.status();
  sink.Stop();
  std::printf("a sink was started: %s\n", status.ok() ? "ok" : status.message());
  return status.ok() && sink.Stats().messages_sent == 0 ? 0 : 1;
}
