// SPDX-License-Identifier: Apache-2.0
//
// Spans of requests, on no thread. They give unrecorded time a place.
#ifndef PITOT_LIB_ANALYZE_BLAME_REQUEST_SPANS_H_
#define PITOT_LIB_ANALYZE_BLAME_REQUEST_SPANS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/analyze/why.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

// A request's spans of one name.
struct SlowSpan {
  model::StringId name = 0;  // 0: none
  bool is_stage = false;
  int64_t ns = 0;        // unrecorded time in them, without spans within them
  int64_t usual_ns = 0;  // the median of all requests of its route and size; 0 in those without such a span
  // As long as the request, here and in most of these: it says no more than the request does.
  bool is_whole = false;
};

// Async spans of all requests, and stages of those on no known thread.
class RequestSpans {
 public:
  // O(n log n).
  RequestSpans(const model::Trace& trace, const model::RequestIndex& requests);

  // The name with most of the request's unrecorded time beyond the usual, if it has half of it or more. Such time is
  // usual as far as the request took no longer than the median of its route and size. One as long as the request comes
  // last. O(segments + spans).
  SlowSpan InUnrecorded(const RequestBlame& blame) const;

 private:
  using Name = std::pair<model::StringId, bool>;  // and whether it is a stage
  struct Piece {
    int64_t begin_ns, end_ns;
    Name name;
    bool is_whole;  // its span is as long as the request
  };
  struct Like {
    std::vector<int64_t> latencies_ns;
    std::map<Name, std::vector<int64_t>> spans_ns;  // of requests with such a span
    std::map<Name, size_t> wholes;                  // requests in which it is as long as they are
    int64_t usual_ns = 0;
    std::map<Name, int64_t> usual_of_ns;
  };
  // Its time in spans of a name.
  struct Time {
    int64_t ns = 0;
    bool is_whole = false;
  };
  std::vector<Piece> Flat(uint32_t request, const model::RequestIndex& requests) const;

  const model::Trace& trace_;
  std::vector<Piece> pieces_;  // by request, in order, without overlaps
  std::vector<uint32_t> starts_;
  std::map<std::pair<model::StringId, uint32_t>, Like> likes_;  // by route and size
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_REQUEST_SPANS_H_
