// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/baseline.h"

#include <catch2/catch.hpp>
#include <random>

#include "analyze/small_server.h"
#include "base/columns.h"
#include "golden.h"
#include "pitot/analyze/learn.h"

namespace pitot::test {

using analyze::Baseline;
using analyze::BaselineOptions;
using analyze::BaselineRow;
using analyze::Blame;
using analyze::kBlames;
using model::NormKind;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

BaselineRow Row(int64_t ns, int64_t at_ns = 0) {
  BaselineRow row;
  row.at_ns = at_ns;
  row.blame[Blame::kHostOncpuPre] = ns;
  return row;
}
std::vector<int64_t> Latencies(const Baseline& baseline, int64_t now_ns = 0, uint32_t bucket = 3) {
  std::vector<BaselineRow> rows;
  baseline.Find("/classify", bucket, now_ns, 1, &rows);
  std::vector<int64_t> latencies;
  for (const BaselineRow& row : rows) latencies.push_back(row.blame.Total());
  return latencies;
}

std::string Saved(const Baseline& baseline) {
  std::string bytes;
  REQUIRE(baseline.Save(&bytes).ok());
  return bytes;
}

// "2 resnet 4 depth 2: 9 took 507: 4 7, 6 500": kind, name, much; the number; each part of the median.
std::vector<std::string> NormsOf(const Baseline& baseline, int64_t now_ns = 0) {
  model::Trace trace;
  REQUIRE(baseline.AddNorms(now_ns, &trace).ok());
  std::vector<std::string> lines;
  for (const model::NormRow& row : trace.norms) {
    std::string line = std::to_string(static_cast<int>(row.kind)) + " " + std::string(trace.strings[row.name]) + " " +
                       std::to_string(row.much) + " depth " + std::to_string(static_cast<int>(row.depth)) + ": " +
                       std::to_string(row.count) + " took " + std::to_string(row.total_ns) + ":";
    const char* separator = " ";
    for (const model::NormPart& part : row.parts) {
      line += separator + std::to_string(part.blame) + " " + std::to_string(part.ns);
      separator = ", ";
    }
    lines.push_back(line);
  }
  return lines;
}

// Appends a valid checksum.
std::string Sealed(std::string body) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : body) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  for (int i = 0; i < 8; ++i) body.push_back(static_cast<char>(hash >> (8 * i)));
  return body;
}

// A baseline of an earlier version, whose requests had `less` fewer bytes at the end, and which had scopes from 3 on.
// The last 8 bytes before the checksum are the numbers of scopes and of stays.
std::string OfVersion(char version, size_t less) {
  Baseline baseline;
  BaselineRow row = Row(77);
  row.work = {7.5, 3, 2, 1, Depth::kOps};
  REQUIRE(baseline.Add("/classify", 3, row).ok());
  std::string bytes = Saved(baseline);
  bytes.resize(bytes.size() - 8 - 8 - less);
  bytes[4] = version;
  return Sealed(bytes + std::string(version >= 3 ? 4 : 0, '\0'));
}

// The baseline of a small server's normal requests.
Baseline Learned() {
  const model::Trace trace = small_server::Server().Make(40);
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
  Baseline baseline;
  for (const uint32_t row : analyze::FindOrdinary(trace, {}))
    REQUIRE(LearnRequest(index, row, &baseline, nullptr).ok());
  REQUIRE(baseline.scopes().Find("/classify", "forward") != nullptr);
  return baseline;
}

}  // namespace

TEST_CASE("a full cell forgets its oldest request", "[baseline]") {
  Baseline baseline(BaselineOptions{3, 64, 600 * kSecond});
  for (int64_t i = 1; i <= 5; ++i) REQUIRE(baseline.Add("/classify", 3, Row(i)).ok());

  CHECK(Latencies(baseline) == std::vector<int64_t>{3, 4, 5});
  CHECK(baseline.size() == 3);
}

