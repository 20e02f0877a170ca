// Files that are read whole.
#pragma once
#include "runtime.h"

struct Text {
  char* bytes;  // a zero after them
  size_t size;
};
Text read_file(const char* path);  // no bytes where there is no such file, or it cannot be read
