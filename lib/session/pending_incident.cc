// SPDX-License-Identifier: Apache-2.0
#include "session/pending_incident.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "pitot/trace.h"

namespace pitot::session {
namespace {

constexpr int64_t kLongestPostNs = 60'000'000'000;  // as Options::post_window_ms

}  // namespace

PendingIncident::Answer PendingIncident::Take(const QueuedFiring& firing, int64_t now_ns,
                                              IncidentBudget::Reserve reserve) {
  const uint64_t pre_ms = firing.pre_window_ms != 0 ? firing.pre_window_ms : options_.pre_window_ms;
  const uint64_t post_ms = firing.post_window_ms != 0 ? firing.post_window_ms : options_.post_window_ms;
  const uint64_t pre_ticks = detail::TicksOf(pre_ms * 1'000'000);
  // The window reaches back to the begin of the slow request, however slow it was, but not to before the recorder.
  const uint64_t window_begin_ticks = std::max(
      start_ticks_, std::min(firing.at_ticks > pre_ticks ? firing.at_ticks - pre_ticks : 0, firing.begin_ticks));
  const int64_t due_ns = now_ns + static_cast<int64_t>(post_ms) * 1'000'000;
  if (incident_ != nullptr) {
    Join(firing, window_begin_ticks, due_ns);
    return Answer::kJoined;
  }
  if (firing.joins_only) {
    NoteRefused(firing.cause, uint64_t{1} + firing.more_like_it);
    return Answer::kSuppressed;
  }
  auto incident = std::make_unique<Incident>();
  incident->cause = firing.cause;
  incident->firings.push_back(firing);
  incident->window_begin_ticks = window_begin_ticks;
  incident->latest_due_ns = now_ns + kLongestPostNs;
  incident->due_ns = due_ns;
  IncidentBudget::Answer answer;
  {
    const base::MutexLock lock(&mutex_);
    answer = budget_.Take(incident->cause, now_ns, reserve, firing.more_like_it);
    const bool is_taken = answer == IncidentBudget::Answer::kTaken || answer == IncidentBudget::Answer::kTakenOfReserve;
    if (is_taken) incident->more_like_it = firing.more_like_it + budget_.TakeRefusals(incident->cause);
  }
  if (answer == IncidentBudget::Answer::kRefused) return Answer::kRefused;
  if (answer == IncidentBudget::Answer::kRefusedAgain) return Answer::kSuppressed;
  incident->is_of_reserve = answer == IncidentBudget::Answer::kTakenOfReserve;
  incident->number = next_number_++;
  incident_ = std::move(incident);
  is_pending_.store(true);
  return Answer::kBegan;
}

// One incident lists every slow request of its window.
void PendingIncident::Join(const QueuedFiring& firing, uint64_t window_begin_ticks, int64_t due_ns) {
  Incident& incident = *incident_;
  incident.window_begin_ticks = std::min(incident.window_begin_ticks, window_begin_ticks);
  if (incident.cause == firing.cause)
    incident.more_like_it += firing.more_like_it;
  else if (firing.more_like_it != 0)
    NoteRefused(firing.cause, firing.more_like_it);
  const auto has_its_cause = [&](auto& other) { return std::strcmp(other.cause, firing.cause) == 0; };
  // Each cause gets its post window once. If every firing did, a storm would last until the rings forget its start.
  if (std::none_of(incident.firings.begin(), incident.firings.end(), has_its_cause))
    incident.due_ns = std::max(incident.due_ns, std::min(due_ns, incident.latest_due_ns));
  if (incident.firings.size() < kMostFirings)
    incident.firings.push_back(firing);
  else
    ++incident.firings_unlisted;
}

void PendingIncident::NoteRefused(const char* cause, uint64_t count) {
  const base::MutexLock lock(&mutex_);
  budget_.AddRefusals(cause, count);
}

std::unique_ptr<Incident> PendingIncident::Release() noexcept {
  is_pending_.store(false);
  return std::move(incident_);
}

void PendingIncident::NoteVerdict(const Incident& incident, IncidentBudget::Verdict verdict, int64_t now_ns) noexcept {
  const auto taken = incident.is_of_reserve ? IncidentBudget::Answer::kTakenOfReserve : IncidentBudget::Answer::kTaken;
  try {
    const base::MutexLock lock(&mutex_);
    budget_.NoteVerdict(incident.cause, taken, verdict, now_ns);
  } catch (const std::bad_alloc&) {
    // Its place is lost.
  }
}

bool PendingIncident::HasPlace(const char* cause, int64_t now_ns, IncidentBudget::Reserve reserve) {
  const base::MutexLock lock(&mutex_);
  return is_pending_.load() || budget_.Has(cause, now_ns, reserve);
}

}  // namespace pitot::session