TEST_CASE("a request is compared by size, otherwise by route, otherwise with all, otherwise with none", "[baseline]") {
  Baseline baseline;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(baseline.Add("/classify", 3, Row(1)).ok());
    REQUIRE(baseline.Add("/classify", 4, Row(2)).ok());
    REQUIRE(baseline.Add("/segment", 3, Row(4)).ok());
  }
  std::vector<BaselineRow> rows;

  CHECK(baseline.Find("/classify", 3, 0, 10, &rows) == Baseline::Level::kCell);
  CHECK(rows.size() == 10);
  CHECK(baseline.Find("/classify", 3, 0, 11, &rows) == Baseline::Level::kRoute);
  CHECK(rows.size() == 20);
  CHECK(baseline.Find("/classify", 3, 0, 21, &rows) == Baseline::Level::kProcess);
  CHECK(rows.size() == 30);
  CHECK(baseline.Find("/classify", 3, 0, 31, &rows) == Baseline::Level::kNone);
  CHECK(rows.empty());
}

TEST_CASE("requests older than this epoch and the last are not compared with", "[baseline]") {
  Baseline baseline;
  REQUIRE(baseline.Add("/classify", 3, Row(1, 100 * kSecond)).ok());
  REQUIRE(baseline.Add("/classify", 3, Row(2, 700 * kSecond)).ok());

  CHECK(Latencies(baseline, 1'100 * kSecond).size() == 2);
  CHECK(Latencies(baseline, 1'300 * kSecond) == std::vector<int64_t>{2});
  CHECK(Latencies(baseline, 9'000 * kSecond).empty());
}

TEST_CASE("cells beyond the limit are counted until an old one is stale", "[baseline]") {
  Baseline baseline(BaselineOptions{8, 2, 600 * kSecond});
  REQUIRE(baseline.Add("/a", 0, Row(1, 0)).ok());
  REQUIRE(baseline.Add("/b", 0, Row(1, 0)).ok());
  REQUIRE(baseline.Add("/classify", 3, Row(1, kSecond)).ok());
  CHECK(baseline.refused() == 1);

  REQUIRE(baseline.Add("/classify", 3, Row(7, 5'000 * kSecond)).ok());

  CHECK(baseline.refused() == 1);
  CHECK(Latencies(baseline, 5'000 * kSecond) == std::vector<int64_t>{7});
}

TEST_CASE("64 full cells take less than 6 MiB", "[baseline]") {
  Baseline baseline;
  for (uint32_t i = 0; i < 64 * 600; ++i) REQUIRE(baseline.Add("/classify", i % 64, Row(i)).ok());

  CHECK(baseline.size() == 64 * 512);
  CHECK(baseline.memory_bytes() < 6u << 20);
}

TEST_CASE("requests of hours are kept in coarser units, others to the nanosecond", "[baseline]") {
  Baseline baseline;
  REQUIRE(baseline.Add("/classify", 3, Row(2'147'483'647)).ok());
  REQUIRE(baseline.Add("/classify", 3, Row(int64_t{7'200} * kSecond + 1)).ok());

  const std::vector<int64_t> latencies = Latencies(baseline);
  CHECK(latencies[0] == 2'147'483'647);
  CHECK(latencies[1] <= 7'200 * kSecond + 1);
  CHECK(latencies[1] > 7'200 * kSecond - 8'192);
}

TEST_CASE("a baseline survives as bytes, and counts as of the previous epoch", "[baseline]") {
  std::mt19937_64 random(1);
  Baseline before;
  std::vector<BaselineRow> expected;
  for (int i = 0; i < 700; ++i) {
    BaselineRow row;
    for (int64_t& part : row.blame.ns) part = static_cast<int64_t>(random() >> (33 + random() % 30));
    row.work = {static_cast<double>(random() % 1000) / 7, static_cast<uint32_t>(random() % 99), 3, 4,
                static_cast<Depth>(random() % 4)};
    if (i % 3 != 0) row.work.waits = static_cast<uint32_t>(random() % 99);
    REQUIRE(before.Add("/classify", 3, row).ok());
    expected.push_back(row);
  }
  expected.erase(expected.begin(), expected.end() - 512);
  std::string bytes;
  REQUIRE(before.Save(&bytes).ok());

  Baseline after;
  REQUIRE(after.Load(bytes, 5'000 * kSecond).ok());

  std::vector<BaselineRow> rows;
  REQUIRE(after.Find("/classify", 3, 5'000 * kSecond, 1, &rows) == Baseline::Level::kCell);
  REQUIRE(rows.size() == expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(std::equal(rows[i].blame.ns, rows[i].blame.ns + kBlames, expected[i].blame.ns));
    REQUIRE(rows[i].work.size == expected[i].work.size);
    REQUIRE(rows[i].work.launches == expected[i].work.launches);
    REQUIRE(rows[i].work.depth == expected[i].work.depth);
    REQUIRE(rows[i].work.waits == expected[i].work.waits);
  }
  CHECK(after.Find("/classify", 3, 6'000 * kSecond, 1, &rows) == Baseline::Level::kNone);
}

TEST_CASE("what batches, holds and scopes took survives with a baseline, as medians of each kind", "[baseline]") {
  Baseline before;
  for (int64_t i = 1; i <= 9; ++i) {
    BaselineRow row = Row(i * 100);
    row.blame[Blame::kBatchWindow] = 7;
    REQUIRE(before.AddStay("resnet", {NormKind::kBatchOfMembers, Depth::kKernels, 4}, row).ok());
    REQUIRE(before.AddStay("resnet", {NormKind::kBatchOfMembers, Depth::kScopes, 4}, Row(i)).ok());
    REQUIRE(before.AddStay("cache", {NormKind::kHold, Depth::kScopes, 0}, Row(i * 10)).ok());
    if (i < 8) REQUIRE(before.AddStay("tasks", {NormKind::kHold, Depth::kScopes, 0}, Row(i)).ok());  // too few
    row.work.depth = Depth::kGraphs;
    REQUIRE(before.Add("/classify", 3, row).ok());
  }
  Baseline after;
  REQUIRE(after.Load(Saved(before), 5'000 * kSecond).ok());

  const std::vector<std::string> expected = {
      "2 resnet 4 depth 2: 9 took 507: 4 7, 6 500", "2 resnet 4 depth 0: 9 took 5: 6 5",
      "7 cache 0 depth 0: 9 took 50:", "6 /classify 3 depth 1: 9 took 507: 4 7, 6 500"};
  CHECK(NormsOf(before) == expected);
  CHECK(NormsOf(after, 5'000 * kSecond) == expected);
  CHECK(NormsOf(after, 7'000 * kSecond).empty());  // too long ago
}

TEST_CASE("single tokens survive with a baseline, the oldest first, with their work", "[baseline]") {
  Baseline before;
  for (int64_t i = 1; i <= 70; ++i) {
    BaselineRow row = Row(i * 100);
    row.work.size = static_cast<double>(i);
    REQUIRE(before.AddStay("/generate", {NormKind::kFirstToken, Depth::kKernels, 3}, row).ok());
  }
  Baseline after;
  REQUIRE(after.Load(Saved(before), 5'000 * kSecond).ok());

  model::Trace trace;
  REQUIRE(after.AddNorms(5'000 * kSecond, &trace).ok());
  REQUIRE(trace.norms.size() == 64);
  for (size_t i = 0; i < trace.norms.size(); ++i) {
    const model::NormRow& row = trace.norms[i];
    CHECK(row.work == static_cast<double>(i + 7));
    CHECK(row.total_ns == static_cast<int64_t>(i + 7) * 100);
    CHECK((row.depth == Depth::kKernels && row.much == 3 && row.count == 1));
    REQUIRE(row.parts.size() == 1);
    CHECK(row.parts[0].ns == row.total_ns);
  }
}

TEST_CASE("tokens of many routes leave room for batches, and newer ones replace stale ones", "[baseline]") {
  Baseline baseline;
  const auto add = [&](int64_t at_ns) {
    for (uint32_t i = 0; i < 200; ++i) {
      BaselineRow row = Row(7);
      row.at_ns = at_ns;
      REQUIRE(baseline.AddStay("/r" + std::to_string(i), {NormKind::kTokenGap, Depth::kScopes, 1}, row).ok());
    }
  };
  add(0);
  CHECK(NormsOf(baseline).size() == 32);
  const int64_t later_ns = 2 * analyze::BaselineOptions().epoch_ns;
  CHECK(NormsOf(baseline, later_ns).empty());
  add(later_ns);
  CHECK(NormsOf(baseline, later_ns).size() == 32);
}

TEST_CASE("the newest 64 stays of 192 kinds are kept, and scopes leave room for batches", "[baseline]") {
  Baseline baseline;
  for (uint32_t i = 0; i < 64 * 200; ++i)
    REQUIRE(baseline.AddStay("s" + std::to_string(i % 200), {NormKind::kScope, Depth::kScopes, 0}, Row(i)).ok());
  CHECK(NormsOf(baseline).size() == 48);
  for (uint32_t i = 0; i < 100 * 200; ++i)
    REQUIRE(baseline.AddStay("resnet", {NormKind::kBatchOfMembers, Depth::kScopes, i % 200}, Row(i)).ok());

  const std::vector<std::string> norms = NormsOf(baseline);
  CHECK(norms.size() == 192);
  CHECK(norms[48] == "2 resnet 0 depth 0: 64 took 13500: 6 13500");
  CHECK(baseline.memory_bytes() < 2'200'000);

  const int64_t later_ns = 2 * analyze::BaselineOptions().epoch_ns;  // all of these are too old
  const auto add = [&](const char* name, NormKind kind) {
    for (uint32_t i = 0; i < 8 * 200; ++i) {
      BaselineRow row = Row(7);
      row.at_ns = later_ns;
      REQUIRE(baseline.AddStay(name + std::to_string(i % 200), {kind, Depth::kScopes, 0}, row).ok());
    }
  };
  add("s", NormKind::kScope);
  CHECK(NormsOf(baseline, later_ns).size() == 48);
  add("resnet", NormKind::kBatch);
  CHECK(NormsOf(baseline, later_ns).size() == 192);
}

TEST_CASE("a limited baseline has fewer routes and kinds, and scopes, tokens and GPU work their parts", "[baseline]") {
  Baseline baseline;
  REQUIRE(baseline.Add("/a", 0, Row(1)).ok());
  REQUIRE(baseline.Add("/b", 0, Row(1)).ok());
  baseline.Limit(1, 24);
  CHECK(baseline.size() == 1);
  REQUIRE(baseline.Add("/c", 0, Row(1)).ok());
  CHECK(baseline.size() == 1);
  const auto add = [&](NormKind kind) {
    const size_t before = NormsOf(baseline).size();
    for (uint32_t i = 0; i < 8 * 50; ++i)
      REQUIRE(baseline.AddStay("n" + std::to_string(i % 50), {kind, Depth::kScopes, 0}, Row(i)).ok());
    return NormsOf(baseline).size() - before;
  };
  CHECK(add(NormKind::kScope) == 6);
  CHECK(add(NormKind::kTokenGap) == 4 * 8);
  CHECK(add(NormKind::kGpuWork) == 3);
  CHECK(add(NormKind::kHold) == 11);
  baseline.Limit(64, 192);
  CHECK(add(NormKind::kHold) == 0);
}

TEST_CASE("usual lengths of scopes survive with a baseline", "[baseline]") {
  const Baseline before = Learned();
  Baseline after;
  REQUIRE(after.Load(Saved(before), 0).ok());

  for (const char* const scope : {"decode", "forward", "respond"}) {
    const analyze::DurationSketch *was = before.scopes().Find("/classify", scope),
                                  *is = after.scopes().Find("/classify", scope);
    REQUIRE((was != nullptr && is != nullptr));
    CHECK(is->size() == was->size());
    for (const double q : {0.0, 0.5, 0.99}) CHECK(is->Quantile(q) == was->Quantile(q));
  }
  CHECK(Saved(after) == Saved(before));
}

TEST_CASE("the bytes of a baseline are those of docs/reference/formats/baseline.md", "[baseline]") {
  const std::string bytes = Saved(Learned());
  std::string lines;
  for (size_t i = 0; i < bytes.size(); ++i)
    lines += base::Format(i % 32 == 31 || i + 1 == bytes.size() ? "%02x\n" : "%02x ", static_cast<uint8_t>(bytes[i]));
  CheckGolden("baseline_6.txt", lines);
}

TEST_CASE(
    "baselines of older versions are read: 4 has no stays, 3 no waits, 2 no scopes, 1 takes its depth from its "
    "launches",
    "[baseline]") {
  Baseline fourth, third, second = Learned(), first;
  REQUIRE(fourth.Load(OfVersion(4, 0), 0).ok());
  REQUIRE(third.Load(OfVersion(3, 4), 0).ok());
  REQUIRE(second.Load(OfVersion(2, 4), 0).ok());
  REQUIRE(first.Load(OfVersion(1, 5), 0).ok());

  CHECK(NormsOf(fourth).empty());
  std::vector<BaselineRow> rows;
  REQUIRE(fourth.Find("/classify", 3, 0, 1, &rows) == Baseline::Level::kCell);
  REQUIRE(third.Find("/classify", 3, 0, 1, &rows) == Baseline::Level::kCell);
  CHECK(rows[0].work.depth == Depth::kOps);
  CHECK(!rows[0].work.waits.has_value());
  REQUIRE(second.Find("/classify", 3, 0, 1, &rows) == Baseline::Level::kCell);
  CHECK(rows[0].work.depth == Depth::kOps);
  CHECK(second.scopes().Find("/classify", "forward") == nullptr);
  REQUIRE(first.Find("/classify", 3, 0, 1, &rows) == Baseline::Level::kCell);
  CHECK(rows[0].work.depth == Depth::kKernels);
  CHECK(first.Load(OfVersion(7, 0), 0).code() == StatusCode::kDataLoss);
}

TEST_CASE("cut or altered bytes are refused, and the old contents stay", "[baseline]") {
  const std::string bytes = Saved(Learned());
  const std::string_view body = std::string_view(bytes).substr(0, bytes.size() - 8);
  Baseline other;
  REQUIRE(other.Add("/classify", 3, Row(77)).ok());

  for (size_t size = 0; size < bytes.size(); ++size)
    REQUIRE(other.Load(std::string_view(bytes).substr(0, size), 0).code() == StatusCode::kDataLoss);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string bent = bytes;
    bent[at] = static_cast<char>(bent[at] ^ 0x10);
    REQUIRE(other.Load(bent, 0).code() == StatusCode::kDataLoss);
  }
  // With a valid checksum: cut bytes; then wrong buckets at the end: the same twice, one beyond the last, one too many.
  for (size_t size = 0; size < body.size(); ++size)
    REQUIRE(other.Load(Sealed(std::string(body.substr(0, size))), 0).code() == StatusCode::kDataLoss);
  const std::string_view scopes = body.substr(0, body.size() - 4);
  const std::string bucket(scopes.substr(scopes.size() - 4)), before(scopes.substr(0, scopes.size() - 8));
  const auto with = [&](char count, const std::string& buckets) {
    return other.Load(Sealed(before + count + std::string(3, '\0') + buckets + std::string(4, '\0')), 0).code();
  };
  CHECK(with(2, bucket + bucket) == StatusCode::kDataLoss);
  CHECK(with(1, std::string("\xb0\1\1\0", 4)) == StatusCode::kDataLoss);
  CHECK(with(1, std::string("\0\0\1\x20", 4)) == StatusCode::kDataLoss);

  CHECK(Latencies(other) == std::vector<int64_t>{77});
  CHECK(other.scopes().Find("/classify", "forward") == nullptr);
  CHECK(with(1, std::string("\xaf\1\1\0", 4)) == StatusCode::kOk);
}

}  // namespace pitot::test
