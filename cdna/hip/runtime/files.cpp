#include "files.h"

Text read_file(const char* path) {
  Text t = {nullptr, 0};
  FILE* f = fopen(path, "rb");
  if (!f) return t;
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  if (size >= 0) t.bytes = (char*)calloc(1, size + 1);
  if (t.bytes && fread(t.bytes, 1, size, f) == (size_t)size) {
    t.size = size;
  } else {
    free(t.bytes);
    t.bytes = nullptr;
  }
  fclose(f);
  return t;
}
