// SPDX-License-Identifier: Apache-2.0
//
// Other libraries' events in incidents.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collect/nvtx/capture.h"
#include "collect/nvtx/rig.h"
#include "trace/names.h"

namespace {

namespace abi = pitot::nvtx::abi;
using fakes::Attribute;
using fakes::Captured;
using fakes::EventsNamed;
using fakes::Library;
using fakes::Message;
using fakes::NvtxHost;
using fakes::Registered;
using fakes::Texts;

// Runs a test with every emitting library.
#define FOR_EACH_EMITTER() const char* const path = GENERATE(from_range(fakes::Emitters()))

template <class Value> Emitter::Attributes WithPayload(const char* text, abi::PayloadType type, Value value) {
  Emitter::Attributes attributes = Message(text);
  attributes.payload_type = type;
  std::memcpy(&attributes.payload, &value, sizeof value);
  return attributes;
}

struct NcclPayload {
  uint64_t comm;
  uint64_t bytes;
  int32_t more;
  int32_t unused;
};

Emitter::Attributes WithData(const void* message, const Emitter::PayloadData* data) {
  Emitter::Attributes attributes = Registered(message);
  attributes.payload_type = abi::kPayloadExtension;
  attributes.payload_count = 1;
  attributes.payload = reinterpret_cast<uintptr_t>(data);
  return attributes;
}

}  // namespace

TEST_CASE("a push and a pop are a scope of their thread, in its present work", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  {
    auto request = pitot::Request::Begin("/infer");
    {
      PITOT_SCOPE("forward");
      library->push_a("layer 1");
      library->push_a("conv");
      library->pop();
      library->pop();
    }
    request.Finish(pitot::Outcome::kOk);
  }

  const auto trace = host.Incident();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(Captured(trace) == Texts{"layer 1(domain=(none))", "conv(domain=(none))"});
  const auto around = EventsNamed(trace, "forward").at(0), outer = EventsNamed(trace, "layer 1").at(0),
             inner = EventsNamed(trace, "conv").at(0);
  CHECK(outer.thread == around.thread);
  CHECK(outer.request_id != 0);
  CHECK(outer.request_id == around.request_id);
  CHECK(outer.begin_ns >= around.begin_ns);
  CHECK(inner.begin_ns >= outer.begin_ns);
  CHECK(inner.begin_ns + inner.duration_ns <= outer.begin_ns + outer.duration_ns);
  CHECK(session_test::Contains(Attribute(trace, "nvtx.captured"), "emitter"));
}

TEST_CASE("a range is shown while it is open, with its payload", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  void* const domain = library->create_domain("TensorRT");
  const auto attributes = WithPayload("enqueue", abi::kUint64, uint64_t{7});
  library->domain_push(domain, &attributes);

  const auto trace = host.Incident();
  library->domain_pop(domain);

  CHECK(Captured(trace) == Texts{"enqueue(domain=TensorRT, payload=7)"});
  CHECK(EventsNamed(trace, "enqueue").at(0).duration_ns == pitot::model::kOpen);
}

TEST_CASE("domains, registered strings, payloads and marks are recorded", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  void* const domain = library->create_domain("cuDNN");
  void* const string = library->register_string(domain, "registered");
  const auto registered = Registered(string);
  library->domain_mark(domain, &registered);
  for (const auto& attributes :
       {WithPayload("uint64", abi::kUint64, UINT64_MAX), WithPayload("int64", abi::kInt64, int64_t{-5}),
        WithPayload("double", abi::kDouble, 0.5), WithPayload("uint32", abi::kUint32, UINT32_MAX),
        WithPayload("int32", abi::kInt32, int32_t{-6}), WithPayload("float", abi::kFloat, 0.25f)}) {
    library->mark_ex(&attributes);
    library->push_ex(&attributes);
    library->pop();
  }
  library->mark_a("plain");

  const auto trace = host.Incident();

  CHECK(Captured(trace) == Texts{"registered(domain=cuDNN)", "uint64(domain=(none), payload=18446744073709551615)",
                                 "uint64(domain=(none), payload=18446744073709551615)",
                                 "int64(domain=(none), payload=-5)", "int64(domain=(none), payload=-5)",
                                 "double(domain=(none), payload=0.5)", "double(domain=(none), payload=0.5)",
                                 "uint32(domain=(none), payload=4294967295)",
                                 "uint32(domain=(none), payload=4294967295)", "int32(domain=(none), payload=-6)",
                                 "int32(domain=(none), payload=-6)", "float(domain=(none), payload=0.25)",
                                 "float(domain=(none), payload=0.25)", "plain(domain=(none))"});
}

