// Loads program images (written by image.py): copies code, places data, resolves addresses.
#include "isa/facts.h"
#include "program.h"
#include "joined_products.h"
#include "isa/lock.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t programs_lock = PTHREAD_MUTEX_INITIALIZER;
static Program* programs;  // all that are loaded

static const u64 MAGIC = 0x38474d4941444e43ull;  // "CNDAIMG8"

namespace {
struct Reader {
  const u8 *p, *end;
  bool ends_early;
  u32 count(u64 each) {  // of what takes at least so many bytes
    const u32 n = get<u32>();
    ends_early |= n * each > (u64)(end - p);
    return ends_early ? 0 : n;
  }
  const u8* take(u64 bytes) {  // null: there are not so many
    ends_early |= bytes > (u64)(end - p);
    if (ends_early) return nullptr;
    p += bytes;
    return p - bytes;
  }
  template <class T> T get() {
    T x = {};
    if (const u8* from = take(sizeof x)) memcpy((void*)&x, from, sizeof x);
    return x;
  }
  const char* text() {  // zero-terminated, counted with its zero
    const u32 n = get<u32>();
    const char* s = (const char*)take(n);
    return s && n && !s[n - 1] ? s : "";
  }
};
enum CodeRelocation : u32 { ABSOLUTE_LO, ABSOLUTE_HI, RELATIVE_LO, RELATIVE_HI, GOT_RELATIVE_LO, GOT_RELATIVE_HI };
}  // namespace

// Behind the last instruction: where a compiler has left out what would have ended the kernel.
static void ran_off(Wave& w, const Inst&) {
  fault(w,
        "ran past the end of its code: the compiler took an endless loop without effects, or other undefined "
        "behaviour, for never reached");
}

static u64 target(const Program& p, u32 section, i64 offset) {
  return section == ~0u ? CODE_BASE + 8 * (u64)offset : (u64)p.sections[section] + offset;
}

// Data sections, with the addresses in them.
static void read_sections(Program* p, Reader& r) {
  p->n_sections = r.count(4);
  p->sections = (u8**)calloc(p->n_sections + 1, sizeof(u8*));
  p->section_bytes = (u32*)calloc(p->n_sections + 1, sizeof(u32));
  for (u32 i = 0; i < p->n_sections; i++) {
    const u32 size = r.get<u32>();
    const u8* from = r.take(size);
    if (!from) return;
    p->section_bytes[i] = size;
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, size + 256)) abort();
    p->sections[i] = (u8*)memory;
    memcpy(p->sections[i], from, size);
    memset(p->sections[i] + size, 0, 256);
  }
  for (u32 n = r.count(24); n; n--) {
    u32 section = r.get<u32>(), offset = r.get<u32>(), size = r.get<u32>(), to = r.get<u32>();
    const i64 distance = r.get<i64>();
    r.ends_early |= section >= p->n_sections || (to != ~0u && to >= p->n_sections);
    if (r.ends_early || offset > p->section_bytes[section]) return;  // a section has 256 bytes more
    u64 address = target(*p, to, distance);
    memcpy(p->sections[section] + offset, &address, size < 8 ? size : 8);
  }
}

static void read_code(Program* p, Reader& r) {
  p->code = (Inst*)allocate(sizeof(Inst) * (p->n_inst + 1));
  memcpy((void*)p->code, r.take(sizeof(Inst) * (u64)p->n_inst), sizeof(Inst) * p->n_inst);
  memset((void*)(p->code + p->n_inst), 0, sizeof(Inst));
  p->code[p->n_inst].fn = ran_off;
  for (u32 i = 0; i < p->n_inst; i++) {
    const OpInfo& info = op_info(p->code[i].op);
    p->code[i].fn = p->code[i].flags & INDEXED ? indexed_op : info.fn;
    const Facts& facts = op_facts(p->code[i].op);
    if (facts.is(FACT_VSKIP)) p->skips = true;
    if (facts.is(FACT_TO_LDS)) p->loads_to_lds = true;
    p->code[i].core = info.core;
  }
  const u32 n_relocations = p->n_got = r.count(24);
  p->got = (u64*)calloc(n_relocations + 1, sizeof(u64));
  for (u32 i = 0; i < n_relocations; i++) {
    u32 index = r.get<u32>(), operand = r.get<u32>(), kind = r.get<u32>(), to = r.get<u32>();
    const i64 distance = r.get<i64>();
    r.ends_early |= index >= p->n_inst || operand >= 7 || (to != ~0u && to >= p->n_sections);
    if (r.ends_early) return;
    u64 address = target(*p, to, distance);
    if (kind >= GOT_RELATIVE_LO) {
      p->got[i] = address;
      address = (u64)&p->got[i];
    }
    // The pair after s_getpc_b64 adds the distance from the pc that it returned, which is the address of the s_add_u32:
    // this instruction itself for the low half, the one before for the high half.
    bool high = kind & 1;
    if (kind >= RELATIVE_LO) address -= CODE_BASE + 8 * (u64)(index - high);
    Operand& o = operand < 2 ? p->code[index].dst[operand] : p->code[index].src[operand - 2];
    o.lo = high ? (u32)(address >> 32) : (u32)address;
  }
}

