// malloc and free of device code, which come as hostcalls. The memory stays when the kernel ends. The small blocks that
// were freed last stay ours, so that checks know an access to them: nobody else can have these addresses meanwhile.
#include "device_heap.h"
#include "registry.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static HeapBlock* blocks;  // by base
static u32 n_blocks, max_blocks;

static u32 position(u64 address) {  // of the first block that begins behind it
  u32 low = 0, high = n_blocks;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (blocks[middle].base <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void enter(u64 base, u64 bytes) {
  if (n_blocks == max_blocks)
    blocks = (HeapBlock*)realloc(blocks, sizeof(HeapBlock) * (max_blocks = 2 * max_blocks + 64));
  const u32 at = position(base);
  memmove(blocks + at + 1, blocks + at, sizeof(HeapBlock) * (n_blocks++ - at));
  blocks[at] = {base, bytes, malloc_usable_size((void*)base), false};
}

static HeapBlock* block_at(u64 base) {
  const u32 at = position(base);
  return at && blocks[at - 1].base == base ? &blocks[at - 1] : nullptr;
}

bool heap_in_use() { return __atomic_load_n(&n_blocks, __ATOMIC_RELAXED) != 0; }

bool heap_block(u64 address, HeapBlock& out) {
  pthread_mutex_lock(&heap_lock);
  const u32 at = position(address);
  const bool found = at && address - blocks[at - 1].base < blocks[at - 1].usable;
  if (found) out = blocks[at - 1];
  pthread_mutex_unlock(&heap_lock);
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
  memmove(block, block + 1, sizeof(HeapBlock) * (size_t)(blocks + n_blocks-- - block - 1));
  free((void*)address);
  return true;
}

u64 heap_call(u64 address, u64 bytes, const char** error) {
  void* p = nullptr;
  pthread_mutex_lock(&heap_lock);
  if (address) {
    if (!give_back(address)) *error = "the kernel frees what malloc has not given there, or what has been freed";
  } else if (!posix_memalign(&p, 16, bytes ? bytes : 16)) {
    enter((u64)p, bytes);
    cdna_memory_register((u64)p, bytes, "memory of the device's malloc", false);
  }
  pthread_mutex_unlock(&heap_lock);
  return (u64)p;
}
