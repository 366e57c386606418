// SPDX-License-Identifier: Apache-2.0
#include "peers/numpy_sort.h"

#include <bit>
#include <cstddef>
#include <utility>

namespace pitot::peers {
namespace {

using Index = std::ptrdiff_t;

constexpr Index kSmall = 16;

struct Item {
  int64_t value;
  uint32_t row;
};

class Sorter {
 public:
  explicit Sorter(std::vector<Item>* items) : items_(items->data()) {}

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
        // Sort the larger part later.
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
  int64_t At(Index i) const { return items_[i].value; }
  void Swap(Index a, Index b) { std::swap(items_[a], items_[b]); }

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
      const Item item = items_[i];
      Index to = i;
      for (; to > first && item.value < At(to - 1); --to) items_[to] = items_[to - 1];
      items_[to] = item;
    }
  }

  void HeapSort(Index first, Index size) {
    Item* const heap = items_ + first - 1;  // counts from 1
    const auto sink = [&](Index at, const Item& item) {
      for (Index child = at * 2; child <= size; child = at * 2) {
        if (child < size && heap[child].value < heap[child + 1].value) ++child;
        if (item.value >= heap[child].value) break;
        heap[at] = heap[child];
        at = child;
      }
      heap[at] = item;
    };
    for (Index at = size / 2; at > 0; --at) sink(at, Item(heap[at]));
    while (size > 1) {
      const Item item = heap[size];
      heap[size--] = heap[1];
      sink(1, item);
    }
  }

  Item* const items_;
};

}  // namespace

std::vector<uint32_t> NumpyArgsort(const std::vector<int64_t>& values) {
  std::vector<Item> items;  // side by side: a value is compared more often than it moves
  items.reserve(values.size());
  for (const int64_t value : values) items.push_back({value, static_cast<uint32_t>(items.size())});
  if (items.size() > 1) Sorter(&items).Sort(static_cast<Index>(items.size()));
  std::vector<uint32_t> order;
  order.reserve(items.size());
  for (const Item& item : items) order.push_back(item.row);
  return order;
}

}  // namespace pitot::peers
