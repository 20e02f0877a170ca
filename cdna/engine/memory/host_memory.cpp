#include "host_memory.h"
#include "watched_memory.h"
#include "program/program.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static bool apart;
bool host_is_apart() { return apart; }
extern "C" bool cdna_host_apart(bool now) {
  const bool before = apart;
  apart = now;
  return before;
}

bool mapping_at(u64 address, Mapping& out) {
  FILE* maps = fopen("/proc/self/maps", "r");
  if (!maps) return false;
  char line[512], flags[8];
  bool found = false;
  while (!found && fgets(line, sizeof line, maps)) {
    unsigned long long from, to;
    out.name[0] = 0;
    if (sscanf(line, "%llx-%llx %7s %*s %*s %*s %199s", &from, &to, flags, out.name) < 3) continue;
    found = address >= from && address < to;
    out.from = from;
    out.to = to;
    out.readable = flags[0] == 'r';
  }
  fclose(maps);
  return found;
}

bool is_host_memory(u64 address, char* what, u32 size) {
  if (program_at(address)) return false;
  if (Block block; block_at(address, block)) {
    snprintf(what, size, "a CPU tensor of %llu bytes", (unsigned long long)block.bytes);
    return block.whose == OF_HOST;
  }
  Mapping m;
  if (!mapping_at(address, m)) return false;
  char own[200];  // of a program that lies in a cache: its file says nothing
  const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  own[length < 0 ? 0 : length] = 0;
  const char* file = strcmp(m.name, "/dev/zero") ? strrchr(m.name, '/') : nullptr;  // which stands for no file
  snprintf(what, size, "%s",
           !strcmp(m.name, "[stack]") ? "the stack"
           : !strcmp(m.name, own)     ? program_invocation_short_name
           : file                     ? file + 1
                                      : "memory");
  return m.readable;  // shared with other processes or not: the card's own is in a range, or in a block
}
