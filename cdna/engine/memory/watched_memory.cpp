// Memory that another library's allocator hands out, for the checks: a tensor of torch's for the host is the GPU's here.
// The library's calls of posix_memalign and free are led through this file, which knows every block's extent from then on.
// What is freed stays where it is for a while, so that a kernel that goes there is told of.
// A tensor for the host in a process whose GPU is emulated is the host's still: of a block it is said whose it is.
// Apart from the checks: an allocator may be made to begin blocks where a GPU's would, for the model of time.
#include "watched_memory.h"
#include "list.h"
#include "registry.h"
#include "table.h"
#include "unwritten.h"
#include "isa/lock.h"
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __x86_64__
constexpr u32 GLOBAL_DATA = R_X86_64_GLOB_DAT, JUMP_SLOT = R_X86_64_JUMP_SLOT;
#else
constexpr u32 GLOBAL_DATA = R_AARCH64_GLOB_DAT, JUMP_SLOT = R_AARCH64_JUMP_SLOT;
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool watching, keeping, aligning, filling;  // keeping: what is freed, for a while
static Table<Block> blocks;

static Block* block_from(u64 base) { return blocks.find({base, 0, OF_DEVICE}); }

static void enter(const Block& b) { blocks.add(b) = b; }

// The block's size; 0 if it was there before this file came.
static u64 leave(u64 base) {
  Block* block = block_from(base);
  const u64 bytes = block ? block->bytes : 0;
  if (block) blocks.remove(block);
  return bytes;
}

// PyTorch's caching allocator on a GPU begins each block at a multiple of 512 bytes (CUDACachingAllocator, kMinBlockSize).
// Here at a page, as the first of a segment: the modelled caches number pages as they are touched, and which small blocks
// shared one would be the host's to say.
constexpr size_t BLOCK_ALIGNMENT = 4096;

// Blocks in a place where no process of ours has anything: so another one may have the same at the same addresses, which
// makes anew what kernels did there (run/journal.h). Each of its parts has blocks of one size, a power of 2.
constexpr u64 CLEARED_SHIFT = 25;  // of a size that is cleared when freed
static bool placing;
static struct {
  List<u64> freed;
  u64 end;  // 0: it is not there yet
} parts[PARTS];

static bool is_placed(u64 base) { return base - PLACE < PLACE_BYTES; }
static u64 placed_bytes(u64 base) { return 1ull << (LEAST_SHIFT + ((base - PLACE) >> PART_SHIFT)); }

static u64 placed(size_t bytes) {  // 0: there is no room
  u32 part = 0;
  while (part < PARTS && 1ull << (LEAST_SHIFT + part) < bytes) part++;
  if (part == PARTS) return 0;
  const Lock locked(lock);
  auto& p = parts[part];
  if (p.freed.count) return p.freed[--p.freed.count];
  const u64 begin = PLACE + ((u64)part << PART_SHIFT), size = 1ull << (LEAST_SHIFT + part);
  if (!p.end) {
    void* there = mmap((void*)begin, 1ull << PART_SHIFT, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);  // a hint: nobody else asks for it
    if (there != (void*)begin) return 0;
    p.end = begin;
  }
  if (p.end + size > begin + (1ull << PART_SHIFT)) return 0;
  p.end += size;
  return p.end - size;
}

// The lock is held.
static void give_back(void* p) {
  const u64 base = (u64)p;
  if (!is_placed(base)) return free(p);
  const u64 bytes = placed_bytes(base);
  if (bytes >> CLEARED_SHIFT) madvise(p, bytes, MADV_DONTNEED);
  parts[(base - PLACE) >> PART_SHIFT].freed.push(base);
}

static int led_memalign(void** out, size_t alignment, size_t bytes) {
  if (aligning && alignment < BLOCK_ALIGNMENT) alignment = BLOCK_ALIGNMENT;
  const u64 own = placing && bytes && alignment <= BLOCK_ALIGNMENT ? placed(bytes) : 0;
  int error = own ? 0 : posix_memalign(out, alignment, bytes);
  if (own) *out = (void*)own;
  if (filling && !error) cdna_mark_unwritten((u8*)*out, bytes);
  if (watching && !error && bytes) {
    pthread_mutex_lock(&lock);
    enter({(u64)*out, bytes, OF_DEVICE});
    pthread_mutex_unlock(&lock);
  }
  return error;
}

// --- what has been freed --------------------------------------------------------------------------------

constexpr u64 MOST_FREED = 128 << 20, MOST_OF_ONE = 64 << 20;  // bytes that wait
constexpr u32 FREED = 128;
static struct {
  u64 base, bytes;
} freed[FREED];
static u32 first_freed, n_freed;
static u64 freed_bytes;

static void give_back_oldest() {
  auto b = freed[first_freed % FREED];
  first_freed++;
  n_freed--;
  freed_bytes -= b.bytes;
  cdna_memory_forget(b.base, b.bytes);
  give_back((void*)b.base);
}