static void read_kernels_and_symbols(Program* p, Reader& r) {
  p->n_kernels = r.count(sizeof(KernelInfo));
  p->kernels = (KernelInfo*)calloc(p->n_kernels + 1, sizeof(KernelInfo));
  for (u32 i = 0; i < p->n_kernels; i++) {
    KernelInfo& k = p->kernels[i];
    k = r.get<KernelInfo>();
    k.name = r.text();
    k.readable = r.text();
    KernelArgument* arguments = (KernelArgument*)calloc(k.n_arguments + 1, sizeof(KernelArgument));
    if (const u8* from = r.take(sizeof(KernelArgument) * (u64)k.n_arguments))
      memcpy((void*)arguments, from, sizeof(KernelArgument) * k.n_arguments);
    k.arguments = arguments;
  }
  p->n_symbols = r.count(12);
  p->symbols = (Symbol*)calloc(p->n_symbols + 1, sizeof(Symbol));
  for (u32 i = 0; i < p->n_symbols; i++) {
    Symbol& s = p->symbols[i];
    s.name = r.text();
    const u32 section = r.get<u32>();
    r.ends_early |= section >= p->n_sections;
    if (r.ends_early) return;
    s.address = p->sections[section] + r.get<u32>();
    s.size = r.get<u32>();
  }
}

static void read_texts(Program* p, Reader& r) {
  p->where = (const char**)calloc(p->n_inst + 1, sizeof(char*));
  for (u32 i = 0; i < p->n_inst; i++) p->where[i] = r.text();
  p->where[p->n_inst] = "the end of the code";
  p->n_hazards = r.count(12);
  p->hazards = (Hazard*)calloc(p->n_hazards + 1, sizeof(Hazard));
  for (u32 i = 0; i < p->n_hazards; i++) {
    p->hazards[i].pc = r.get<u32>();
    p->hazards[i].kernel = r.get<u32>();
    p->hazards[i].doubt = r.get<u32>();
    p->hazards[i].message = r.text();
  }
}

extern "C" Program* cdna_image_load(const u8* image, u64 bytes, char* message) {
  Program* p = (Program*)calloc(1, sizeof(Program));
  p->blob = allocate(bytes);
  memcpy(p->blob, image, bytes);
  p->blob_bytes = bytes;
  Reader r = {p->blob, p->blob + bytes, false};
  u64 magic = r.get<u64>();
  u32 inst_bytes = r.get<u32>();
  if (magic != MAGIC || inst_bytes != sizeof(Inst)) {
    snprintf(message, 256, "not a program image of this version of the emulated device: rebuild it");
    free(p->blob);
    free(p);
    return nullptr;
  }
  p->n_inst = r.count(1);
  p->n_vgpr = r.get<u32>();
  if (!p->n_vgpr) p->n_vgpr = 1;  // the work-item's id lies in v0 even where nothing reads it
  p->first_accumulation = r.get<u32>();
  memcpy(p->arch, r.take(16), 16);
  p->arch_number = arch_number(p->arch);
  void (*const parts[])(Program*, Reader&) = {read_sections, read_code, read_kernels_and_symbols, read_texts};
  r.ends_early |= (u64)p->n_inst * sizeof(Inst) > bytes;
  for (const auto part : parts)
    if (!r.ends_early) part(p, r);
  if (r.ends_early) {
    snprintf(message, 256, "a program image that ends before its end");
    return nullptr;
  }
  p->joined = joined_code(*p);
  const Lock locked(programs_lock);
  p->next = programs;
  programs = p;
  return p;
}

const Program* program_at(u64 address) {
  const Program* found = nullptr;
  const Lock locked(programs_lock);
  for (const Program* p = programs; p && !found; p = p->next)
    for (u32 i = 0; i < p->n_sections && !found; i++)
      if (address - (u64)p->sections[i] < p->section_bytes[i] + 256) found = p;
  return found;
}

extern "C" void cdna_program_destroy(Program* p) {
  pthread_mutex_lock(&programs_lock);
  for (Program** at = &programs; *at; at = &(*at)->next)
    if (*at == p) {
      *at = p->next;
      break;
    }
  pthread_mutex_unlock(&programs_lock);
  for (u32 i = 0; i < p->n_sections; i++) free(p->sections[i]);
  for (u32 i = 0; i < p->n_kernels; i++) free((void*)p->kernels[i].arguments);
  free(p->sections);
  free(p->section_bytes);
  free(p->accesses);
  free(p->costs);
  free(p->got);
  free(p->kernels);
  free(p->symbols);
  free(p->where);
  free(p->hazards);
  free(p->code);
  free(p->joined);
  free(p->noting[0]);
  free(p->noting[1]);
  free(p->blob);
  free(p);
}

extern "C" int cdna_find_kernel(Program* p, const char* name) {
  for (u32 i = 0; i < p->n_kernels; i++)
    if (!strcmp(p->kernels[i].name, name)) return (int)i;
  return -1;
}

static u32 stack_bytes = 1024;  // hipLimitStackSize: of a work-item of kernels with a dynamic stack, at least
extern "C" void cdna_set_stack_bytes(u32 bytes) { stack_bytes = bytes; }

extern "C" u32 cdna_scratch_of(const KernelInfo& k) {
  const u32 bytes = k.dynamic_stack && k.scratch_bytes < stack_bytes ? stack_bytes : k.scratch_bytes;
  return (bytes + 3) & ~3u;  // scratch is interleaved by dwords
}

Inst* code_with_handler(const Program& p, u32 units, Handler handler) {
  Inst* code = (Inst*)malloc(sizeof(Inst) * (p.n_inst + 1));
  memcpy((void*)code, (const void*)p.code, sizeof(Inst) * (p.n_inst + 1));
  for (u32 i = 0; i < p.n_inst; i++)
    if (units >> op_facts(code[i].op).unit & 1) code[i].fn = handler;
  return code;
}