TEST_CASE("NCCL's payloads are decoded, of this version and of earlier ones", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  void* const domain = library->create_domain("NCCL");
  const NcclPayload payload = {0xabc, 4096, 0, 0};
  const auto push = [&](const char* name, uint64_t schema, const void* data, size_t size) {
    const Emitter::PayloadData part = {abi::kFirstStaticSchema + schema, size, data};
    const auto attributes = WithData(library->register_string(domain, name), &part);
    library->domain_push(domain, &attributes);
    library->domain_pop(domain);
  };
  push("ncclAllReduce", 5, &payload, 24);
  push("ncclAllGather", 4, &payload, 16);
  push("ncclAllToAll", 16, &payload, 16);
  push("ncclSend", 9, &payload.bytes, 16);      // as before communicators were included
  push("ncclAllGather", 4, &payload.bytes, 8);  // the same
  push("ncclAllReduce", 5, &payload, 3);        // too short
  push("ncclAllReduce", 5, nullptr, 24);        // absent
  push("ncclCommInitRank", 0, &payload, 24);    // has no bytes

  const auto trace = host.Incident();

  CHECK(Captured(trace) == Texts{"ncclAllReduce(domain=NCCL, collective=AllReduce, bytes=4096)",
                                 "ncclAllGather(domain=NCCL, collective=AllGather, bytes=4096)",
                                 "ncclAllToAll(domain=NCCL, collective=AlltoAll, bytes=4096)",
                                 "ncclSend(domain=NCCL, collective=Send, bytes=4096)",
                                 "ncclAllGather(domain=NCCL, collective=AllGather, bytes=4096)",
                                 "ncclAllReduce(domain=NCCL)", "ncclAllReduce(domain=NCCL)",
                                 "ncclCommInitRank(domain=NCCL)"});
  CHECK(Attribute(trace, "nvtx.payloads_unknown") == "3");
}

TEST_CASE("each of NCCL's collectives is known by its schema and the size of its payload", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  void* const domain = library->create_domain("NCCL");
  const NcclPayload payload = {0xabc, 4096, 0, 0};
  struct Known {
    uint64_t schema;
    const char* name;
    size_t size;
  };
  Texts expected;
  for (const Known& known : std::vector<Known>{{4, "AllGather", 16},
                                               {5, "AllReduce", 24},
                                               {6, "Broadcast", 24},
                                               {7, "ReduceScatter", 24},
                                               {8, "Reduce", 24},
                                               {9, "Send", 24},
                                               {10, "Recv", 24},
                                               {16, "AlltoAll", 16},
                                               {17, "Gather", 24},
                                               {18, "Scatter", 24}}) {
    const Emitter::PayloadData part = {abi::kFirstStaticSchema + known.schema, known.size, &payload};
    const auto attributes = WithData(library->register_string(domain, known.name), &part);
    library->domain_push(domain, &attributes);
    library->domain_pop(domain);
    expected.push_back(std::string(known.name) + "(domain=NCCL, collective=" + known.name + ", bytes=4096)");
  }
  CHECK(Captured(host.Incident()) == expected);
}

