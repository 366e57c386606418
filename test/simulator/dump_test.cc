// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "fakes/string_sink.h"
#include "pitot/read/dump.h"
#include "pitot/serialize/dump.h"
#include "simulator/facts.h"
#include "simulator/reconstruct.h"
#include "simulator/simulator.h"

using namespace simulator;

TEST_CASE("a dump read back agrees with the trace, cause by cause", "[simulator]") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    // Half of them have losses, so that requests without a beginning or an end are among them.
    const Run run = Simulate(RandomServer(seed), {.ring_bytes = seed % 2 == 0 ? 16u << 20 : 4096u});
    fakes::StringSink sink;
    REQUIRE(pitot::MakeDumpSerializer()->Serialize(run.trace, sink).ok());

    pitot::model::Trace read;
    pitot::DumpReport report;
    const pitot::Status status = pitot::ParseDump(sink.bytes.data(), sink.bytes.size(), &read, &report);

    INFO("seed " << seed << " " << status.message());
    REQUIRE(status.ok());
    REQUIRE(Difference(Facts(run.trace), Facts(read)) == "");
    REQUIRE(Difference(Contexts(run.trace), Contexts(read)) == "");
    REQUIRE(read.losses.size() == run.trace.losses.size());
    if (run.trace.losses.empty()) REQUIRE((Reconstruct(read) == Reconstruct(run.trace)));
  }
}
