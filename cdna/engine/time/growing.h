// An array that grows at its end. All bytes zero: an empty one. Elements are plain bytes, and whoever has it frees `at`.
#pragma once
#include "isa/core.h"
#include <stdlib.h>

template <class T>
struct Growing {
  T* at;
  u64 n, capacity;

  T& add() {
    if (n == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      at = (T*)realloc((void*)at, capacity * sizeof(T));
    }
    return at[n++];
  }
};
