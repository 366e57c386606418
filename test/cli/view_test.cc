// SPDX-License-Identifier: Apache-2.0
//
// The data in the page of `pitot view`. test/view reads whole pages, and opens them in a browser.
#include <zlib.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/folder.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using nlohmann::json;

std::string FromBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

json HeadOf(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const size_t begin = page.find(mark) + mark.size();
  const std::string packed = FromBase64(page.substr(begin, page.find('<', begin) - begin));
  std::string data(1 << 20, '\0');
  uLongf size = data.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                     packed.size()) == Z_OK);
  uint32_t head = 0;
  for (size_t i = 0; i < 4; ++i) head |= static_cast<uint32_t>(static_cast<unsigned char>(data[i])) << (8 * i);
  return json::parse(data.substr(4, head));
}

TEST_CASE("a page lists the first thousand losses and counts all", "[cli]") {
  pitot::model::Trace trace = incident::MakeTrace();
  const size_t losses = trace.losses.size() + trace.gpu_losses.size();
  for (int64_t i = 0; i < 1500; ++i) {
    pitot::model::LossRow loss;
    loss.begin_ns = trace.window_begin_ns + i;
    loss.end_ns = loss.begin_ns + 1;
    trace.losses.push_back(loss);
  }
  const Folder folder;
  folder.Write("dump.pitot", Dump(trace));

  CHECK(folder.Run("view dump.pitot -o page.html").exit_code == 0);

  const json file = HeadOf(fakes::ReadFile(folder / "page.html"))["files"][0];
  CHECK(file["losses"].size() == 1000);
  CHECK(file["loss_count"] == losses + 1500);
}

TEST_CASE("a thread without a name goes by its tid", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"X","name":"a","pid":1,"tid":4711,"ts":5,"dur":2}])");

  CHECK(folder.Run("view a.json -o page.html").exit_code == 0);

  const std::string lanes = HeadOf(fakes::ReadFile(folder / "page.html")).dump();
  CHECK(lanes.find("\"thread 4711\"") != std::string::npos);
  CHECK(lanes.find("thread #1") == std::string::npos);
}

}  // namespace
