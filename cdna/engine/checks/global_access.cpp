// Accesses to global memory, in vectors of lanes and scalar: which addresses they are, and the checks of them in turn.
#include "isa/buffer.h"
#include "memory/device_heap.h"
#include "bounds.h"
#include "happens_before.h"
#include "global_race.h"
#include "preempt.h"

// --- which addresses -----------------------------------------------------------------------------------

namespace {
struct Lanes {
  u64 at[WAVE];
  u64 mask;
  u64 base;    // scalar base address, 0 if there is none
  bool named;  // that is a variable's, made by the wave
  u64 before;  // lanes that a buffer without a limit cuts off below its base
  u64 shared;  // lanes that mean LDS
};
}  // namespace

// A descriptor without a limit, as Triton makes them, cuts off only what lies 2 GiB and more beyond the base: offsets below
// zero. What Triton masks has the offset 2^31, and a small immediate.
constexpr u32 NO_LIMIT = 0x7fffff00;

static u64 negative(const Wave& w, const Inst& in, const Operand& descriptor, const u64* at, u64 lanes) {
  u64 base = (w.s[descriptor.reg] | (u64)w.s[descriptor.reg + 1] << 32) & 0xffffffffffffull, found = 0;
  if (in.flags & IDXEN) return 0;
  for (; lanes; lanes &= lanes - 1)
    if ((u32)(at[__builtin_ctzll(lanes)] - base) >= 0xc0000000) found |= lanes & -lanes;
  return found;
}

static bool lane_addresses(Wave& w, const Inst& in, const Access& x, Lanes& out) {
  u64 exec = w.exec();
  bool load = x.kind == VM_LOAD;
  out.mask = exec;
  out.base = out.before = out.shared = 0;
  out.named = false;
  const WaveCheck& wave = check_of(w);
  if (x.space == BUFFER_SPACE) {
    const Operand* operands = load ? in.src : in.src + 1;
    u32 element = x.typed || x.bytes < 4 ? x.bytes : 4;
    BufferAccess b = buffer_addresses(w, in, operands, element, x.bytes / element);
    if (w.stop == FAULTED) return false;
    memcpy(out.at, w.address, sizeof out.at);
    out.mask = b.whole;  // what the descriptor cuts off reaches no memory
    out.before = b.none && w.s[operands[1].reg + 2] >= NO_LIMIT ? negative(w, in, operands[1], out.at, b.none) : 0;
    const u32* r = &w.s[operands[1].reg];
    out.base = (r[0] | (u64)r[1] << 32) & 0xffffffffffffull;
    return true;
  }
  const u32* v = w.vreg(in.src[0].reg);
  const Operand& scalar = load ? in.src[1] : in.src[2];
  u64 offset = (u64)(i64)in.offset;
  if (scalar.kind != NONE && x.space == GLOBAL_SPACE) {
    out.base = scalar64(w, scalar);
    out.named = scalar.kind == SGPR && variable_in(w, wave, scalar.reg);
    u64 base = out.base + offset;
    LANES out.at[i] = base + v[i];
    return true;
  }
  for (u32 i = 0; i < wave.n_derived; i++)
    if (wave.derived[i].reg == in.src[0].reg) {
      out.base = wave.derived[i].base;
      out.named = true;
    }
  u64 top = 0;
  LANES {
    out.at[i] = (v[i] | (u64)v[WAVE + i] << 32) + offset;
    top |= out.at[i];
  }
  if (x.space == FLAT_SPACE && top >> 48)  // LDS or scratch, which have checks of their own
    for (u64 m = exec; m; m &= m - 1)
      if (u64 segment = out.at[__builtin_ctzll(m)] >> 32;
          segment == SHARED_APERTURE >> 32 || segment == PRIVATE_APERTURE >> 32) {
        out.mask &= ~(m & -m);
        if (segment == SHARED_APERTURE >> 32) out.shared |= m & -m;
      }
  return true;
}

// --- bounds --------------------------------------------------------------------------------------------

// What a kernel stores to a __constant__ variable: loads may be answered by caches that stores do not change.
static bool writes_constant(Wave& w, const Access& x, const Lanes& l, const Range& r) {
  int lane = __builtin_ctzll(l.mask);
  return report(w, CHECK_BOUNDS, lane, l.at[lane], &r, ~0u,
                "writes %u bytes of %s, which is __constant__: kernels may only read it", x.bytes, r.name);
}

