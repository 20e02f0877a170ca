// Code objects that a program loads: ELF files, and bundles of them. cdna.hip.hiprtc reads them, in a process of its own.
#include "rtc_process.h"

static const char BUNDLE[] = "__CLANG_OFFLOAD_BUNDLE__", COMPRESSED[] = "CCOB",
                  ELF[] =
                      "\x7f"
                      "ELF";

template <class T> static T at(const u8* data, size_t offset) {
  T value;
  memcpy(&value, data + offset, sizeof value);
  return value;
}

// What its headers say: hipModuleLoadData is not told.
static size_t bytes_of(const u8* data) {
  if (!memcmp(data, ELF, 4)) {  // Elf64_Ehdr: the table of sections is the last thing that compilers write
    size_t end = at<u64>(data, 40) + (size_t)at<u16>(data, 58) * at<u16>(data, 60);
    const u8* segment = data + at<u64>(data, 32);
    for (u32 n = at<u16>(data, 56); n; n--, segment += at<u16>(data, 54)) {
      size_t segment_end = at<u64>(segment, 8) + at<u64>(segment, 32);
      end = segment_end > end ? segment_end : end;
    }
    return end;
  }
  if (!memcmp(data, COMPRESSED, 4)) {  // version 2: u32 behind version and method; 3: u64; 1 has none
    u16 version = at<u16>(data, 4);
    return version == 2 ? at<u32>(data, 8) : version == 3 ? at<u64>(data, 8) : 0;
  }
  size_t end = 0, place = sizeof BUNDLE - 1 + 8;
  for (u64 n = at<u64>(data, sizeof BUNDLE - 1); n; n--) {
    size_t entry_end = at<u64>(data, place) + at<u64>(data, place + 8);
    end = entry_end > end ? entry_end : end;
    place += 24 + at<u64>(data, place + 16);
  }
  return end;
}

bool is_code_object(const u8* data) {
  return !memcmp(data, ELF, 4) || !memcmp(data, COMPRESSED, 4) || !memcmp(data, BUNDLE, sizeof BUNDLE - 1);
}

Text load_code_object(const u8* object, size_t bytes, const char* what) {
  CompilerFolder folder;
  if (!folder.made()) return {nullptr, 0};
  folder.write("object", (const char*)object, bytes ? bytes : bytes_of(object));
  folder.run(what, "load");
  Text log = folder.read("log");
  if (log.size) say("%s: %.*s", what, (int)strcspn(log.bytes, "\n"), log.bytes);
  free(log.bytes);
  return folder.read("code");
}
