#pragma once
#include "isa/core.h"
#include <stdlib.h>

// A set of plain items, found by open addressing. An item tells `used()`, false of one whose bytes are zero; `same(other)`,
// whether it is the one that is looked for; and `hash()`. All bytes zero: an empty set.
template <class T> struct Table {
  T* items = nullptr;
  u64 count = 0, capacity = 0;  // a power of two, at least twice the count
  T* begin() const { return items; }
  T* end() const { return items + capacity; }  // not all of them are used
  u64 home(const T& x) const { return x.hash() & (capacity - 1); }
  T* slot(const T& like) const {  // its place, or where it would be
    u64 at = home(like);
    while (items[at].used() && !items[at].same(like)) at = (at + 1) & (capacity - 1);
    return &items[at];
  }
  T* find(const T& like) const {
    T* found = count ? slot(like) : nullptr;
    return found && found->used() ? found : nullptr;
  }
  T& add(const T& x) {  // where there is none the same
    if (2 * (count + 1) > capacity) {
      const Table old = *this;
      capacity = old.capacity ? 2 * old.capacity : 8;
      items = (T*)calloc(capacity, sizeof(T));
      for (const T& one : old)
        if (one.used()) *slot(one) = one;
      free((void*)old.items);
    }
    T* to = slot(x);
    if (!to->used()) *to = x, count++;
    return *to;
  }
  void remove(T* hole) {
    count--;
    for (u64 at = (u64)(hole - items);;) {  // what stands behind moves up if its home is not behind the hole
      memset((void*)hole, 0, sizeof(T));
      do {
        at = (at + 1) & (capacity - 1);
        if (!items[at].used()) return;
      } while (((at - home(items[at])) & (capacity - 1)) < ((at - (u64)(hole - items)) & (capacity - 1)));
      *hole = items[at];
      hole = &items[at];
    }
  }
  void clear() {
    if (count) memset((void*)items, 0, sizeof(T) * capacity);
    count = 0;
  }
  void release() {
    free((void*)items);
    items = nullptr;
    count = capacity = 0;
  }
};