// Whether the lanes are as far from each other as in a store of which it is known that no two were at one place: the stores
// behind a matrix product are alike. learn: they are at places of their own.
static bool known_apart(WaveCheck& c, const u64* address, u64 lanes, bool learn) {
  if (lanes != ~0ull) return false;
  u64 differs = !c.apart_known;
  LANES differs |= (address[i] - address[0]) ^ c.apart[i];
  if (!learn) return !differs;
  LANES c.apart[i] = address[i] - address[0];
  return c.apart_known = true;
}

// --- vector accesses ---------------------------------------------------------------------------------

namespace {
struct VectorAccess {
  Wave& w;
  const Inst& in;
  const Access& x;
  Checks& c;
  WaveCheck& wave;
  Lanes& l;
  bool sync;  // it may be to a flag
  u32 brings() const {
    return in.src[x.space == BUFFER_SPACE ? 0 : 1].reg;
  }  // a store's and an atomic's data, from it on
  const u32* data() const { return x.kind == VM_STORE ? w.vreg(brings()) : nullptr; }
};
}  // namespace

// What comes before the address in a descriptor without a limit.
static bool check_base(VectorAccess& a) {
  const Lanes& l = a.l;
  if (!l.before || !a.c.has(CHECK_BOUNDS)) return true;
  const int lane = __builtin_ctzll(l.before);
  const u64 distance = l.base - (l.base + (i64)(i32)(l.at[lane] - l.base));
  const Range* meant = meant_by(a.c, l.base, false);
  return report(a.w, CHECK_BOUNDS, lane, l.base - distance, meant, ~0u,
                "%s %u bytes %llu bytes before the address in its descriptor%s%s: the card drops it, or reads 0",
                a.x.kind == VM_LOAD ? "reads" : "writes", a.x.bytes, (unsigned long long)distance,
                meant ? ", the start of " : "", meant ? meant->name : "");
}

static bool check_to_lds(VectorAccess& a) {
  const u32 base = a.w.s[M0] + (u32)a.in.offset, width = a.x.bytes < 4 ? 4 : a.x.bytes;
  if (base % 4 && a.c.has(CHECK_ALIGNMENT) &&
      !report(a.w, CHECK_ALIGNMENT, -1, base, nullptr, ~0u,
              "loads straight to LDS byte %u (m0 + offset), which is not a multiple of 4", base))
    return false;
  return check_lds_dma(a.w, a.x, base, width, a.w.exec());
}

// Lanes of one store at the same place.
static bool check_lanes(VectorAccess& a) {
  const Lanes& l = a.l;
  if (a.x.kind != VM_STORE || !a.c.has(CHECK_RACE) || known_apart(a.wave, l.at, l.mask, false)) return true;
  int one, other;
  if (!lanes_disagree(a.x, l.at, l.mask, a.data(), one, other)) {
    if (one < 0 && !a.x.typed) known_apart(a.wave, l.at, l.mask, true);
    return true;
  }
  char where[200];
  const Range* r = describe(a.c, l.at[other], 1, where, sizeof where);
  return report(a.w, CHECK_RACE, other, l.at[other], r, ~0u,
                "lanes %d and %d store different values to the same %u bytes, %s: which one stays is not defined", one,
                other, a.x.bytes, where);
}

// What it tells other waves, and they it.
static bool check_flags(VectorAccess& a) {
  if (!a.sync || !a.c.has(CHECK_RACE)) return true;
  const Lanes& l = a.l;
  turn_begins(l.at, l.mask);
  const u32* data = a.data();
  u64 lanes = l.mask;
  for (u64 m = data ? lanes : 0; m; m &= m - 1) {  // a flag that keeps its value tells nobody anything
    const int i = __builtin_ctzll(m);
    if (readable(a.c, l.at[i]) && !changes(a.x, data, i, 0, (const u8*)l.at[i]) && a.x.bytes <= 4) lanes &= ~(m & -m);
  }
  const bool atomic = a.x.kind == VM_ATOMIC;
  a.wave.kept = atomic ? kept_by(a.c, a.x, l.at, lanes, a.w.vreg(a.brings())) : 0;
  order_flag(a.w, a.x, l.at, lanes, a.wave.kept);
  if (!data || __builtin_popcountll(lanes) > MOST_FLAG_LANES || a.x.bytes < 4) return true;
  for (u64 m = lanes; m; m &= m - 1)
    if (!note_update(a.w, a.x, __builtin_ctzll(m), l.at[__builtin_ctzll(m)], (1u << a.x.bytes) - 1)) return false;
  return true;
}

