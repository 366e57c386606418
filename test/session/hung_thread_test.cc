// SPDX-License-Identifier: Apache-2.0
#include "session/hung_thread.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "pitot/model/trace.h"

namespace {

using pitot::SiteKind;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::Trace;

constexpr uint64_t kRequest = 17;

// A server with request kRequest, which began on "handler".
struct Server {
  enum Thread : uint32_t { kHandler, kEngine, kHelper };
  enum Site : uint32_t { kScope, kWait };
  Trace trace;

  Server() {
    for (const char* const name : {"handler", "engine", "helper"}) {
      pitot::model::ThreadRow thread;
      thread.tid = 100 + static_cast<int64_t>(trace.threads.size());
      thread.name = trace.strings.Add(name);
      trace.threads.push_back(thread);
    }
    trace.sites.resize(2);
    trace.sites[kWait].kind = SiteKind::kWait;
    pitot::model::RequestRow request;
    request.id = kRequest;
    request.duration_ns = kOpen;
    request.begin_thread = kHandler;
    trace.requests.push_back(request);
  }
  void Open(Thread thread, Site site, int64_t begin_ns, uint32_t request, uint32_t batch = kNone) {
    trace.events.begin_ns.push_back(begin_ns);
    trace.events.duration_ns.push_back(kOpen);
    trace.events.site.push_back(site);
    trace.events.thread.push_back(thread);
    trace.events.request.push_back(request);
    trace.events.batch.push_back(batch);
    trace.events.args.push_back(kNone);
  }
  uint32_t BeginBatch(Thread thread, int64_t begin_ns, uint32_t member) {
    const auto row = static_cast<uint32_t>(trace.batches.size());
    pitot::model::BatchRow batch;
    batch.thread = thread;
    batch.begin_ns = begin_ns;
    batch.duration_ns = kOpen;
    trace.batches.push_back(batch);
    pitot::model::MemberRow joined;
    joined.batch = row;
    joined.request = member;
    trace.members.push_back(joined);
    return row;
  }
  std::string Hung(uint64_t request = kRequest) const {
    return pitot::session::HungThread(trace, request, {}, pitot::session::ViewNumbers::kOwn);
  }
};

TEST_CASE("the hung thread is the one that began last what is open for the request", "[hung_thread]") {
  Server server;
  CHECK(server.Hung() == "handler (100)");
  server.Open(Server::kHandler, Server::kScope, 10, 0);
  server.Open(Server::kEngine, Server::kScope, 30, 0);
  server.Open(Server::kHelper, Server::kScope, 20, 0);
  server.Open(Server::kHelper, Server::kScope, 40, kNone);  // of nobody
  CHECK(server.Hung() == "engine (101)");
}

TEST_CASE("the hung thread of a request in a batch is the batch's, or one that works on the batch", "[hung_thread]") {
  Server server;
  server.Open(Server::kHandler, Server::kScope, 10, 0);
  const uint32_t batch = server.BeginBatch(Server::kEngine, 20, 0);
  CHECK(server.Hung() == "engine (101)");
  server.Open(Server::kHelper, Server::kScope, 30, kNone, batch);
  CHECK(server.Hung() == "helper (102)");
}

TEST_CASE("a thread that says that it waits is not the hung one if another one works", "[hung_thread]") {
  Server server;
  server.Open(Server::kHandler, Server::kScope, 10, 0);
  server.Open(Server::kHandler, Server::kWait, 40, 0);
  CHECK(server.Hung() == "handler (100)");
  server.BeginBatch(Server::kEngine, 20, 0);
  CHECK(server.Hung() == "engine (101)");
}

TEST_CASE("without a request the hung thread is the one of the oldest open batch", "[hung_thread]") {
  Server server;
  CHECK(server.Hung(0).empty());
  const uint32_t oldest = server.BeginBatch(Server::kHelper, 20, kNone);
  const uint32_t next = server.BeginBatch(Server::kEngine, 30, kNone);
  server.Open(Server::kEngine, Server::kScope, 40, kNone, next);
  CHECK(server.Hung(0) == "helper (102)");
  server.Open(Server::kHandler, Server::kScope, 50, kNone, oldest);
  CHECK(server.Hung(0) == "handler (100)");
}

}  // namespace
