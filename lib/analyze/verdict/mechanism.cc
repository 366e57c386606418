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

bool IsPlacePhrase(std::string_view place) { return place.substr(0, 3) == "in " || place.substr(0, 3) == "on "; }
std::string InPlace(const std::string& place) { return IsPlacePhrase(place) ? place : "in " + place; }

}  // namespace

std::string Mechanism(Blame blame, const std::string& time) {
  const auto row = static_cast<uint32_t>(blame);
  const MechanismWords& words = kMechanisms[row < kBlames ? row : static_cast<uint32_t>(Blame::kUntraced)];
  return words.before + time + words.after;
}

std::string MechanismAt(Blame blame, const std::string& time, const std::string& place) {
  const std::string text = Mechanism(blame, time);
  if (place.empty()) return text;
  return text + (IsPlacePhrase(place) || place[0] == '"' ? " " + InPlace(place) : ": " + place);
}

std::string MechanismSeenAt(Blame blame, const std::string& time, const std::string& place) {
  return blame == Blame::kUntraced ? "spent " + time + " " + place : MechanismAt(blame, time, place);
}

std::string MechanismPartlyAt(Blame blame, const std::string& time, const std::string& place, const std::string& part) {
  const std::string text = Mechanism(blame, time);
  return place.empty() ? text : text + ", " + part + " of it " + InPlace(place);
}

}  // namespace pitot::verdict
