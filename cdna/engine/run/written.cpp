// Who wrote what: by cells of 64 bytes, a mark for each byte and a sum over those that are marked.
#include "journal.h"
#include "written.h"
#include "isa/facts.h"
#include "isa/host.h"
#include "isa/memory.h"
#include "memory/list.h"
#include "memory/unwritten.h"
#include "time/lane_accesses.h"
#include "isa/lock.h"
#include <stdlib.h>
#include <sys/mman.h>

namespace {
constexpr u32 CELL = 64, CELLS = 64;               // of a page of 4 KiB
constexpr u32 PAGE_SHIFT = 12, REGION_SHIFT = 30;  // a region has a table of its pages
constexpr u64 PAGES = 1ull << (REGION_SHIFT - PAGE_SHIFT), REGIONS = 1ull << (ADDRESS_BITS - REGION_SHIFT);
constexpr u64 MOST_FRESH = 16 << 20;                  // more comes from the system, as zeros
constexpr u64 CHUNK = 4096, SAMPLED_BYTES = 1 << 20;  // of what an operation reads: this much of it is looked at
constexpr u32 MOST_WORDS = 4096;                      // of arguments; each of more counts whenever it comes
constexpr u32 CLEAN = 256, LOOKED_AT = 64;  // pages that a host thread remembers; of loads from these one of so many

struct Page {
  u64 marks[CELLS];
  u32 sum[CELLS];   // over the marked bytes, as they were when the last launch or operation had ended
  u32 rest[CELLS];  // over the others, of cells in `left`: what was left in fresh memory, and what was read before
  u16 call[CELLS];  // in which the marked ones were written
  u64 left;
  u64 seen, stored;  // cells of which these sums have been asked for, and that have been written, in these launches
  u64 read, read_before;  // cells of nobody's, and of what was there before, that were read in this call
  u64 host;               // cells of nobody's that were read in any call, unless fresh memory has taken their place
  u64 shown;              // that a case's first call has read and not made
  u64 again, made_again;  // that this one reads of these, and of what that one made
  u64 fresh;              // whose UNWRITTEN the journal has
  u32 launches, reads, first;  // when these were
  u32 lock;
  u64 base;
  Page *next, *next_read;
};

Page** regions[REGIONS];
pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
bool on, trial;
u16 call = 1, first = 1;      // first: of a case
u32 launches = 1, under_way;  // launches that overlap have one number
Page *touched, *read_pages;
u64 sampled[4];  // bytes of nobody's, of earlier calls', and of these once more, that samples stand for
struct Known {
  u64 base, bytes;
};
Known known[4096];  // by address; more are not known
u32 n_known;
u32 words[2 * MOST_WORDS], n_words;  // that this call has told its launches
u64 told, told_again;
struct Words {  // that the last work of a kind in this call was told, as a kernel's last launch
  static constexpr u32 MOST = 1024;
  const void *kind, *next;  // next: what kind came behind it
  u32 call, word[MOST];
};
constexpr u32 KINDS = 256;
Words last_words[KINDS], *last_kind;
thread_local Page* last_page;
thread_local u32 loads;
thread_local u64 clean[CLEAN];  // a page's number, and the launch's

void acquire(u32& lock) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) pause_core();
}
void release(u32& lock) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