TEST_CASE("payloads of schemas that are not NCCL's are counted, and their ranges recorded", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  if (library->push_payload == nullptr) return;
  void* const domain = library->create_domain("other");
  const NcclPayload payload = {1, 2, 3, 4};
  const Emitter::PayloadData part = {abi::kFirstStaticSchema + 5, sizeof payload, &payload};
  const auto attributes = WithData(library->register_string(domain, "with data"), &part);
  library->domain_push(domain, &attributes);
  library->domain_pop(domain);
  library->push_payload(domain, &part, 1);
  library->push_payload(domain, nullptr, 0);
  library->pop_payload(domain, nullptr, 0);
  library->pop_payload(domain, nullptr, 0);

  const auto trace = host.Incident();

  CHECK(Captured(trace) == Texts{"with data(domain=other)", "(unnamed)(domain=other)", "(unnamed)(domain=other)"});
  CHECK(Attribute(trace, "nvtx.payloads_unknown") == "3");
  CHECK(library->is_enabled(domain) == 1);
  CHECK(library->is_enabled(library->create_domain("pitot")) == 0);
  host.recorder.Stop();
  CHECK(library->is_enabled(domain) == 0);  // payloads need not be made
}

TEST_CASE("a range started and ended by its thread is a scope, in any order with others", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  const uint64_t first = library->start_a("first");
  const uint64_t second = library->start_a("second");
  library->end(first);
  library->end(second);

  const auto trace = host.Incident();

  CHECK(first != 0);
  CHECK(Captured(trace) == Texts{"first(domain=(none))", "second(domain=(none))"});
  CHECK(EventsNamed(trace, "first").at(0).begin_ns <= EventsNamed(trace, "second").at(0).begin_ns);
}

TEST_CASE("a range that ends on another thread is a moment there, with its duration", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  void* const domain = library->create_domain("cuBLAS");
  const auto attributes = Message("handed over");
  const uint64_t id = library->domain_start(domain, &attributes);
  const auto before = host.Incident();
  std::thread([&] {
    pitot::SetThreadName("ender");
    library->domain_end(domain, id);
  }).join();

  const auto trace = host.Incident();

  CHECK(Attribute(before, "nvtx.under_way") == "handed over (cuBLAS)");
  CHECK(Attribute(trace, "nvtx.under_way").empty());
  const auto events = EventsNamed(trace, "handed over");
  REQUIRE(events.size() == 1);
  CHECK(events[0].thread == "ender");
  CHECK(events[0].duration_ns == 0);
  REQUIRE(events[0].args.size() == 4);
  CHECK(events[0].args[2].first == "lasted_ns");
  CHECK(std::stoll(events[0].args[2].second) > 0);
  CHECK(events[0].args[3].first == "begin_thread");
}

TEST_CASE("unbalanced pushes, pops, starts and ends are counted and hurt nothing else", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  library->pop();
  library->end(0);
  library->end(12345);
  void* const domain = library->create_domain("leaks");
  const auto attributes = Message("leaked");
  {
    PITOT_SCOPE("around");
    library->domain_push(domain, &attributes);
  }
  library->domain_pop(domain);
  {
    PITOT_SCOPE("after");
    library->push_a("balanced");
    library->pop();
  }
  const uint64_t twice = library->start_a("twice");
  library->end(twice);
  library->end(twice);

  const auto trace = host.Incident();

  CHECK(Captured(trace) == Texts{"leaked(domain=leaks)", "balanced(domain=(none))", "twice(domain=(none))"});
  CHECK(EventsNamed(trace, "around").size() == 1);
  CHECK(EventsNamed(trace, "after").size() == 1);
  CHECK(Attribute(trace, "nvtx.pops_without_push") == "2");
  CHECK(Attribute(trace, "nvtx.ends_without_start") == "3");
  CHECK(Attribute(trace, "nvtx.never_popped") == "1");
}

TEST_CASE("a push in one domain is not popped by another", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  void *const a = library->create_domain("A"), *const b = library->create_domain("B");
  const auto of_a = Message("of a"), of_b = Message("of b");
  library->domain_push(a, &of_a);
  library->domain_push(b, &of_b);
  library->domain_pop(a);
  const auto between = host.Incident();
  library->domain_pop(b);

  CHECK(EventsNamed(between, "of a").at(0).duration_ns != pitot::model::kOpen);
  CHECK(EventsNamed(between, "of b").at(0).duration_ns == pitot::model::kOpen);
  CHECK(EventsNamed(host.Incident(), "of b").at(0).duration_ns != pitot::model::kOpen);
}

