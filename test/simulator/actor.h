// SPDX-License-Identifier: Apache-2.0
//
// The truth of a thread and of the requests that are on it. Actors note what they do and for whom; requests that are
// aboard experience what their actor does, and those in a queue what its taker did meanwhile. No event is looked at.
#ifndef PITOT_TEST_SIMULATOR_ACTOR_H_
#define PITOT_TEST_SIMULATOR_ACTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/simulator.h"
#include "simulator/world.h"

namespace simulator {

// How a request (or a part of it) got from one moment to another.
class Path {
 public:
  // Ends what was going on, and goes on with `next` (whose times do not matter).
  void Go(int64_t now_ns, const Segment& next);
  void Stop(int64_t now_ns);
  void Append(const std::vector<Segment>& segments);
  // Where it waited in a batch's window, it was this batch's.
  void SetBatch(uint64_t batch);
  // What it was made of before `end_ns`.
  std::vector<Segment> Until(int64_t end_ns) const;
  // Takes back what came after `from_ns`: it went this way instead.
  void Replace(int64_t from_ns, const std::vector<Segment>& segments);

 private:
  std::vector<Segment> segments_;
  Segment now_;
  bool goes_on_ = false;
};

class Actor : public Thread {
 public:
  // What it does, the outermost first.
  enum class Doing : uint8_t { kScope, kAwaitWork, kAwaitRoom, kAwaitResult, kIo, kSleep, kLock, kGranted, kCall };

  void SetTruth(Truth* truth) { truth_ = truth; }

  // For the time being it works for this request or batch, or (zeros) for none.
  void WorkFor(uint64_t request, uint64_t batch);
  uint64_t worked_for_request() const { return culprit_.request; }
  Culprit culprit() const { return {number(), culprit_.request, culprit_.batch, {}}; }
  // The recorder's context, as its documentation says it changes.
  uint64_t context_request = 0, context_batch = 0;

  void Board(Path* path);
  void Leave(Path* path);
  // All that are aboard went this way from then on, instead of what the actor did.
  void Reroute(int64_t from_ns, const std::vector<Segment>& way) {
    for (Path* path : aboard_) path->Replace(from_ns, way);
  }
  // What those experienced that were in `queue` since `from_ns` and are taken by this actor now.
  std::vector<Segment> TileQueue(const std::string& queue, int64_t from_ns) const;

  // The lock it waits for has another owner; or is its own now.
  void SetLockOwner(const Culprit& owner);
  void SetGranted();

  // Notes that it does something for the time of a block. Makes the event that the recorder should have.
  class Block {
   public:
    Block(Actor* actor, Doing doing, const std::string& name, const Culprit& owner = {});
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    Actor* actor_;
  };
  // Notes an event without duration.
  void Note(pitot::SiteKind kind, const std::string& name, uint64_t value = 0);
  // Notes what is still going on as open events.
  void NoteOpen();

 private:
  struct Activity {
    Doing doing;
    std::string name;
    int64_t begin_ns;
    Culprit owner;      // of the lock, now
    pitot::Owner said;  // to the recorder
  };
  // What it did from then on, as others see it.
  struct Spell {
    int64_t begin_ns;
    bool is_free;  // would take work at once
    Culprit culprit;
  };
  Segment Here() const;
  void Changed();
  TrueEvent EventOf(const Activity& activity, int64_t end_ns) const;

  Truth* truth_ = nullptr;
  Culprit culprit_;
  std::vector<Activity> activities_;
  std::vector<Path*> aboard_;
  std::vector<Spell> spells_;
};

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_ACTOR_H_
