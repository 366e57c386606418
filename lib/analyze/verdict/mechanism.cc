// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/mechanism.h"

#include <string_view>

namespace pitot::verdict {

namespace {

struct MechanismWords {
  const char* before;  // the duration
  const char* after;
};
// By Blame.
constexpr MechanismWords kMechanisms[kBlames] = {
    {"spent ", " receiving from the network"},
    {"waited ", " to be started"},
    {"waited ", " for an idle thread to wake up"},
    {"waited ", " for its turn"},
    {"waited ", " for its batch to fill"},
    {"waited ", " for its executor"},
    {"spent ", " on host code"},
    {"spent ", " on model code"},
    {"spent ", " on postprocessing"},
    {"waited ", " for a CPU"},
    {"waited ", " for a lock"},
    {"waited ", " for the interpreter's lock"},
    {"spent ", " on garbage collection"},
    {"waited ", " for input, output or memory on a disk"},
    {"was blocked for ", ""},
    {"spent ", " in GPU launch calls"},
    {"waited ", " for launched GPU work to begin"},
    {"waited ", " for room in the GPU's launch queue"},
    {"spent ", " allocating or freeing memory"},
    {"spent ", " loading or compiling code"},
    {"waited ", " to resume after its GPU work had ended"},
    {"spent ", " copying to the GPU"},
    {"spent ", " copying from the GPU"},
    {"spent ", " copying or setting memory on the GPU"},
    {"spent ", " in GPU work"},
    {"lost ", " because its kernels shared the GPU"},
    {"lost ", " because its kernels ran at a lower SM clock"},
    {"lost ", " in kernels slower than usual, for no recorded reason"},
    {"waited ", " for the GPU"},
    {"lost ", " in gaps between its GPU operations"},
    {"spent ", " on communication between GPUs"},
    {"spent ", " for no recorded reason"},
};

// Code that may have been something else.
bool IsUnclear(const Took& took) { return !took.is_counted && took.blame != Blame::kUntraced; }
// Said of it. A thread that waits for a CPU is not sampled.
std::string UnclearWords(const Took& took) {
  return took.has_run ? ", running or waiting for a CPU" : ", running or asleep";
}

bool IsPlacePhrase(std::string_view place) { return place.substr(0, 3) == "in " || place.substr(0, 3) == "on "; }
bool FollowsDirectly(std::string_view place) { return IsPlacePhrase(place) || place[0] == '"'; }
std::string InPlace(const std::string& place) { return IsPlacePhrase(place) ? place : "in " + place; }

}  // namespace

std::string Mechanism(const Took& took) {
  if (took.is_stop) return "stood still for " + took.time + " while the interpreter had stopped its threads";
  if (took.has_run && took.blame == Blame::kUntraced)
    return std::string("was busy") + (took.is_counted ? "" : ", or waited for a CPU,") + " for " + took.time;
  if (IsUnclear(took)) return "spent " + took.time + " in code" + UnclearWords(took);
  if (took.may_await_driver) return "spent " + took.time + " loading code, or waiting for the driver";
  const auto row = static_cast<uint32_t>(took.blame);
  const MechanismWords& words = kMechanisms[row < kBlames ? row : static_cast<uint32_t>(Blame::kUntraced)];
  return words.before + took.time + words.after;
}

std::string MechanismAt(const Took& took, const std::string& place) {
  const std::string text = Mechanism(took);
  if (place.empty()) return text;
  if (!FollowsDirectly(place)) return text + ": " + place;
  return IsUnclear(took) ? "spent " + took.time + " " + InPlace(place) + UnclearWords(took)
                         : text + " " + InPlace(place);
}

std::string MechanismSeenAt(const Took& took, const std::string& place) {
  return took.blame == Blame::kUntraced ? "spent " + took.time + " " + place : MechanismAt(took, place);
}

std::string MechanismPartlyAt(const Took& took, const std::string& place, const std::string& part) {
  const std::string text = Mechanism(took);
  return place.empty() ? text : text + ", " + part + " of it " + InPlace(place);
}

}  // namespace pitot::verdict
