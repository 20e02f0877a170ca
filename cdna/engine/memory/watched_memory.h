// What another library's allocator hands out: see watched_memory.cpp.
#pragma once
#include "isa/core.h"

// Pinned memory is the host's, and the card reaches it.
enum Whose : u32 { OF_DEVICE, OF_HOST, PINNED };
struct Block {
  u64 base, bytes;
  Whose whose;
  bool used() const { return base; }
  bool same(const Block& other) const { return base == other.base; }
  u64 hash() const { return base * 0x9e3779b97f4a7c15ull >> 20; }
};
bool block_at(u64 address, Block& out);  // false: in none
typedef void (*EachBlock)(const Block&, void* with);

// Where cdna_place_allocator has blocks lie.
constexpr u64 PLACE = 1ull << 44, PART_SHIFT = 36, LEAST_SHIFT = 12;
constexpr u64 PARTS = PART_SHIFT - LEAST_SHIFT, PLACE_BYTES = PARTS << PART_SHIFT;

extern "C" {
// Watches what that library, loaded already, allocates from now on; keep: and keeps what it frees for a while. Returns how
// many of its references were redirected.
int cdna_watch_allocator(const char* library, bool keep);
int cdna_place_allocator(const char* library);  // the same, where no other process's are
int cdna_align_allocator(const char* library);  // the same, for blocks that begin where a GPU's would
void cdna_fill_fresh(bool on);  // whether what it allocates from now on is filled as memory that nothing has written
bool cdna_watching();           // some library: then memory that no block holds is no tensor's
void cdna_know_block(u64 base, u64 bytes);  // of the GPU's, that comes from elsewhere
void cdna_forget_block(u64 base);           // it is given back
void cdna_claim_block(u64 base, Whose);     // that begins there: pinned it stays, for views of it are the host's, too
bool cdna_known_blocks(EachBlock, void* with);  // each of them; false: they are so many that it would take too long
}