// Mostly all lanes lie in one range, that of the instruction's last execution, or in none: a peer's memory. False: in none,
// and that is no fault. one: null where each lane is to be looked at.
static bool common_range(VectorAccess& a, Range*& one) {
  Checks& c = a.c;
  const Lanes& l = a.l;
  u64 low, high, bits;
  extent_of(l.at, l.mask, low, high, bits);
  const u32 hint = c.hint[a.wave.pc];
  one = hint < c.n_ranges ? &c.ranges[hint] : nullptr;
  if (!one || one->freed || !contains(c, *one, a.x, low, high + a.x.bytes)) {
    bool known = false;
    one = range_around(c, a.x, low, high + a.x.bytes, known);
    if (one) c.hint[a.wave.pc] = (u16)(one - c.ranges);
    if (!known && c.open == OPEN && !heap_in_use() && !meant_by(c, l.base, l.named)) return false;
  }
  if (one && !meant_by(*one, l.base, l.named) && meant_by(c, l.base, l.named)) one = nullptr;
  return true;
}

// Where each lane's element lies, and who has touched it before.
static bool check_ranges(VectorAccess& a) {
  Wave& w = a.w;
  Checks& c = a.c;
  const Access& x = a.x;
  const Lanes& l = a.l;
  Range* one;
  if ((!c.has(CHECK_RACE) && !c.has(CHECK_BOUNDS)) || !l.mask || !common_range(a, one)) return true;
  if (one && one->constant && x.kind != VM_LOAD && !writes_constant(w, x, l, *one)) return false;
  const u32* data = a.data();
  const bool says = a.sync && x.kind != VM_LOAD, races = c.has(CHECK_RACE) && !a.sync && c.clock < MAX_CLOCK;
  if (says && one && one->shown) c.tells = true;
  const bool streams = c.work && c.has(CHECK_RACE) && (data || !a.sync);
  if (one && one->owners && streams && !check_streams(w, x, l.at, l.mask, data, *one)) return false;
  const u64 now = now_of(w);
  const StoredLanes stored = {&x, l.at, data, l.mask};
  const auto early = [&](Range& r, u64 lanes) {
    return !data && !r.written && (x.benign || r.internal || note_early(c, r, l.at, lanes, x.bytes, now));
  };
  if (one && (!races || early(*one, l.mask) || !shadow(c, *one))) return true;
  if (one && !one->internal && untouched(w, x, l.at, l.mask, *one, data, now)) return true;
  for (u64 m = l.mask; m; m &= m - 1) {
    int lane = __builtin_ctzll(m);
    bool stop = false;
    Range* r = one ? one : range_of(w, x, lane, l.at[lane], l.base, l.named, stop);
    if (stop) return false;
    if (!r) continue;
    if (!one) c.hint[a.wave.pc] = (u16)(r - c.ranges);
    if (says && r->shown) c.tells = true;
    if (!one && r->owners && streams && !check_streams(w, x, l.at, m & -m, data, *r)) return false;
    if (!races || r->internal || early(*r, m & -m) || !shadow(c, *r)) continue;
    if (!check_races(w, x, lane, *r, l.at[lane], data ? &stored : nullptr, now)) return false;
  }
  return true;
}

static bool check_vector(VectorAccess& a) {
  Wave& w = a.w;
  const Access& x = a.x;
  Lanes& l = a.l;
  a.wave.lanes = a.wave.spoilt = 0;
  if (x.kind == VM_STORE) progress(a.c);
  if (!w.exec()) return true;
  if (x.space == SCRATCH_SPACE) return !x.to_lds || check_lds_dma(w, x, w.s[M0] + (u32)a.in.offset, 4, w.exec());
  if (!lane_addresses(w, a.in, x, l)) return false;
  if (a.wave.values.of_lds && x.kind != VM_LOAD && !x.typed) mark_stored(w, x, a.brings(), l.mask, l.at);
  if (!check_base(a)) return false;
  if (x.kind == VM_ATOMIC) {
    a.wave.lanes = l.mask;
    memcpy(w.address, l.at, sizeof l.at);
  }
  if (l.shared && !check_lds_flat(w, a.in, x, l.at, l.shared)) return false;
  if (a.c.preempts) preempt_touch(w, x, l.at, l.mask);
  if (l.mask) note_access(a.wave, l.at[__builtin_ctzll(l.mask)]);
  if ((x.to_lds && !check_to_lds(a)) || !check_lanes(a)) return false;
  if (x.kind == VM_LOAD ? x.ordered || x.benign : x.returns) a.c.looks = true;
  return check_flags(a) && check_ranges(a);
}