Page* page_of(u64 address, bool make) {
  const u64 base = address >> PAGE_SHIFT << PAGE_SHIFT;
  if (last_page && last_page->base == base) return last_page;
  if (address >> ADDRESS_BITS) return nullptr;
  Page**& region = regions[address >> REGION_SHIFT];
  Page** pages = __atomic_load_n(&region, __ATOMIC_ACQUIRE);
  if (!pages && !make) return nullptr;
  if (!pages) {
    pthread_mutex_lock(&tables);
    if (!region) {
      void* memory = mmap(nullptr, PAGES * sizeof(Page*), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory != MAP_FAILED) __atomic_store_n(&region, (Page**)memory, __ATOMIC_RELEASE);
    }
    pages = region;
    pthread_mutex_unlock(&tables);
    if (!pages) return nullptr;
  }
  Page** place = &pages[address >> PAGE_SHIFT & (PAGES - 1)];
  Page* page = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  if (!page && make) {
    Page* fresh = (Page*)calloc(1, sizeof(Page));
    if (!fresh) return nullptr;
    fresh->base = base;
    if (__atomic_compare_exchange_n(place, &page, fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) page = fresh;
    else free(fresh);
  }
  if (page) last_page = page;
  return page;
}

u64 mask_of(u8 bits) {  // bit i: byte i
  u64 spread = (u64)bits * 0x0101010101010101ull & 0x8040201008040201ull;
  return ((spread + 0x7f7f7f7f7f7f7f7full) & 0x8080808080808080ull) / 0x80 * 0xff;
}

u32 sum_of(u64 base, u64 marks) {
  static const u64 TIMES[CELL / 8] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xff51afd7ed558ccd,
                                      0xc4ceb9fe1a85ec53, 0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db};
  const u64* words = (const u64*)base;
  u64 sum = marks;
  if (!~marks) {
    for (u32 i = 0; i < CELL / 8; i++) sum += (words[i] ^ words[i] >> 29) * TIMES[i];
  } else {
    for (u32 i = 0; i < CELL / 8; i++) {
      const u64 word = words[i] & mask_of((u8)(marks >> 8 * i));
      sum += (word ^ word >> 29) * TIMES[i];
    }
  }
  return (u32)(sum >> 32);
}