static void watched_free(void* p) {
  if (!p) return;
  const Lock locked(lock);
  u64 bytes = leave((u64)p);
  if (!bytes) bytes = is_placed((u64)p) ? placed_bytes((u64)p) : malloc_usable_size(p);
  if (bytes > MOST_OF_ONE || !keeping) {
    give_back(p);
  } else {
    while (n_freed && (n_freed == FREED || freed_bytes + bytes > MOST_FREED)) give_back_oldest();
    freed[(first_freed + n_freed++) % FREED] = {(u64)p, bytes};
    freed_bytes += bytes;
    char name[64];
    snprintf(name, sizeof name, "a tensor of %llu bytes", (unsigned long long)bytes);
    cdna_memory_register((u64)p, bytes, name, false);
    cdna_memory_unregister((u64)p);
  }
}

extern "C" {
void cdna_know_block(u64 base, u64 bytes) {
  const Lock locked(lock);
  if (bytes) enter({base, bytes, OF_DEVICE});
}
void cdna_forget_block(u64 base) {
  const Lock locked(lock);
  (void)leave(base);
}

void cdna_claim_block(u64 base, Whose whose) {
  const Lock locked(lock);
  if (Block* b = block_from(base); b && b->whose != PINNED) b->whose = whose;
}

bool cdna_watching() { return watching; }

bool cdna_known_blocks(EachBlock each, void* with) {
  constexpr u64 MOST = 1 << 14;
  const Lock locked(lock);
  const bool few = blocks.count <= MOST;
  for (const Block& b : blocks)
    if (few && b.used()) each(b, with);
  return few;
}
}

bool block_at(u64 address, Block& out) {
  bool found = false;
  const Lock locked(lock);
  for (const Block& b : blocks)
    if (address - b.base < b.bytes) {
      out = b;
      found = true;
      break;
    }
  return found;
}

// --- the library's table of addresses ----------------------------------------------------------------

struct Search {
  const char* library;
  bool frees;  // its calls of free, too
  int redirected;
};

static void redirect(u64* slot, u64 function) {
  u64 page_bytes = (u64)sysconf(_SC_PAGESIZE), page = (u64)slot & ~(page_bytes - 1);
  mprotect((void*)page, page_bytes, PROT_READ | PROT_WRITE);  // it may be read-only after relocation
  __atomic_store_n(slot, function, __ATOMIC_RELEASE);
}

static int look_at(dl_phdr_info* object, size_t, void* data) {
  Search& s = *(Search*)data;
  const char* name = strrchr(object->dlpi_name, '/');
  if (strcmp(name ? name + 1 : object->dlpi_name, s.library)) return 0;
  const ElfW(Dyn)* dynamic = nullptr;
  for (u32 i = 0; i < object->dlpi_phnum; i++)
    if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = (const ElfW(Dyn)*)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
  u64 symbols = 0, names = 0, tables[2] = {}, bytes[2] = {};  // of relocations: data's, calls'
  for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
    u64 value = dynamic->d_un.d_val;
    u64 address = value < object->dlpi_addr ? object->dlpi_addr + value : value;  // glibc has added it, others have not
    switch (dynamic->d_tag) {
      case DT_SYMTAB: symbols = address; break;
      case DT_STRTAB: names = address; break;
      case DT_RELA: tables[0] = address; break;
      case DT_RELASZ: bytes[0] = value; break;
      case DT_JMPREL: tables[1] = address; break;
      case DT_PLTRELSZ: bytes[1] = value; break;
    }
  }
  for (u32 k = 0; k < 2; k++)
    for (const ElfW(Rela)* r = (const ElfW(Rela)*)tables[k]; (u64)r < tables[k] + bytes[k]; r++) {
      u32 type = ELF64_R_TYPE(r->r_info);
      if (type != GLOBAL_DATA && type != JUMP_SLOT) continue;
      const char* symbol = (const char*)names + ((const ElfW(Sym)*)symbols)[ELF64_R_SYM(r->r_info)].st_name;
      u64 function = !strcmp(symbol, "posix_memalign")    ? (u64)led_memalign
                     : s.frees && !strcmp(symbol, "free") ? (u64)watched_free
                                                          : 0;
      if (!function) continue;
      redirect((u64*)(object->dlpi_addr + r->r_offset), function);
      s.redirected++;
    }
  return 1;
}

extern "C" {
int cdna_watch_allocator(const char* library, bool keep) {
  Search s = {library, true, 0};
  dl_iterate_phdr(look_at, &s);
  watching = watching || s.redirected;
  keeping = keeping || keep;
  return s.redirected;
}
void cdna_fill_fresh(bool on) { filling = on; }
// Has that library's blocks lie where no other process has any, from now on.
int cdna_place_allocator(const char* library) {
  Search s = {library, true, 0};
  dl_iterate_phdr(look_at, &s);
  placing = s.redirected;
  return s.redirected;
}
// Has that library begin its blocks where a GPU's allocator would, from now on.
int cdna_align_allocator(const char* library) {
  Search s = {library, false, 0};
  aligning = true;
  dl_iterate_phdr(look_at, &s);
  return s.redirected;
}
}