TEST_CASE("strings may be null, freed after the call, overwritten, wide, and of any length", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  library->push_a(nullptr);
  library->pop();
  {
    const auto freed = std::make_unique<std::string>("freed after the call");
    library->push_a(freed->c_str());
  }
  library->pop();
  char text[] = "text 1";
  library->mark_a(text);
  text[5] = '2';
  library->mark_a(text);
  library->mark_a(std::string(1 << 20, 'x').c_str());
  library->push_w(L"wide \u00e4\u20ac\U0001f600");
  library->pop();
  library->push_w(nullptr);
  library->pop();
  library->push_w(std::wstring(1 << 18, L'\u20ac').c_str());
  library->pop();
  const wchar_t no_character[] = {static_cast<wchar_t>(0xd800), static_cast<wchar_t>(0x7fffffff), 0};
  library->push_w(no_character);
  library->pop();
  auto attributes = Message(nullptr);
  library->mark_ex(&attributes);
  attributes.message_type = abi::kNoMessage;
  library->mark_ex(&attributes);

  const auto trace = host.Incident();

  std::string euros;
  for (int i = 0; i < 40; ++i) euros += "\u20ac";
  CHECK(Captured(trace) ==
        Texts{"(unnamed)(domain=(none))", "freed after the call(domain=(none))", "text 1(domain=(none))",
              "text 2(domain=(none))", std::string(120, 'x') + "(domain=(none))",
              "wide \u00e4\u20ac\U0001f600(domain=(none))", "(unnamed)(domain=(none))", euros + "(domain=(none))",
              "\ufffd\ufffd(domain=(none))", "(unnamed)(domain=(none))", "(unnamed)(domain=(none))"});
}

TEST_CASE("numbers appended to operators by PyTorch make no names", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  library->mark_a("aten::mm");
  const uint32_t names = pitot::trace::CountNames();
  for (uint32_t i = 0; i < 2 * pitot::nvtx::kMaxNames; ++i) {
    library->push_a(("aten::mm, seq = " + std::to_string(i) + ", op_id = " + std::to_string(i + 7)).c_str());
    library->pop();
  }
  for (const char* text :
       {"aten::mm, op_id = 12", "aten::mm, seq = 3, sizes = [[2, 3], [3, 4]]",
        "aten::mm, op_id = 4, sizes = [[2, 3]], input_op_ids = [(1,0)]", "step, seq = none", "ncclAllReduce"})
    library->mark_a(text);

  const auto trace = host.Incident();

  CHECK(pitot::trace::CountNames() - names <= 8);
  CHECK(Attribute(trace, "nvtx.names_folded").empty());
  Texts last = Captured(trace);
  last.erase(last.begin(), last.end() - 6);
  CHECK(last == Texts{"aten::mm(domain=(none))", "aten::mm(domain=(none))", "aten::mm(domain=(none))",
                      "aten::mm(domain=(none))", "step, seq = none(domain=(none))", "ncclAllReduce(domain=(none))"});
}

TEST_CASE("a thread of a library without pops shows other libraries' ranges, and counts the cut ones", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  void *const leaks = library->create_domain("leaks"), *const other = library->create_domain("other");
  const auto leaked = Message("leaked"), balanced = Message("balanced");
  for (int i = 0; i < 40; ++i) library->domain_push(leaks, &leaked);
  for (int i = 0; i < 5; ++i) {
    library->domain_push(other, &balanced);
    library->domain_pop(other);
  }
  {
    PITOT_SCOPE("host's");
    library->domain_push(other, &balanced);
    library->domain_pop(other);
  }
  const auto trace = host.Incident();

  CHECK(EventsNamed(trace, "balanced").size() == 6);
  CHECK(Attribute(trace, "nvtx.never_popped") == "9");
  CHECK(trace.losses.empty());
}