// Before a cell is read or written in a launch: marks that the host has written past are none, nor are an earlier call's
// where this one writes. Nobody writes to it before it has been seen, and no fault may leave the lock taken.
void see(Page& p, u32 cell, bool writes) {
  const u64 bit = 1ull << cell, at = p.base + cell * CELL;
  const u64& done = writes ? p.stored : p.seen;
  if (__atomic_load_n(&p.launches, __ATOMIC_ACQUIRE) == launches && __atomic_load_n(&done, __ATOMIC_ACQUIRE) & bit)
    return;
  const u64 marks = p.marks[cell];
  const bool holds = marks && sum_of(at, marks) == p.sum[cell];
  const bool left = !~marks ? holds : p.left & bit && (holds || !marks) && sum_of(at, ~marks) == p.rest[cell];
  const bool starts = writes && p.call[cell] != call;
  const u32 all = starts && left ? sum_of(at, ~0ull) : 0;
  acquire(p.lock);
  if (p.launches != launches) {
    p.seen = p.stored = 0;
    pthread_mutex_lock(&tables);
    p.next = touched;
    touched = &p;
    pthread_mutex_unlock(&tables);
    __atomic_store_n(&p.launches, launches, __ATOMIC_RELEASE);
  }
  if (!(p.seen & bit)) {
    if (!holds) p.marks[cell] = 0;
    p.left = left ? p.left | bit : p.left & ~bit;
  }
  if (writes && !(p.stored & bit)) {
    if (starts) {
      p.marks[cell] = 0;
      p.rest[cell] = all;
      p.call[cell] = call;
    }
    __atomic_store_n(&p.stored, p.stored | bit, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&p.seen, p.seen | bit, __ATOMIC_RELEASE);
  release(p.lock);
}

u64 bits_of(u64 first, u64 bytes) { return bytes >= CELL ? ~0ull : ((1ull << bytes) - 1) << first; }

template <class F> void each_cell(u64 address, u64 bytes, bool make, F f) {
  while (bytes) {
    const u64 first = address % CELL, n = bytes < CELL - first ? bytes : CELL - first;
    f(page_of(address, make), (u32)(address / CELL % CELLS), bits_of(first, n), address - first);
    address += n;
    bytes -= n;
  }
}

void stores(u64 address, u64 bytes) {
  each_cell(address, bytes, true, [](Page* p, u32 cell, u64 bits, u64) {
    if (!p) return;
    see(*p, cell, true);
    if (trial) __atomic_fetch_and(&p->marks[cell], ~bits, __ATOMIC_RELAXED);
    else if ((p->marks[cell] & bits) != bits) __atomic_fetch_or(&p->marks[cell], bits, __ATOMIC_RELAXED);
  });
}

// The last that begins there or before.
const Known* known_at(u64 address) {
  const Known* found = last_from(known, n_known, address);
  return found && address - found->base < found->bytes ? found : nullptr;
}

// Whether the bytes without these marks are zeros, as fresh memory is: they say nothing.
bool zero_but(u64 base, u64 marks) {
  u64 rest = 0;
  for (u32 i = 0; i < CELL / 8; i++) rest |= ((const u64*)base)[i] & ~mask_of((u8)(marks >> 8 * i));
  return !rest;
}

bool holds_any_unwritten(u64 base) {
  for (u32 i = 0; i < CELL; i += 4)
    if (holds_unwritten(base + i)) return true;
  return false;
}

// times: as many bytes as these stand for that are not looked at.
void reads(u64 address, u64 bytes, u64 times = 1) {
  each_cell(address, bytes, false, [=](Page* p, u32 cell, u64 bits, u64 at) {
    if (p) see(*p, cell, false);
    const bool whole = p && (p->marks[cell] & bits) == bits;
    if (whole && p->call[cell] == call) return;
    const u64 bit = 1ull << cell;
    if (p && p->reads == call && (whole ? p->read | p->read_before : p->read) & bit) return;
    if ((!whole && known_at(at)) || zero_but(at, p && !whole ? p->marks[cell] : 0)) return;
    if (!p && !(p = page_of(at, true))) return;
    const u32 rest = sum_of(at, ~p->marks[cell]);
    acquire(p->lock);
    const bool kept = whole || p->left & bit, fresh = kept && !whole && !(p->host & bit);
    if (!kept) {
      p->left |= bit;
      p->host |= bit;
      p->rest[cell] = rest;
    }
    if (p->reads != call) {
      p->read = p->read_before = p->again = p->made_again = p->fresh = 0;
      p->reads = call;
      pthread_mutex_lock(&tables);
      p->next_read = read_pages;
      read_pages = p;
      pthread_mutex_unlock(&tables);
    }
    if (journal_is_kept() && !program_at(at) && (!fresh || (!(p->fresh & bit) && holds_any_unwritten(at)))) {
      journal_cell(at, p->call[cell] == call ? p->marks[cell] : 0);
      p->fresh |= fresh ? bit : 0;
    }
    if (p->first != first) p->shown = 0;
    p->first = first;
    const bool again = call != first && kept && p->shown & bit;
    const bool made = call != first && whole && !again && p->call[cell] == first;
    if (again) p->again |= bit;
    if (made) p->made_again |= bit;
    if (call == first && !fresh) p->shown |= bit;
    if (call != first || !fresh) (kept ? p->read_before : p->read) |= bit;
    release(p->lock);
    const u64 more = (times - 1) * CELL;
    __atomic_add_fetch(&sampled[kept], more, __ATOMIC_RELAXED);
    if (again || made) __atomic_add_fetch(&sampled[again ? 2 : 3], more, __ATOMIC_RELAXED);
  });
}

// Of a load, about where its first lane reads.
u64 first_address(Wave& w, const Inst& in, const Facts& f, u32 lane) {
  const u32* v = in.src[0].kind == NONE ? nullptr : w.vreg(in.src[0].reg);
  if (f.space == BUFFER_SPACE) {
    const u32* r = &w.s[in.src[1].reg];
    return ((r[0] | (u64)r[1] << 32) & 0xffffffffffffull) + scalar32(w, in.src[2]) + (v ? v[lane] : 0) + (u32)in.offset;
  }
  const u64 offset = (u64)(i64)in.offset;
  if (in.src[1].kind != NONE) return scalar64(w, in.src[1]) + offset + v[lane];
  return (v[lane] | (u64)v[WAVE + lane] << 32) + offset;
}

// Whether all of a page is this call's, or its input.
bool is_clean(u64 address) {
  const u64 base = address >> PAGE_SHIFT << PAGE_SHIFT;
  const Known* k = known_at(base);
  if (k && base + CELL * CELLS <= k->base + k->bytes) return true;
  Page* p = page_of(base, false);
  if (!p) return false;
  for (u32 cell = 0; cell < CELLS; cell++) {
    if (!~p->marks[cell] && p->call[cell] == call) see(*p, cell, false);
    if (~p->marks[cell] || p->call[cell] != call) return false;
  }
  return true;
}

// Loads come from the same few pages again and again: of those that begin in a clean one most are not looked at.
bool looks(Wave& w, const Inst& in, const Facts& f) {
  if (f.unit != MEMORY_UNIT) return true;
  const u64 exec = w.exec();
  if (!exec) return false;
  const u64 address = first_address(w, in, f, (u32)__builtin_ctzll(exec)), page = address >> PAGE_SHIFT;
  u64& place = clean[page % CLEAN];
  const u64 entry = page << 24 | (launches & 0xffffff);
  if (place == entry) return ++loads % LOOKED_AT == 0;
  if (is_clean(address)) place = entry;
  return true;
}

// What a launch is told is the host's, as what that leaves in memory is.
bool tells(u32 word) {  // false: that word has been told
  u32 at = word * 0x9e3779b1u >> 19;
  while (words[at] && words[at] != word) at = (at + 1) % (2 * MOST_WORDS);
  if (!word || words[at]) return !word;
  if (n_words < MOST_WORDS) words[at] = word, n_words++;
  told += 4;
  return true;
}

// The last words of a kind; of very many kinds, those of another.
Words& words_of(const void* kind) {
  u32 at = (u32)((u64)kind * 0x9e3779b97f4a7c15ull >> 32) % KINDS;
  for (u32 i = 1; i < KINDS && last_words[at].call == call && last_words[at].kind != kind; i++) at = (at + 1) % KINDS;
  Words& w = last_words[at];
  if (w.call != call || w.kind != kind) {
    memset((void*)&w, 0, sizeof w);
    w.kind = kind;
    w.call = call;
  }
  return w;
}

// Which kind is next says something, and which of the words that are known, but for what was so the last time.
Words& tells_next(const void* kind) {
  if (last_kind && last_kind->next && last_kind->next != kind) told++;
  if (last_kind) last_kind->next = kind;
  return *(last_kind = &words_of(kind));
}
void tells(Words& before, u32 i, u32 word) {
  if (!tells(word) && (i >= Words::MOST || before.word[i] != word)) told++;
  if (i < Words::MOST) before.word[i] = word;
}

// Constants of its code, by the first launch that is no trial.
void tells_of(Program& p, const Inst* code) {
  const Lock locked(tables);
  if (trial || p.told_in == call) return;
  if (p.told_in) {
    if (p.told_first == first) told_again += p.told;
  } else {
    const u64 before = told;
    for (u32 i = 0; i < p.n_inst; i++)
      for (const Operand& operand : code[i].src)
        if (operand.kind == CONST && !tells(operand.lo)) told++;
    p.told = (u32)(told - before);
    p.told_first = call == first ? first : 0;
  }
  p.told_in = call;
}

void accessed(Wave& w, const Inst& in) {
  const Facts& f = op_facts(in.op);
  const bool writes = access_flags(f) & WRITES;
  if (writes || looks(w, in, f)) {
    LaneAccess a[MAX_ACCESSES];
    const int n = observed_accesses(w, in, f, a);
    for (int i = 0; i < n; i++) {
      if (a[i].space != GLOBAL_SPACE || !a[i].lanes) continue;
      const bool updates = (access_flags(f) & (READS | WRITES)) == (READS | WRITES);
      bool barred = false;
      const auto note = [&](u64 address, u64 bytes) {
        if (!replay_lets(address, bytes, writes)) return (void)(barred = true);
        if (!writes || (updates && journal_is_kept())) reads(address, bytes);
        if (writes) stores(address, bytes);
      };
      if (!~a[i].lanes && contiguous(a[i].address, a[i].bytes)) {
        note(a[i].address[0], (u64)WAVE * a[i].bytes);
      } else
        for (u64 m = a[i].lanes; m;) {  // lanes that lie side by side in one go
          u32 lane = (u32)__builtin_ctzll(m), end = lane;
          const u64 first = a[i].address[lane];
          do m &= ~(1ull << end++);
          while (end < WAVE && m >> end & 1 && a[i].address[end] == first + (u64)(end - lane) * a[i].bytes);
          note(first, (u64)(end - lane) * a[i].bytes);
        }
      if (barred) return fault(w, "writes to memory that is not its launch's");
    }
  }
  op_info(in.op).fn(w, in);
}
}  // namespace

