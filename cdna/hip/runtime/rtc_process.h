// What compiles while a program runs: cdna/hip/hiprtc.py in a process of its own. It is given a folder of files
// and leaves its results there.
#pragma once
#include "files.h"

struct CompilerFolder {
  char path[500];
  CompilerFolder();
  ~CompilerFolder();  // with what is in it
  bool made() const { return path[0]; }
  void write(const char* name, const char* bytes, size_t size) const;
  void write_list(const char* name, const char* const* texts, u32 n) const;  // one after the other, each with its zero
  Text read(const char* name) const;
  // The process' exit code (see hiprtc.py), or -1 after saying why it did not run. call: what the program called.
  int run(const char* call, const char* action) const;
};

void release_texts(List<char*>&);

// Code of the emulated device out of a code object or a bundle of them; none where it is none, or what keeps it from being
// loaded has been said. bytes: 0 where its own headers have to say how long it is. what: whose it is.
bool is_code_object(const u8* data);
Text load_code_object(const u8* object, size_t bytes, const char* what);