TEST_CASE("attributes of a foreign size are read as far as they go", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  auto attributes = WithPayload("whole", abi::kInt32, int32_t{1});
  const auto push_of_size = [&](uint16_t size) {
    // Not a byte more than its size.
    const std::unique_ptr<char[]> memory(new char[std::max<size_t>(size, 4)]);
    attributes.size = size;
    std::memcpy(memory.get(), &attributes, std::min<size_t>(std::max<size_t>(size, 4), sizeof attributes));
    library->push_ex(reinterpret_cast<const Emitter::Attributes*>(memory.get()));
    library->pop();
  };
  push_of_size(200);
  push_of_size(48);
  push_of_size(40);
  push_of_size(16);
  push_of_size(0);
  library->push_ex(nullptr);
  library->pop();

  const auto trace = host.Incident();

  CHECK(Captured(trace) == Texts{"whole(domain=(none), payload=1)", "whole(domain=(none), payload=1)",
                                 "(unnamed)(domain=(none), payload=1)", "(unnamed)(domain=(none))",
                                 "(unnamed)(domain=(none))", "(unnamed)(domain=(none))"});
  CHECK(Attribute(trace, "nvtx.bad_attributes") == "3");
}

TEST_CASE("handles from elsewhere are counted, and their names are unknown", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  int not_a_domain = 0;
  const auto attributes = Message("range");
  const auto foreign = Registered(&not_a_domain);
  library->domain_push(&not_a_domain, &attributes);
  library->domain_pop(&not_a_domain);
  library->mark_ex(&foreign);

  const auto trace = host.Incident();

  CHECK(Captured(trace) == Texts{"range(domain=(other))", "(unknown)(domain=(none))"});
  CHECK(Attribute(trace, "nvtx.unknown_handles") == "3");
}

TEST_CASE("ranges started and never ended are bounded and counted", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  std::vector<uint64_t> ids;
  for (uint32_t i = 0; i < pitot::nvtx::kMaxRangesUnderWay + 10; ++i) ids.push_back(library->start_a("leaked"));
  const auto trace = host.Incident();
  for (const uint64_t id : ids) library->end(id);

  CHECK(Attribute(trace, "nvtx.starts_refused") == "10");
  CHECK(session_test::Contains(Attribute(trace, "nvtx.under_way"), "and 1016 more"));
}

TEST_CASE("a range may start while fewer than the limit are open, in whatever order others ended", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  std::vector<uint64_t> ids;
  for (uint32_t i = 0; i < pitot::nvtx::kMaxRangesUnderWay; ++i) ids.push_back(library->start_a("under way"));
  for (const size_t i : {500, 37, 1000}) {
    library->end(ids[i]);
    ids[i] = library->start_a("started later");
    CHECK(ids[i] != 0);
  }
  CHECK(library->start_a("one too many") == 0);
  const auto trace = host.Incident();
  for (const uint64_t id : ids) library->end(id);

  CHECK(Attribute(trace, "nvtx.starts_refused") == "1");
  CHECK(session_test::Contains(Attribute(trace, "nvtx.under_way"), "and 1016 more"));
}

TEST_CASE("ranges shown as open were open when the rings were copied", "[nvtx]") {
  // Asked before NVTX's collector: at that time the rings are copied, and the incident is written.
  struct Between final : pitot::Collector {
    Between(const Library& of, std::vector<uint64_t>* of_ids) : library(of), ids(*of_ids) {}
    const char* Name() const noexcept override { return "between"; }
    pitot::Status Start() noexcept override { return {}; }
    void Stop() noexcept override {}
    void Keep(int64_t, pitot::KeepFor) noexcept override {}
    void AddTo(pitot::TraceBuilder&) override {
      library->end(ids[0]);
      ids.push_back(library->start_a("begun later"));
    }
    const Library& library;
    std::vector<uint64_t>& ids;
  };
  NvtxHost host;
  REQUIRE(host.Start());
  const Library library(PITOT_FAKE_EMITTER);
  std::vector<uint64_t> ids;
  REQUIRE(host.recorder.Add(std::make_unique<Between>(library, &ids)).ok());
  REQUIRE(host.recorder.Add(pitot::MakeNvtxCollector()).ok());
  ids.push_back(library->start_a("ended later"));

  const auto trace = host.Incident();
  for (const uint64_t id : ids) library->end(id);

  REQUIRE(ids.size() == 2);
  CHECK(Attribute(trace, "nvtx.under_way") == "ended later ((none))");
}

