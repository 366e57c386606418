// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/fault_control.h"

#include <exception>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace scoreboard {
namespace {

server_common::Reply Control(const std::string& body, FaultSchedule* faults) try {
  const nlohmann::json command = nlohmann::json::parse(body);
  if (command.contains("faults")) {
    std::vector<Fault> wanted;
    for (const nlohmann::json& text : command["faults"]) {
      wanted.push_back(ParseFault(faults->kinds(), text.get<std::string>()));
    }
    faults->SetFaults(wanted);
  }
  if (command.contains("active")) faults->SetActive(command["active"].get<bool>());
  nlohmann::json names = nlohmann::json::array();
  for (const Fault& fault : faults->faults()) names.push_back(faults->NameOf(fault.kind));
  return {200, nlohmann::json{{"active", faults->is_active()}, {"faults", names}}.dump()};
} catch (const std::exception& error) {
  return server_common::ErrorReply(400, error.what());
}

}  // namespace

void AllowControl(const FaultOptions& options, FaultSchedule* faults, server_common::HttpListener* http) {
  if (options.allow_control) {
    http->PostCommand("/faultz", [faults](const std::string& body) { return Control(body, faults); });
  }
}

}  // namespace scoreboard
