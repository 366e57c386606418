// SPDX-License-Identifier: Apache-2.0
//
// Serializers for tests of the session: one runs the test's code, one lists the events, and one waits for the test.
#ifndef PITOT_TEST_FAKES_SERIALIZERS_H_
#define PITOT_TEST_FAKES_SERIALIZERS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"

namespace fakes {

class CallSerializer final : public pitot::Serializer {
 public:
  using Call = std::function<pitot::Status(const pitot::model::Trace&, pitot::ByteSink&)>;
  CallSerializer(std::string file_name, Call call) : file_name_(std::move(file_name)), call_(std::move(call)) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  pitot::Status Serialize(const pitot::model::Trace& trace, pitot::ByteSink& sink) override {
    return call_(trace, sink);
  }

 private:
  std::string file_name_;
  Call call_;
};

inline std::unique_ptr<pitot::Serializer> MakeCallSerializer(std::string file_name, CallSerializer::Call call) {
  return std::make_unique<CallSerializer>(std::move(file_name), std::move(call));
}

// "events.txt": the trace's inconsistency, or an empty line, and then the names of its events.
inline std::unique_ptr<pitot::Serializer> MakeEventsSerializer() {
  return MakeCallSerializer("events.txt", [](const pitot::model::Trace& trace, pitot::ByteSink& sink) {
    std::string text = pitot::model::FindInconsistency(trace) + "\n";
    for (const EventText& event : Events(trace)) text += event.name + "\n";
    sink.Write(text.data(), text.size());
    return pitot::Status();
  });
}

// A thread of the recorder waits here until the test opens the gate. Shared, because it outlives a recorder that gave
// up waiting.
struct Gate {
  // Called by the recorder's thread.
  void Pass() {
    inside = true;
    WaitUntil([this] { return open.load(); });
    left = true;
  }
  // Called by the test. False if the thread does not arrive.
  bool WaitUntilReached() const {
    return WaitUntil([this] { return inside.load(); });
  }
  std::atomic<bool> inside{false}, open{false}, left{false};
};

// "gate.txt": waits in the middle of writing.
inline std::unique_ptr<pitot::Serializer> MakeGateSerializer(std::shared_ptr<Gate> gate) {
  return MakeCallSerializer("gate.txt", [gate = std::move(gate)](const pitot::model::Trace&, pitot::ByteSink& sink) {
    sink.Write("half", 4);
    gate->Pass();
    sink.Write("whole", 5);
    return pitot::Status();
  });
}

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_SERIALIZERS_H_