static void work_begins() { __atomic_add_fetch(&under_way, 1, __ATOMIC_SEQ_CST); }

bool written_in_trial() { return trial; }

const Inst* written_code(Program& p, const Inst* code) {
  if (!on) return nullptr;
  tells_of(p, code);
  Inst*& place = p.noting[code != p.code];
  if (const Inst* known = __atomic_load_n(&place, __ATOMIC_ACQUIRE)) return known;
  Inst* copy = (Inst*)malloc(sizeof(Inst) * (p.n_inst + 1));
  memcpy((void*)copy, (const void*)code, sizeof(Inst) * (p.n_inst + 1));
  for (u32 i = 0; i < p.n_inst; i++) {
    const Facts& f = op_facts(copy[i].op);
    const bool global = f.unit == MEMORY_UNIT ? f.space != SCRATCH_SPACE : f.unit == SCALAR_MEMORY_UNIT;
    if (global && access_flags(f) && copy[i].fn == op_info(copy[i].op).fn) copy[i].fn = accessed;
  }
  Inst* known = nullptr;
  if (__atomic_compare_exchange_n(&place, &known, copy, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return copy;
  free(copy);
  return known;
}

void written_launch_begins(const void* kernel, const Launch& l, u32 bytes) {
  if (on && !trial) {
    const Lock locked(tables);
    Words& before = tells_next(kernel);
    u32 n = 0;
    for (u32 size : l.groups) tells(before, n++, size);
    for (u32 size : l.block) tells(before, n++, size);
    tells(before, n++, l.dynamic_lds_bytes);
    for (u32 i = 0; i + 4 <= bytes; i += 4) tells(before, n++, *(const u32*)(l.kernarg + i));
  }
  cdna_written_by_operation((u64)l.kernarg, bytes);
  work_begins();
}

void written_launch_ends() {
  const Lock locked(tables);
  if (!__atomic_sub_fetch(&under_way, 1, __ATOMIC_SEQ_CST)) {
    for (Page* p = touched; p; p = p->next)
      for (u64 m = p->stored; m; m &= m - 1) {
        const u32 cell = (u32)__builtin_ctzll(m);
        p->sum[cell] = sum_of(p->base + cell * CELL, p->marks[cell]);
        p->rest[cell] = sum_of(p->base + cell * CELL, ~p->marks[cell]);
      }
    touched = nullptr;
    launches++;
  }
}

extern "C" {

void cdna_written_on(bool now) { on = now; }

void cdna_written_begin(bool is_first) {
  call++;
  if (is_first) first = call;
  n_known = n_words = 0;
  memset(words, 0, sizeof words);
  read_pages = nullptr;
  memset(sampled, 0, sizeof sampled);
  told = told_again = 0;
  last_kind = nullptr;
}

void cdna_written_known(u64 base, u64 bytes) {
  if (n_known == sizeof known / sizeof *known) return;
  u32 at = n_known++;
  for (; at && known[at - 1].base > base; at--) known[at] = known[at - 1];
  known[at] = {base, bytes};
}

void cdna_written_fresh(u64 base, u64 bytes) {
  if (!on || bytes > MOST_FRESH) return;
  each_cell(base, bytes, true, [](Page* p, u32 cell, u64, u64 at) {
    if (!p) return;
    acquire(p->lock);
    p->marks[cell] = 0;
    p->rest[cell] = sum_of(at, ~0ull);
    p->left |= 1ull << cell;
    p->host &= ~(1ull << cell);
    p->shown &= ~(1ull << cell);
    release(p->lock);
  });
}

void cdna_written_trial(bool now) { trial = now; }

void cdna_written_by_operation(u64 base, u64 bytes) {
  if (!on) return;
  each_cell(base, bytes, true, [](Page* p, u32 cell, u64 bits, u64 at) {
    if (!p) return;
    acquire(p->lock);
    p->marks[cell] = p->call[cell] == call ? p->marks[cell] | bits : bits;
    p->left &= ~(1ull << cell);
    p->shown &= ~(1ull << cell);
    p->call[cell] = call;
    p->sum[cell] = sum_of(at, p->marks[cell]);
    release(p->lock);
  });
}

void cdna_written_told(u64 kind, const u32* all, u32 n) {
  if (!on || trial) return;
  const Lock locked(tables);
  Words& before = tells_next((const void*)kind);
  for (u32 i = 0; i < n; i++) tells(before, i, all[i]);
}

// Places as far from the last ones as those were from the ones before say nothing.
void cdna_written_told_copy(u64 to, u64 from, u64 bytes) {
  static u64 last[2];
  const u32 words[] = {(u32)(to - last[0]), (u32)(from - last[1]), (u32)bytes};
  last[0] = to, last[1] = from;
  cdna_written_told((u64)last, words, 3);
}

void cdna_written_told_fill(u64 to, u64 bytes, u64 value) {
  static u64 last;
  const u32 words[] = {(u32)(to - last), (u32)bytes, (u32)value};
  last = to;
  cdna_written_told((u64)&last, words, 3);
}

void cdna_written_read(u64 base, u64 bytes) {
  if (!on) return;
  const u64 step = journal_is_kept() ? 1 : bytes / SAMPLED_BYTES + 1;  // who makes it anew has to have all
  work_begins();
  for (u64 at = base; at < base + bytes; at += step * CHUNK) {
    const u64 n = base + bytes - at < CHUNK ? base + bytes - at : CHUNK;
    reads(at, n, step);
  }
  written_launch_ends();
}

void cdna_written_of(u64 base, u64 bytes, WrittenBytes* out) {
  each_cell(base, bytes, false, [&](Page* p, u32 cell, u64 bits, u64 at) {
    const u32 n = (u32)__builtin_popcountll(bits);
    const bool holds = p && p->marks[cell] && sum_of(at, p->marks[cell]) == p->sum[cell];
    const u32 marked = holds ? (u32)__builtin_popcountll(p->marks[cell] & bits) : 0;
    (holds && p->call[cell] != call ? out->before : out->now) += marked;
    const bool nothing = marked == n || known_at(at) || zero_but(at, ~bits | (holds ? p->marks[cell] : 0));
    (nothing ? out->given : out->nobody) += n - marked;
  });
}

void cdna_written_reads(WrittenBytes* out) {
  out->before += sampled[1];
  out->nobody += sampled[0];
  out->told = told;
  out->told_again = told_again;
  out->again += sampled[2];
  out->made_again += sampled[3];
  for (Page* p = read_pages; p; p = p->next_read) {
    out->before += CELL * (u64)__builtin_popcountll(p->read_before);
    out->nobody += CELL * (u64)__builtin_popcountll(p->read);
    out->again += CELL * (u64)__builtin_popcountll(p->again);
    out->made_again += CELL * (u64)__builtin_popcountll(p->made_again);
  }
}
}
