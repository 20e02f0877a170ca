// Growing arrays, and searches in sorted ones.
#pragma once
#include "isa/core.h"
#include <stdlib.h>

// Elements are plain bytes. All bytes zero: an empty one.
template <class T> struct List {
  T* items = nullptr;
  u64 count = 0, capacity = 0;
  T* begin() const { return items; }
  T* end() const { return items + count; }
  T& operator[](u64 i) const { return items[i]; }
  T& add() {
    if (count == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      items = (T*)realloc((void*)items, sizeof(T) * capacity);
    }
    return items[count++];
  }
  void insert(u64 at, const T& item) {
    T copy;
    memcpy((void*)&copy, (const void*)&item, sizeof(T));  // which may lie in what moves
    add();
    memmove((void*)(items + at + 1), (void*)(items + at), sizeof(T) * (count - 1 - at));
    memcpy((void*)(items + at), (const void*)&copy, sizeof(T));
  }
  void push(const T& item) { insert(count, item); }
  void remove(u64 at) { memmove((void*)(items + at), (void*)(items + at + 1), sizeof(T) * (--count - at)); }
  bool contains(const T& item) const {
    for (const T& one : *this)
      if (one == item) return true;
    return false;
  }
  void drop(const T& item) {
    for (u64 i = count; i-- > 0;)
      if (items[i] == item) remove(i);
  }
  void clear() { count = 0; }
  void release() {
    free((void*)items);
    items = nullptr;
    count = capacity = 0;
  }
};

// Of `n` items in the order of their keys, how many have one that is no greater than `key`.
template <class T, class Key, class KeyOf> u64 upto(const T* items, u64 n, Key key, KeyOf key_of) {
  u64 low = 0;
  for (u64 high = n; low < high;) {
    const u64 middle = (low + high) / 2;
    if (key_of(items[middle]) <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}
// Items that have a `base`, in the order of these: the last that begins at `address` or before; null: none.
template <class T> T* last_from(T* items, u64 n, u64 address) {
  const u64 at = upto(items, n, address, [](const T& x) { return (u64)x.base; });
  return at ? &items[at - 1] : nullptr;
}
