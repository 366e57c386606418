// SPDX-License-Identifier: Apache-2.0
#include "cli/box_incidents.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/control_group.h"
#include "cli/files.h"
#include "cli/gpu_view.h"
#include "collect/stacks/traced.h"
#include "session/incident_directory.h"
#include "session/kernel_view.h"

namespace pitot::cli {
namespace {

// A host's defaults are bounded by its budget; a tool takes what is there, but no more than half of what is free: the
// server may live in the same control group.
struct Room {
  uint64_t words, row_bytes;
};
Room FindRoom() {
  constexpr uint64_t kMostWords = uint64_t{1} << 27, kMostRowBytes = uint64_t{4} << 30;
  constexpr uint64_t kLeastBytes = 16 << 20;  // an incident without its records would cost the black box
  const uint64_t part_bytes = std::max(FreeMemory() / 4, kLeastBytes);
  return {std::min(kMostWords, part_bytes / sizeof(uint64_t)), std::min(kMostRowBytes, part_bytes)};
}

class NoThrottle final : public session::Throttle {
  bool Proceed() noexcept override { return true; }
};

int WriteIncident(session::FoundBox* box, const model::Trace& trace, const IncidentPlace& place,
                  std::vector<std::unique_ptr<Serializer>> more) {
  const std::string& own = box->reader().facts().incident_directory;
  session::IncidentDirectory directory;
  NoThrottle throttle;
  std::string written;
  Status status = directory.Open(!place.directory.empty() ? place.directory
                                 : !own.empty()           ? own
                                                          : ".",
                                 session::DirectoryTrust::kOwn);
  // Another folder is not the server's, and has no quota.
  const session::DirectoryQuota none{UINT64_MAX, UINT64_MAX};
  const snapshot::BoxFacts& facts = box->reader().facts();
  const session::DirectoryQuota quota = place.directory.empty() && !own.empty()
                                            ? session::DirectoryQuota{facts.most_incidents, facts.most_incident_bytes}
                                            : none;
  if (status.ok())
    status = session::WritePostMortem(trace, *box, quota, &directory, &throttle, &written, std::move(more));
  if (!status.ok()) {
    Complain(absl::StrCat(box->path(), ": ", status.message(), "; name another folder by -o"));
    return kNotWritten;
  }
  const std::string detail(trace.strings[trace.firings.front().detail]);
  place.tell(detail, "  its last seconds: " + written);
  return kDone;
}

void AddProblem(const std::string& problem, session::KernelView* view) {
  if (!problem.empty()) view->problem += (view->problem.empty() ? "" : "; ") + problem;
}

// A thread in a wait of the kernel's cannot be asked. A process of its own looks for names: the files may be out of
// reach, or be cut meanwhile.
void AddStacks(int64_t pid, session::KernelView* view) {
  constexpr int64_t kPatienceNs = 3'000'000'000;
  std::vector<int64_t> tids;
  for (const session::ThreadView& thread : view->threads) {
    if (thread.state == 'R' || thread.state == 'S' || thread.state == 'T') tids.push_back(thread.tid);
  }
  const stacks::CopiedStacks copied = stacks::CopyStacks(std::move(tids));
  AddProblem(copied.problem, view);
  if (copied.samples.empty()) return;
  const Told told = AskInChild(
      [&](const Teller& teller) {
        teller.Begin("while it named the functions of stacks");
        const std::string why_not = stacks::UnwindStacks(static_cast<pid_t>(pid), copied.samples,
                                                         [&](int64_t tid, const std::vector<std::string>& frames) {
                                                           for (const std::string& frame : frames)
                                                             teller.Tell(std::to_string(tid), frame);
                                                         });
        if (!why_not.empty()) teller.Tell("missing", why_not);
      },
      kPatienceNs);
  for (session::ThreadView& thread : view->threads) thread.frames = told.Each(std::to_string(thread.tid));
  AddProblem(told.Get("missing"), view);
  if (!told.failure.empty()) AddProblem("stacks: a process " + told.failure, view);
}

}  // namespace

bool ComplainOfFolder(const std::string& path) {
  const std::string doubt = session::DoubtAbout(path);
  if (!doubt.empty()) Complain(absl::StrCat(path, " is not safe for black boxes: ", doubt));
  return !doubt.empty();
}

void PrintIncident(const std::string& what, const std::string& below) {
  PrintLine(base::SanitizeText(what));
  PrintLine(base::SanitizeText(below));
}

int RecoverBox(session::FoundBox* box, const session::SeenEnd& seen, const IncidentPlace& place, AfterIt after) {
  const Room room = FindRoom();
  const int written = WriteIncident(box, session::TraceOf(&box->reader(), seen, room.words, room.row_bytes), place, {});
  if (written != kDone || after == AfterIt::kKeep || box->Remove()) return written;
  Complain(absl::StrCat(box->path(), ": cannot be removed, and will be found again: may its folder be written?"));
  return kNotWritten;
}

int WriteWedged(session::FoundBox* box, const session::Wedge& wedge, int64_t pid, const WedgeQuestions& ask,
                const IncidentPlace& place) {
  // First: it may go on meanwhile.
  session::KernelView view;
  if (pid != 0)
    view = session::ViewOf(pid);
  else
    view.problem = "its process is not seen from here: share the namespace of processes";
  if (pid != 0 && ask.reads_stacks) AddStacks(pid, &view);
  box->reader().ExpectGrowth();
  const Room room = FindRoom();
  const model::Trace trace = session::TraceOfWedged(&box->reader(), wedge, view, room.words, room.row_bytes);
  std::vector<std::unique_ptr<Serializer>> files;
  files.push_back(session::MakeThreadsFile(&view));
  if (std::string gpus = GpuView(ask.nvml, pid); !gpus.empty()) files.push_back(MakeGpusFile(std::move(gpus)));
  return WriteIncident(box, trace, place, std::move(files));
}

}  // namespace pitot::cli
