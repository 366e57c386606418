// SPDX-License-Identifier: Apache-2.0
//
// The ends of the process, for Options::handle_ends. At exit() and SIGTERM the recorder flushes. Fatal signals and
// std::terminate leave a note (death_note.h), and abort() flushes after it. Then whatever would have happened without
// Pitot happens: the status of the process is the same. The session installs this and lends it a thread.
#ifndef PITOT_LIB_ENDS_ENDS_H_
#define PITOT_LIB_ENDS_ENDS_H_

#include <cstdint>
#include <memory>

#include "pitot/options.h"

namespace pitot::ends {

// The host's objects at an end. kBroken: some may be destroyed, or locked for ever.
enum class HostState : uint8_t { kWhole, kBroken };

// The recorder.
class Flushed {
 public:
  // Writes what fired within `grace_ms`. Threads: any of this process.
  virtual void FlushAtEnd(HostState host, uint32_t grace_ms) noexcept = 0;

 protected:
  ~Flushed() = default;
};

// Handles ends of this process from now on, one recorder at a time. In the child of a fork, of any kind, what is
// installed only passes on. False: no memory. Threads: one at a time, as for End.
bool Begin(Ends which, uint32_t grace_ms, std::weak_ptr<Flushed> flushed) noexcept;
// The work of the thread lent by the session between the two: flushes for handlers. Returns after
// Close.
void Serve() noexcept;
// Looks for new libraries, which a note may have to name. The watcher's. Does nothing unless crashes are handled.
void Watch() noexcept;
// Takes back what is installed, and ends Serve. Handlers that others have covered since stay, and pass on.
void Close() noexcept;

}  // namespace pitot::ends

#endif  // PITOT_LIB_ENDS_ENDS_H_
