// SPDX-License-Identifier: Apache-2.0
//
// The requests of a server's log, by the server's id. Lines say when they began, lived and ended, in any order.
#ifndef PITOT_LIB_READ_SERVED_REQUESTS_H_
#define PITOT_LIB_READ_SERVED_REQUESTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/outcome.h"
#include "read/trace_builder.h"

namespace pitot::read {

// What the log says of a request.
struct ServedRequest {
  model::StringId id = 0, route = 0, finish = 0, reason = 0;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t last_ns = 0;  // its last sign of life
  bool is_begun = false, is_ended = false;
  bool is_replaced = false;  // by another request with its id
  Outcome outcome = Outcome::kOk;
  int64_t queue_ns = 0, first_token_ns = 0;  // after begin; 0: not said
  int64_t input_tokens = -1, cached_tokens = -1, output_tokens = -1;
};

class ServedRequests {
 public:
  // `trace` must outlive this.
  explicit ServedRequests(model::Trace* trace) : trace_(*trace) {}

  // A new one. An open one with this id has ended, because servers refuse the id of an open request.
  ServedRequest* Add(std::string_view id, std::string_view route);
  // The last one with this id, or with the id before the "-" and eight digits that vLLM adds; otherwise nullptr.
  ServedRequest* Find(std::string_view id);
  // The same, or one whose begin is not in the log.
  ServedRequest* FindOrAdd(std::string_view id, std::string_view route);
  model::StringId Intern(std::string_view text);

  const std::vector<ServedRequest>& all() const { return all_; }

  // Adds them to the trace, which `builder` makes. Those without a begin began at `first_ns`.
  void AddTo(TraceBuilder* builder, int64_t first_ns);
  // Routes of which the log has no end.
  std::set<model::StringId> RoutesWithoutEnds() const;

 private:
  void AddDetails(const ServedRequest& from, model::RequestRow* row);

  model::Trace& trace_;
  std::vector<ServedRequest> all_;
  std::unordered_map<std::string, uint32_t> by_id_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SERVED_REQUESTS_H_
