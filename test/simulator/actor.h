// SPDX-License-Identifier: Apache-2.0
//
// The truth of a thread and of the requests on it. Actors note their work and for whom it is. Requests aboard share
// their actor's fate, and those in a queue that of the later taker. No event is looked at.
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
  // Ends the current segment, and goes on with `next` (whose times do not matter).
  void Go(int64_t now_ns, const Segment& next);
  void Stop(int64_t now_ns);
  void Append(const std::vector<Segment>& segments);
  // Sets the batch of its waits in a batch's window.
  void SetBatch(uint64_t batch);
  // Its segments before `end_ns`.
  std::vector<Segment> Until(int64_t end_ns) const;
  // Takes back everything after `from_ns`: it went this way instead.
  void Replace(int64_t from_ns, const std::vector<Segment>& segments);

 private:
  std::vector<Segment> segments_;
  Segment now_;
  bool goes_on_ = false;
};

class Actor : public Thread {
 public:
  // Its activities, the outermost first.
  enum class Doing : uint8_t { kScope, kAwaitWork, kAwaitRoom, kAwaitResult, kIo, kSleep, kLock, kGranted, kCall };

  void SetTruth(Truth* truth) { truth_ = truth; }

  // For the time being it works for this request or batch, or (zeros) for none.
  void WorkFor(uint64_t request, uint64_t batch);
  uint64_t worked_for_request() const { return culprit_.request; }
  Culprit culprit() const { return {number(), culprit_.request, culprit_.batch, {}}; }
  // The recorder's context, changed as its documentation says.
  uint64_t context_request = 0, context_batch = 0;

  void Board(Path* path);
  void Leave(Path* path);
  // Sends everyone aboard this way since `from_ns`, instead of the actor's own.
  void Reroute(int64_t from_ns, const std::vector<Segment>& way) {
    for (Path* path : aboard_) path->Replace(from_ns, way);
  }
  // The segments of requests in `queue` since `from_ns` that this actor takes now.
  std::vector<Segment> TileQueue(const std::string& queue, int64_t from_ns) const;

  // The lock it waits for has another owner; or is its own now.
  void SetLockOwner(const Culprit& owner);
  void SetGranted();

  // Notes an activity for the time of a block, and makes the event that the recorder should have.
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
  // Notes unfinished activities as open events.
  void NoteOpen();

 private:
  struct Activity {
    Doing doing;
    std::string name;
    int64_t begin_ns;
    Culprit owner;      // of the lock, now
    pitot::Owner said;  // to the recorder
  };
  // Its work from then on, as others see it.
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
