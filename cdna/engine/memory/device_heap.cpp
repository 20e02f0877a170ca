// malloc and free of device code, which come as hostcalls. The memory stays when the kernel ends. The small blocks that
// were freed last stay ours, so that checks know an access to them: nobody else can have these addresses meanwhile.
#include "device_heap.h"
#include "registry.h"
#include "unwritten.h"
#include "isa/lock.h"
#include <malloc.h>
#include <stdlib.h>

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static List<HeapBlock> blocks;  // by base

static HeapBlock* block_at(u64 base) {
  HeapBlock* found = last_from(blocks.items, blocks.count, base);
  return found && found->base == base ? found : nullptr;
}

bool heap_in_use() { return __atomic_load_n(&blocks.count, __ATOMIC_RELAXED) != 0; }

bool heap_block(u64 address, HeapBlock& out) {
  const Lock locked(heap_lock);
  const HeapBlock* block = last_from(blocks.items, blocks.count, address);
  const bool found = block && address - block->base < block->usable;
  if (found) out = *block;
  return found;
}

// False: there is no such block.
static bool give_back(u64 address) {
  static u64 kept[64];
  static u32 oldest;
  HeapBlock* block = block_at(address);
  if (!block || block->freed) return false;
  block->freed = true;
  cdna_memory_unregister(address);
  if (block->usable <= 1 << 16) {
    u64 newest = address;
    address = kept[oldest];
    kept[oldest] = newest;
    oldest = (oldest + 1) % 64;
  }
  if (!address) return true;
  block = block_at(address);
  cdna_memory_forget(address, block->usable);
  blocks.remove((u64)(block - blocks.items));
  free((void*)address);
  return true;
}

u64 heap_call(u64 address, u64 bytes, bool marks, const char** error) {
  void* p = nullptr;
  const Lock locked(heap_lock);
  if (address) {
    if (!give_back(address)) *error = "the kernel frees what malloc has not given there, or what has been freed";
  } else if (!posix_memalign(&p, 16, bytes ? bytes : 16)) {
    const HeapBlock* before = last_from(blocks.items, blocks.count, (u64)p);
    blocks.insert(before ? (u64)(before + 1 - blocks.items) : 0, {(u64)p, bytes, malloc_usable_size(p), false});
    if (marks) cdna_mark_unwritten((u8*)p, bytes);
    cdna_memory_register((u64)p, bytes, "memory of the device's malloc", false);
  }
  return (u64)p;
}
