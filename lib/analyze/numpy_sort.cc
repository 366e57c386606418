// SPDX-License-Identifier: Apache-2.0
#include "analyze/numpy_sort.h"

#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

namespace pitot::peers {
namespace {

using Index = std::ptrdiff_t;

constexpr Index kSmall = 16;

class Sorter {
 public:
  Sorter(const std::vector<int64_t>& values, std::vector<uint32_t>* order) : values_(values), order_(order->data()) {}

  void Sort(Index size) {
    struct Part {
      Index first, last;
      int depth;
    };
    std::vector<Part> parts = {{0, size - 1, 2 * static_cast<int>(std::bit_width(static_cast<size_t>(size)) - 1)}};
    while (!parts.empty()) {
      Part part = parts.back();
      parts.pop_back();
      if (part.depth < 0) {
        HeapSort(part.first, part.last - part.first + 1);
        continue;
      }
      while (part.last - part.first > kSmall) {
        const Index middle = Split(part.first, part.last);
        --part.depth;
        // The larger part later.
        if (middle - part.first < part.last - middle) {
          parts.push_back({middle + 1, part.last, part.depth});
          part.last = middle - 1;
        } else {
          parts.push_back({part.first, middle - 1, part.depth});
          part.first = middle + 1;
        }
      }
      InsertionSort(part.first, part.last);
    }
  }

 private:
  int64_t At(Index i) const { return values_[order_[i]]; }
  void Swap(Index a, Index b) { std::swap(order_[a], order_[b]); }

  Index Split(Index first, Index last) {
    const Index middle = first + ((last - first) >> 1);
    if (At(middle) < At(first)) Swap(middle, first);
    if (At(last) < At(middle)) Swap(last, middle);
    if (At(middle) < At(first)) Swap(middle, first);
    const int64_t pivot = At(middle);
    Index low = first, high = last - 1;
    Swap(middle, high);
    for (;;) {
      do ++low;
      while (At(low) < pivot);
      do --high;
      while (pivot < At(high));
      if (low >= high) break;
      Swap(low, high);
    }
    Swap(low, last - 1);
    return low;
  }

  void InsertionSort(Index first, Index last) {
    for (Index i = first + 1; i <= last; ++i) {
      const uint32_t row = order_[i];
      Index to = i;
      for (; to > first && values_[row] < At(to - 1); --to) order_[to] = order_[to - 1];
      order_[to] = row;
    }
  }

  void HeapSort(Index first, Index size) {
    uint32_t* const heap = order_ + first - 1;  // counts from 1
    const auto sink = [&](Index at, uint32_t row) {
      for (Index child = at * 2; child <= size; child = at * 2) {
        if (child < size && values_[heap[child]] < values_[heap[child + 1]]) ++child;
        if (values_[row] >= values_[heap[child]]) break;
        heap[at] = heap[child];
        at = child;
      }
      heap[at] = row;
    };
    for (Index at = size / 2; at > 0; --at) sink(at, heap[at]);
    while (size > 1) {
      const uint32_t row = heap[size];
      heap[size--] = heap[1];
      sink(1, row);
    }
  }

  const std::vector<int64_t>& values_;
  uint32_t* order_;
};

}  // namespace

std::vector<uint32_t> NumpyArgsort(const std::vector<int64_t>& values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  if (values.size() > 1) Sorter(values, &order).Sort(static_cast<Index>(values.size()));
  return order;
}

}  // namespace pitot::peers
