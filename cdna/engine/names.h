// What tables ask of an instruction's name.
#pragma once
#include <string.h>

static inline bool starts(const char* name, const char* prefix) { return !strncmp(name, prefix, strlen(prefix)); }
static inline bool has(const char* name, const char* part) { return strstr(name, part) != nullptr; }
