// SPDX-License-Identifier: Apache-2.0
//
// Processes and devices, which a file may have of several ranks.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "read/decimal.h"
#include "read/kineto_builder.h"
#include "read/kineto_names.h"

namespace pitot::read {

using model::kNone;
using model::StringId;

namespace {

constexpr uint32_t kMostGroups = 1 << 16;  // more share the last one
constexpr int64_t kAmdWave = 64;           // threads of a wave, in GCN and CDNA

// The vector registers of AMD's compute unit; the file has those of a block. Since CDNA 2 (compute capability 9, 2048
// threads; MI300X) the 64 lanes of each of four SIMDs have 512 (LLVM, AMDGPUBaseInfo.cpp: getTotalNumVGPRs). HIP 7
// gives a block all 131,072, and older ones half.
int64_t RegistersOfComputeUnit(const KinetoDevice& device) {
  constexpr int64_t kSinceCdna2 = 4 * kAmdWave * 512;
  return device.compute_major == 9 && device.threads == 2048 ? kSinceCdna2 : device.block_registers;
}

// The limit of blocks on a multiprocessor, by compute capability; the file does not have it. From the technical
// specifications in the CUDA C++ Programming Guide. 0: unknown.
uint32_t BlocksPerMultiprocessor(const KinetoDevice& device) {
  // AMD's compute units hold as many blocks as waves, if each is a single wave (lib/model/occupancy.h).
  if (device.warp == kAmdWave)
    return static_cast<uint32_t>(std::clamp<int64_t>(device.threads / kAmdWave, 0, UINT32_MAX));
  struct Limit {
    int64_t capability;  // 75 for 7.5
    uint32_t blocks;
  };
  static constexpr Limit kLimits[] = {{30, 16}, {35, 16}, {37, 16}, {50, 32},  {52, 32},  {53, 32},  {60, 32},
                                      {61, 32}, {62, 32}, {70, 32}, {72, 32},  {75, 16},  {80, 32},  {86, 16},
                                      {87, 16}, {89, 24}, {90, 32}, {100, 32}, {103, 32}, {120, 24}, {121, 24}};
  const auto limit = std::find_if(std::begin(kLimits), std::end(kLimits), [&](const Limit& known) {
    return known.capability == device.compute_major * 10 + device.compute_minor;
  });
  return limit == std::end(kLimits) ? 0 : limit->blocks;
}

}  // namespace

KinetoBuilder::Process KinetoBuilder::ProcessOf(const KinetoId& pid) {
  if (!last_pid_.empty() && pid.text == last_pid_) return last_process_;
  const std::string_view label = LabelOf(pid.text);
  if (label.empty()) return {plain_group_ != kNone ? plain_group_ : plain_group_ = GroupRow({}), Number(pid)};
  const std::string_view rest = pid.text.substr(std::min(pid.text.size(), label.size() + 1));
  const std::optional<int64_t> number = ParseDecimal(rest, 0);
  last_process_ = {GroupRow(label), number ? *number : Number({0, rest})};
  last_pid_ = pid.text;
  return last_process_;
}

uint32_t KinetoBuilder::GroupRow(std::string_view label) {
  const auto [found, is_new] =
      group_rows_.try_emplace({document_, std::string(label)}, static_cast<uint32_t>(groups_.size()));
  if (is_new && groups_.size() >= kMostGroups) found->second = kMostGroups - 1;
  if (is_new && found->second == groups_.size()) groups_.push_back({document_, std::string(label)});
  return found->second;
}

std::string KinetoBuilder::NameOfGroup(uint32_t group) const {
  const Group& of = groups_[group];
  if (document_ == 0) return of.label.empty() ? "[no rank]" : of.label;
  const auto rank = ranks_.find(of.document);
  const std::string document = rank != ranks_.end() ? "[rank " + std::to_string(rank->second) + "]"
                                                    : "[document " + std::to_string(of.document + 1) + "]";
  return of.label.empty() ? document : document + of.label;
}

void KinetoBuilder::BeginDocument() {
  ++document_;
  plain_group_ = last_thread_row_ = kNone;
  last_pid_.clear();
  first_property_ = properties_.size();
  thread_of_number_.clear();
}

uint32_t KinetoBuilder::Device(uint32_t group, int64_t ordinal) {
  UseGroup(group);
  const auto [found, is_new] = devices_.try_emplace({group, ordinal}, static_cast<uint32_t>(trace_.devices.size()));
  if (is_new) {
    trace_.devices.emplace_back();
    trace_.devices.back().ordinal = static_cast<uint32_t>(std::clamp<int64_t>(ordinal, 0, UINT32_MAX));
    device_groups_.push_back(group);
  }
  return found->second;
}

// Devices without work come first, as their properties do.
void KinetoBuilder::UseGroup(uint32_t group) {
  if (std::exchange(groups_[group].has_rows, true) || !groups_[group].label.empty()) return;
  for (size_t i = first_property_; i < properties_.size(); ++i)
    SetProperties(properties_[i].second, Device(group, properties_[i].second.id));
}

void KinetoBuilder::AddDevices(const std::vector<KinetoDevice>& devices) {
  const bool has_rows = plain_group_ != kNone && groups_[plain_group_].has_rows;
  for (const KinetoDevice& device : devices) {
    properties_.push_back({document_, device});
    if (has_rows) SetProperties(device, Device(plain_group_, device.id));
  }
}

void KinetoBuilder::SetProperties(const KinetoDevice& device, uint32_t device_row) {
  const auto small = [](int64_t number) { return static_cast<uint32_t>(std::clamp<int64_t>(number, 0, UINT32_MAX)); };
  model::DeviceRow& row = trace_.devices[device_row];
  row.name = Intern(std::string_view(device.name).substr(0, kMostNameBytes));
  row.multiprocessors = small(device.multiprocessors);
  row.threads_per_multiprocessor = small(device.threads);
  row.blocks_per_multiprocessor = BlocksPerMultiprocessor(device);
  row.registers_per_multiprocessor = small(device.warp == kAmdWave ? RegistersOfComputeUnit(device) : device.registers);
  row.shared_bytes_per_multiprocessor = small(device.shared_bytes);
  row.threads_per_warp = small(device.warp);
}

// Gives devices of labelled ranks their properties, and devices that the list does not number as the work does: ROCm
// counts CPUs, too.
void KinetoBuilder::ApplyProperties() {
  std::map<std::pair<uint32_t, int64_t>, std::vector<const KinetoDevice*>> listed;  // by document and number
  for (const auto& [document, device] : properties_) listed[{document, device.id}].push_back(&device);
  std::map<std::pair<uint32_t, int64_t>, size_t> ranks;
  std::vector<bool> has_work(trace_.devices.size());
  for (const model::StreamRow& stream : trace_.streams) has_work[stream.device] = true;
  std::vector<uint32_t> unlisted;
  for (const auto& [key, row] : devices_) {
    const Group& group = groups_[key.first];
    const auto found = listed.find({group.document, key.second});
    if (found == listed.end()) {
      if (has_work[row]) unlisted.push_back(row);
    } else if (!group.label.empty()) {
      const size_t rank = ranks[{group.document, key.second}]++;
      SetProperties(*found->second[std::min(rank, found->second.size() - 1)], row);
    }
  }
  const bool has_listed_work = std::any_of(devices_.begin(), devices_.end(), [&](const auto& device) {
    return has_work[device.second] && trace_.devices[device.second].name != 0;
  });
  if (has_listed_work || groups_.size() > 1) return;
  for (size_t i = 0; i < std::min(unlisted.size(), properties_.size()); ++i)
    SetProperties(properties_[i].second, unlisted[i]);
}

// Tells the rows of several processes apart.
void KinetoBuilder::NameGroups() {
  const auto used = static_cast<uint64_t>(
      std::count_if(groups_.begin(), groups_.end(), [](const Group& group) { return group.has_rows; }));
  report_.processes = used;
  if (used < 2) return;
  const auto with_name = [&](uint32_t group, StringId text) {
    const std::string name(trace_.strings[text]);
    return Intern(NameOfGroup(group) + (name.empty() ? "" : " " + name));
  };
  for (uint32_t row = 0; row < trace_.threads.size(); ++row)
    trace_.threads[row].name = with_name(thread_processes_[row].group, trace_.threads[row].name);
  for (uint32_t row = 0; row < trace_.devices.size(); ++row)
    trace_.devices[row].name = with_name(device_groups_[row], trace_.devices[row].name);
  for (const auto& [key, row] : counters_) {
    model::CounterRow& counter = trace_.counters[row];
    if (counter.device == kNone) counter.name = with_name(std::get<0>(key), counter.name);
  }
  std::set<uint32_t> ordinals;
  for (const model::DeviceRow& device : trace_.devices) ordinals.insert(device.ordinal);
  if (ordinals.size() == trace_.devices.size()) return;
  // Each process calls its own device 0.
  uint32_t ordinal = 0;
  for (const auto& [key, row] : devices_) trace_.devices[row].ordinal = ordinal++;
}

}  // namespace pitot::read
