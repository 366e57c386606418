// SPDX-License-Identifier: Apache-2.0
#include "pitot/health.h"

#include <errno.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/watching.h"
#include "session/health.h"
#include "session/kernel_view.h"
#include "session/post_mortem.h"
#include "session/wedge.h"

namespace pitot::cli {
namespace {

using nlohmann::ordered_json;
using session::FoundBox;

struct HealthOptions {
  std::string boxes;
  double stalled_after_s = 10;
  std::string fail_when = "stalled";
  bool json = false;
};

ordered_json JsonOf(const snapshot::BoxFacts& facts, const pitot::Health& health) {
  ordered_json json{{"process", facts.process_name},
                    {"pid", facts.pid},
                    {"state", HealthStateName(health.state)},
                    {"requests_open", health.requests_open},
                    {"requests_waiting", health.requests_waiting},
                    {"quiet_ms", health.quiet_ms},
                    {"text", health.text}};
  if (health.route[0] != '\0') json["route"] = health.route;
  if (health.request == 0) return json;
  json["request"] = absl::StrFormat("%016x", health.request);
  json["stage"] = health.stage;
  json["open_ms"] = health.open_ms;
  return json;
}

// The worst of all living processes in the folder.
int AskHealth(const HealthOptions& options) {
  session::HealthLimits limits;
  limits.stalled_after_ns = static_cast<uint64_t>(options.stalled_after_s * 1e9);
  const HealthState bad = options.fail_when == "slow" ? HealthState::kSlow : HealthState::kStalled;
  HealthState worst = HealthState::kUnknown;
  bool is_any_alive = false, is_any_unknown = false, is_any_unreadable = false;
  ordered_json all = ordered_json::array();
  int error = 0;
  const std::vector<std::string> paths = session::BoxesIn(options.boxes, &error);
  if (error != 0) {
    Complain(options.boxes + ": " + base::SystemText(error));
    return kUnreadable;
  }
  for (const std::string& path : paths) {
    FoundBox box(path, session::BoxTrust::kAny);
    const FoundBox::Life life = box.Peek();
    if (life == FoundBox::Life::kBroken && box.error() == ENOENT) continue;  // it was just removed
    if (life == FoundBox::Life::kBroken) {
      Complain(path + ": " + box.why());
      is_any_unreadable |= box.error() != 0;
      is_any_unknown = true;
    }
    if (life == FoundBox::Life::kDead)
      Complain(path + ": its process is dead; see `pitot recover --post-mortem " + options.boxes + "`");
    if (life != FoundBox::Life::kAlive) continue;
    const snapshot::BoxFacts& facts = box.reader().facts();
    const int64_t pid = box.Owner();  // 0: it is not seen from here
    const session::Stop stop = pid != 0 ? session::StopOf(pid).stop : session::Stop::kNone;
    const pitot::Health health = session::HealthWith(stop, session::HealthIn(&box.reader(), limits, pid).health);
    worst = std::max(worst, health.state);
    is_any_alive = true;
    is_any_unknown |= health.state == HealthState::kUnknown;
    if (options.json)
      all.push_back(JsonOf(facts, health));
    else
      PrintLine(
          base::SanitizeText(absl::StrFormat("%s (process %d) is %s", facts.process_name, facts.pid, health.text)));
  }
  if (options.json) Print(all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  if (!is_any_alive && !is_any_unreadable) Complain("no black box of a living process in " + options.boxes);
  if (worst >= bad) return kNothingFound;
  if (is_any_unreadable) return kUnreadable;
  // A recorder that is not there says nothing about its server.
  return options.fail_when == "unknown" && (!is_any_alive || is_any_unknown) ? kUnreadable : kDone;
}

}  // namespace

void AddHealth(CommandLine& line) {
  auto options = std::make_shared<HealthOptions>();
  const Command command =
      line.Command("health", "Says whether the requests of living processes make progress, by their black boxes");
  command.Add("boxes", &options->boxes, "The folder of their black boxes, or one black box").Required();
  command.Add("--stalled-after", &options->stalled_after_s, kStalledAfterHelp).ShowDefault().Number(0.001, 1e6);
  command.Add("--fail-when", &options->fail_when, "What else is a failure; unknown: also of what nothing is known")
      .ShowDefault()
      .OneOf({"slow", "stalled", "unknown"});
  command.AddFlag("--json", &options->json, "For programs");
  command.Footer(
      "Exit codes, for a probe: 0 idle, progressing or slow, and if nothing is known: a server without a black box is "
      "not at fault for that; 1 stalled (with --fail-when slow: or slow); 3 the folder or a black box cannot be read, "
      "for "
      "example because it belongs to another user, or with --fail-when unknown: no process there is alive, or nothing "
      "is "
      "known of the requests of one; see `pitot --help` for others.");
  command.Run([options] { return AskHealth(*options); });
}

}  // namespace pitot::cli