bool check_global(Wave& w, const Inst& in, const Access& x) {
  if (x.bytes == BY_FORMAT) {
    Access typed = x;
    typed.typed = true;
    typed.bytes = typed_element(w, in, op_facts(in.op)).bytes;
    return !typed.bytes || check_global(w, in, typed);
  }
  Checks& c = *w.wg->check->checks;
  Lanes l;
  l.mask = 0;
  VectorAccess a = {w, in, x, c, check_of(w), l, x.kind == VM_ATOMIC || x.ordered};
  return check_vector(a) && (x.kind == VM_LOAD || !c.follows_values() || check_stored(w, in, x, l.mask));
}

// --- scalar accesses ---------------------------------------------------------------------------------

constexpr u32 IMPLICIT_BYTES = 256;  // of hidden arguments behind the kernel's own

// Scalar accesses: dword aligned; compilers widen loads within 16 aligned bytes.
bool check_scalar(Wave& w, const Inst& in, const Access& x) {
  Checks& c = *w.wg->check->checks;
  WaveCheck& wave = check_of(w);
  const Operand &from = in.src[x.kind == SMEM_STORE], &index = in.src[1 + (x.kind == SMEM_STORE)];
  u64 unit = x.space == SCRATCH_SPACE ? 64 : 1, within = x.kind == SMEM_LOAD ? 15 : 0;
  u64 offset = (index.kind == NONE ? 0 : scalar32(w, index)) * unit + (i64)in.offset, base = w.s64(from.reg),
      address = base + offset;
  if (x.space == BUFFER_SPACE) {
    if ((u32)offset + x.bytes > w.s[from.reg + 2]) return true;  // reads zeros, writes nothing
    base &= 0xffffffffffffull;
    address = base + (u32)offset;
  }
  wave.polled = 0;
  const Launch& launch = *w.wg->launch;  // whose arguments nobody changes: they are read, not polled
  if (address - (u64)launch.kernarg >= launch.kernarg_bytes + IMPLICIT_BYTES) note_access(wave, address);
  if (address & 3 && c.has(CHECK_ALIGNMENT) &&
      !report(w, CHECK_ALIGNMENT, -1, address, nullptr, ~0u, "scalar access to 0x%llx, whose two low bits are ignored",
              (unsigned long long)address))
    return false;
  if (c.preempts) preempt_touch(w, x, &address, 1);
  auto holds = [&](const Range& r) {
    return !r.freed && address >= r.base && address + x.bytes <= ((r.end + within) & ~within);
  };
  // Only its first dword is known to be wanted.
  const bool named = x.space != BUFFER_SPACE && variable_in(w, wave, from.reg);
  const Range* meant = named ? meant_by(c, base, named) : nullptr;
  u32 at = c.hint[wave.pc];
  if (at >= c.n_ranges || !holds(c.ranges[at]))
    for (at = 0; at < c.n_ranges && !holds(c.ranges[at]);) at++;
  if (at < c.n_ranges && (!meant || address - meant->base < meant->end - meant->base)) {
    c.hint[wave.pc] = (u16)at;
    const Range& r = c.ranges[at];
    const u64 from = address & ~3ull;  // of which the first dword is known to be wanted
    Access first = x;
    first.bytes = 4;
    if (r.owners && c.work && c.has(CHECK_RACE) && from >= r.base) {
      if (x.kind == SMEM_STORE) note_writer(r, address, address + x.bytes, c.work, c.known);
      else if (!check_streams(w, first, &from, 1, nullptr, r)) return false;
    }
    return check_scalar_race(w, x, c.ranges[at], address);
  }
  if (!c.has(CHECK_BOUNDS)) return true;
  bool stop = false;
  range_of(w, x, -1, address, x.space == BUFFER_SPACE || named ? base : 0, named, stop);
  return !stop;
}