TEST_CASE("ranges of the domain pitot are ignored", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  void* const domain = library->create_domain("pitot");
  const auto attributes = Message("mirrored");
  library->domain_push(domain, &attributes);
  library->domain_pop(domain);
  library->domain_mark(domain, &attributes);
  library->domain_end(domain, library->domain_start(domain, &attributes));

  CHECK(Captured(host.Incident()).empty());
}

TEST_CASE("slots unused by Pitot stay null", "[nvtx]") {
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(PITOT_FAKE_EMITTER);
  library->mark_a("first call");

  CHECK(library->leaves_others_null());
}

TEST_CASE("a library may be unloaded with open ranges", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  {
    const Library library(path);
    void* const domain = library->create_domain("gone");
    const auto attributes = Message("still open");
    library->domain_push(domain, &attributes);
  }
  const auto trace = host.Incident();
  const Library again(path);
  const auto attributes = Message("loaded anew");
  again->domain_push(again->create_domain("gone"), &attributes);

  CHECK(Captured(trace) == Texts{"still open(domain=gone)"});
  CHECK(Captured(host.Incident()).back() == "loaded anew(domain=gone)");
}

TEST_CASE("nothing is recorded after Stop, and the next recorder gets the events of its libraries", "[nvtx]") {
  FOR_EACH_EMITTER();
  NvtxHost host;
  REQUIRE(host.StartCapturing());
  const Library library(path);
  library->push_a("under the first");
  void* const string = library->register_string(nullptr, "kept");
  const uint64_t id = library->start_a("across");
  host.recorder.Stop();
  library->pop();
  library->mark_a("between");
  const Library late(path);
  CHECK(late->start_a("between") == 0);

  REQUIRE(host.StartCapturing());
  library->pop();
  library->end(id);
  const auto attributes = Registered(string);
  library->mark_ex(&attributes);
  late->mark_a("of the late");
  const auto trace = host.Incident();

  CHECK(Captured(trace) == Texts{"kept(domain=(none))", "of the late(domain=(none))"});
  CHECK(Attribute(trace, "nvtx.pops_without_push") == "1");
  CHECK(Attribute(trace, "nvtx.ends_without_start") == "1");
  CHECK(Attribute(trace, "nvtx.missed").empty());
}

TEST_CASE("a recorder without the collector records nothing of NVTX", "[nvtx]") {
  const Library library(PITOT_FAKE_EMITTER);
  {
    NvtxHost host;
    REQUIRE(host.StartCapturing());
    library->mark_a("attach");
  }
  NvtxHost host;
  REQUIRE(host.Start());
  library->mark_a("of no collector");
  PITOT_INSTANT("the host's");

  const auto trace = host.Incident();

  CHECK(Captured(trace).empty());
  CHECK(EventsNamed(trace, "the host's").size() == 1);
}

TEST_CASE("threads emit while incidents are made and recorders come and go", "[nvtx]") {
  FOR_EACH_EMITTER();
  const Library library(path);
  {
    // Libraries may race with themselves at their first call.
    NvtxHost first;
    REQUIRE(first.StartCapturing());
    library->mark_a("attach");
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> started{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "thread " + std::to_string(t);
      while (!stop) {
        PITOT_SCOPE("around");
        library->push_a(name.c_str());
        library->mark_a("mark");
        const uint64_t mine = library->start_a("start");
        library->end(started.exchange(mine));
        library->pop();
        std::this_thread::yield();  // to the thread making the incidents
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    NvtxHost host;
    REQUIRE(host.StartCapturing());
    CHECK(fakes::WaitUntil([&] {
      const auto trace = host.Incident();
      CHECK(pitot::model::FindInconsistency(trace) == "");
      return !Captured(trace).empty();
    }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}
