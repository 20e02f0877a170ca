// The emulated compute unit: architectural state, decoded instructions, and the helpers that the families of instructions
// in this folder (salu.cpp, valu32.cpp, global.cpp, lds.cpp, mfma.cpp, ...) are written with.
//
// A vector register is 64 consecutive dwords, one per lane, so a lane-wise instruction is a loop of 64
// that the compiler vectorises; a 64-bit operand is two such registers in a row (low, then high).
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef _Float16 f16;

constexpr int WAVE = 64;

// --- decoded instruction -----------------------------------------------------------------------

enum OperandKind : u8 { NONE, VGPR, SGPR, CONST, SPECIAL };
enum OperandMod : u8 { NEG = 1, ABS = 2, SEXT = 4 };
enum BoundControl : u8 { BOUND_ZERO = 1, BOUND_FI = 2 };  // bound_ctrl and fi
enum SpecialReg : u16 { SHARED_BASE = 235, SHARED_LIMIT, PRIVATE_BASE, PRIVATE_LIMIT, VCCZ = 251, EXECZ, SCC };
enum ScalarReg : u16 { VCC = 106, TTMP0 = 108, M0 = 124, EXEC = 126 };

struct Operand {
  u8 kind, mods;
  u16 reg;     // VGPR number (accumulation registers follow the architectural ones), SGPR number, SpecialReg
  u32 lo, hi;  // value of a constant, as the operand's type reads it
};

enum InstFlag : u32 {
  CLAMP = 1,
  DPP = 2,
  SDWA = 4,
  OPSEL = 8,
  GLC = 16,
  LDS_DMA = 32,
  OFFEN = 64,
  IDXEN = 128,
  SLOW = 256,  // any modifier that the fast path of a lane-wise instruction does not see
  PACKED_SEL = 512,
  NT = 1024,
  SC1 = 2048,
  INDEXED = 8192,  // between s_set_gpr_idx_on and s_set_gpr_idx_off
  HALF_DST = 4096  // op_sel's bit 3 picks the half that a 16-bit result is written to
};

struct Wave;
struct Inst;
typedef void (*Handler)(Wave&, const Inst&);
typedef void (*Core)(u32* d, const u32* a, const u32* b, const u32* c);

struct Inst {
  Handler fn;
  Core core;  // the lane-wise function of a generic handler, else null
  Operand dst[2];
  Operand src[5];
  i32 offset;  // byte offset; branch target (instruction index); immediate of s_waitcnt, s_nop, ...
  i32 offset1;
  u32 flags;
  u8 omod;                               // 0, 1: *2, 2: *4, 3: /2
  u8 op_sel, op_sel_hi, neg_lo, neg_hi;  // bit i: operand i (op_sel bit 3: destination)
  u8 cbsz, abid, blgp;
  u16 dpp_ctrl;
  u8 row_mask, bank_mask, bound_ctrl;
  u8 dst_sel, dst_unused, src0_sel, src1_sel;  // SDWA: 0-3 byte, 4-5 word, 6 dword
  u8 byte_sel;
  u8 dst_dwords;
  u8 src_dwords[5];
  u8 float_type;    // of the lane-wise result, for clamp and omod: 0 integer, 16, 32, 64, 15 = packed f16
  u8 src_float[5];  // width of a source read as a float (16, 32, 64), 0 integer: what neg and abs act on; packed 15, 31
  u32 op;           // index into the op table
};

struct OpInfo {
  // A form may stand behind it: `buffer_load_dword lds`. On archs that the instruction has in cdna/isa, or fewer:
  // `name@ocp`, where that is the format of fp8; `name@other`, where that instruction is.
  const char* name;
  Handler fn;
  Core core;
};

// Each instruction family exports one table.
struct OpTable {
  const OpInfo* ops;
  int count;
};

// --- state -------------------------------------------------------------------------------------

enum StopReason : u32 { RUNNING = 0, ENDED = 1, AT_BARRIER = 2, YIELDED = 3, FAULTED = 4, AT_CLOCK = 5 };
enum ClockRead : u32 { READS_CYCLES, READS_TIME };  // s_memtime, s_memrealtime
constexpr u32 POLLING_READS = 4;  // of the clock in a short time: the wave waits for something, let others run

constexpr u32 FP16_OVFL = 1u << 23;     // of MODE: overflow gives the largest finite value
constexpr u32 F32_DENORMALS = 1u << 4;  // of MODE: f32 operands keep theirs

struct Card;
struct Reach;
struct Program;
struct Launch;
struct Workgroup {
  u8* lds;
  u32 lds_bytes;  // allocated for this launch (static + dynamic)
  u32 id[3];
  u32 linear_id;
  u32 n_waves, n_ended, n_at_barrier;
  Wave* waves;
  Launch* launch;
  const Card* card;
  void* observed;            // what an observer keeps of it, see observer.h
  struct GroupCheck* check;  // null: the launch has no checks, see check.h
  volatile u64* progress;    // of its checks: counts what changes for other waves
  struct XcdL2* l2;          // null: what its XCD's L2 holds is not followed, see xcd_l2.h
  bool hands_over;           // to another workgroup: a check wants to see what that one does with a flag
  u64 says_at;               // the flag that it has just written, 0 if it was told by one
};

struct alignas(64) Wave {
  u32 s[128];  // scalar registers by encoding: 106 vcc, 124 m0, 126 exec
  u32* v;      // vector registers, [n_vgpr][64]
  u32 n_vgpr;
  u32 scc;
  u32 pc;    // index of the next instruction
  u32 stop;  // StopReason
  u32 mode;  // MODE register: bits 1:0 f32 rounding, 3:2 f64/f16 rounding, 5:4 f32 denormals, 7:6 f64/f16
  const Inst* code;
  const Inst* issuing;   // the code as it is
  const Inst* skipping;  // and with `skipped` for its vector instructions, see s_setvskip; null: it has no such thing
  Workgroup* wg;
  u8* scratch;        // [dword of a lane's scratch][lane], see memory.h
  u32 scratch_bytes;  // per lane
  u32 id;             // within the workgroup
  u64* executed;      // per instruction, of this thread
  char* fault;        // where a handler writes why it stopped with FAULTED (256 bytes)
  u64 clock;          // cycles: when it is, see device_clock.h; as of its last turn, while it runs
  u32 clock_read;     // ClockRead, of a wave AT_CLOCK
  u32 clock_reads;    // since it last let others run, and so many instructions:
  u32 since_yield;
  u32 released;       // not 0: from a barrier, and has not run since
  u32 watched;        // what it has just executed, plus 1, if a watch marked that, see watch.h
  u64 ends[16];       // of its last long turns: hashes of its registers, which come again while it polls
  u32 n_ends;         // of all of them
  u32 circles;        // how many turns it may still need to show that it goes round in a circle once more
  u32 gws_ticket;     // what it waits for at a global wave sync, see gws.cpp; 0: nothing
  Reach* reach;       // null: any address is the card's, see reach.h
  u64 address[WAVE];  // host addresses of the last vector memory access: which lane a fault belongs to

  u64 exec() const {
    u64 x;
    memcpy(&x, &s[EXEC], 8);
    return x;
  }
  void set_exec(u64 x) { memcpy(&s[EXEC], &x, 8); }
  u64 s64(u32 r) const {
    u64 x;
    memcpy(&x, &s[r], 8);
    return x;
  }
  void set_s64(u32 r, u64 x) { memcpy(&s[r], &x, 8); }
  u32* vreg(u32 r) { return v + (size_t)r * WAVE; }
};

enum ModeBit : u32 {
  MODE_F32_IN_DENORMALS = 1 << 4,    // operands may be denormals
  MODE_F32_OUT_DENORMALS = 1 << 5,   // results may be denormals
  MODE_WIDE_OUT_DENORMALS = 1 << 7,  // of f64 and f16
  MODE_DX10_CLAMP = 1 << 8,
  MODE_IEEE = 1 << 9
};

constexpr u64 SHARED_APERTURE = 0x0001000000000000ull;  // above every host address
constexpr u64 PRIVATE_APERTURE = 0x0002000000000000ull;
constexpr u64 CODE_BASE = 0x0004000000000000ull;  // what s_getpc_b64 returns: CODE_BASE + 8 * index

void fault(Wave& w, const char* format, ...);
void apply_mode(u32 mode);  // sets the host's rounding and denormal handling to the wave's MODE
extern __thread u32 applied_mode;
u8* allocate(size_t bytes);  // at a multiple of 64; to be freed

// --- operands ----------------------------------------------------------------------------------

#define LANES _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < WAVE; i++)

static inline u32 special32(const Wave& w, u32 reg) {
  switch (reg) {
    case SHARED_BASE: return SHARED_APERTURE >> 32;
    case SHARED_LIMIT: return (SHARED_APERTURE >> 32);
    case PRIVATE_BASE: return PRIVATE_APERTURE >> 32;
    case PRIVATE_LIMIT: return PRIVATE_APERTURE >> 32;
    case VCCZ: return w.s64(VCC) == 0;
    case EXECZ: return w.exec() == 0;
    default: return w.scc;
  }
}

static inline u32 scalar32(const Wave& w, const Operand& o) {
  if (o.kind == SGPR) return w.s[o.reg];
  if (o.kind == SPECIAL) return special32(w, o.reg);
  return o.lo;
}

static inline u64 scalar64(const Wave& w, const Operand& o) {
  if (o.kind == SGPR) return w.s64(o.reg);
  if (o.kind == SPECIAL) return o.reg <= PRIVATE_LIMIT ? (u64)special32(w, o.reg) << 32 : special32(w, o.reg);
  return o.lo | (u64)o.hi << 32;
}

static inline void splat(u32* d, u32 x) {
  for (int i = 0; i < WAVE; i++) d[i] = x;
}

// The lanes of a source operand: the register itself, or `tmp` filled with a scalar's value.
static inline const u32* lanes(Wave& w, const Operand& o, u32* tmp, int dwords) {
  if (__builtin_expect(o.kind == VGPR, 1)) return w.vreg(o.reg);
  if (o.kind == NONE) return tmp;
  if (dwords == 1) {
    splat(tmp, scalar32(w, o));
    return tmp;
  }
  if (o.kind == SGPR) {
    for (int k = 0; k < dwords; k++) splat(tmp + k * WAVE, w.s[o.reg + k]);
    return tmp;
  }
  u64 x = scalar64(w, o);
  splat(tmp, (u32)x);
  for (int k = 1; k < dwords; k++) splat(tmp + k * WAVE, (u32)(x >> 32));
  return tmp;
}

static inline u64 mixed(u64 x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

static inline u64 pair(const u32* a, int i) { return a[i] | (u64)a[WAVE + i] << 32; }
static inline void set_pair(u32* d, int i, u64 x) {
  d[i] = (u32)x;
  d[WAVE + i] = (u32)(x >> 32);
}
static inline float as_f32(u32 x) { return __builtin_bit_cast(float, x); }
static inline u32 bits(float x) { return __builtin_bit_cast(u32, x); }
static inline double as_f64(u64 x) { return __builtin_bit_cast(double, x); }
static inline u64 bits(double x) { return __builtin_bit_cast(u64, x); }
// What clamp makes of a float: NaN becomes 0 where MODE says so, else it stays.
template <class T> static inline T clamped(const Wave& w, T x) {
  return x > 0 ? (x < 1 ? x : T(1)) : x == x || w.mode & MODE_DX10_CLAMP ? T(0) : x;
}
static inline f16 as_f16(u32 x) { return __builtin_bit_cast(f16, (u16)x); }
static inline u32 bits(f16 x) { return __builtin_bit_cast(u16, x); }

// A row of 16 lanes, and a bit for each.
typedef u32 Row __attribute__((ext_vector_type(16), aligned(4)));
typedef i32 RowOfInts __attribute__((ext_vector_type(16)));
typedef bool RowBits __attribute__((ext_vector_type(16)));
static inline Row row_of(const u32* p) {
  Row x;
  memcpy(&x, p, sizeof x);
  return x;
}

// d[lane] = b[lane] where the mask has the lane's bit, else a[lane].
static inline void select_lanes(u32* d, const u32* a, const u32* b, u64 mask) {
  for (int q = 0; q < WAVE; q += 16) {
    RowBits bits = __builtin_bit_cast(RowBits, (u16)(mask >> q));
    Row x = __builtin_convertvector(bits, RowOfInts) != 0 ? row_of(b + q) : row_of(a + q);
    memcpy(d + q, &x, sizeof x);
  }
}
// d[lane] = t[lane] where it has.
static inline void blend(u32* d, const u32* t, u64 mask) { select_lanes(d, d, t, mask); }

// Per-lane 0/1 dwords from and to a mask of 64 bits.
static inline void spread_mask(u32* d, u64 mask) {
  u32 half[2] = {(u32)mask, (u32)(mask >> 32)};
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < 32; i++) d[h * 32 + i] = half[h] >> i & 1;
}
static inline u64 gather_mask(const u32* flags) {
  u64 mask = 0;
  for (int q = 0; q < WAVE; q += 16)
    mask |= (u64) __builtin_bit_cast(u16, __builtin_convertvector(row_of(flags + q) != 0, RowBits)) << q;
  return mask;
}

#define EACH_LANE(w, lane)                    \
  for (u64 _m = (w).exec(); _m; _m &= _m - 1) \
    if (int lane = __builtin_ctzll(_m); true)

// --- generic handlers (generic.cpp) ---------------------------------------------------------------
// Their `core` sees plain lanes: neg/abs/op_sel/DPP/SDWA are applied to the sources before, clamp, omod,
// SDWA's destination and the exec mask to the result after.

void indexed_op(Wave&, const Inst&);  // any of those that are INDEXED: registers relative to M0
void skipped(Wave&, const Inst&);     // what VSKIP leaves out
void lane_op(Wave&, const Inst&);     // D = S [S [S]]
void compare_op(Wave&, const Inst&);  // core returns a mask of 64 bits in d[0..1]; lanes off in exec read 0
void cmpx_op(Wave&, const Inst&);     // the same, and writes exec

// Sources with every modifier applied, for handlers of their own. `tmp` holds dwords*64 dwords.
const u32* apply_modifiers(Wave& w, const Inst& in, int k, u32* tmp);
static inline const u32* modified_source(Wave& w, const Inst& in, int k, u32* tmp) {
  if (__builtin_expect(!(in.flags & SLOW), 1)) return lanes(w, in.src[k], tmp, in.src_dwords[k]);
  return apply_modifiers(w, in, k, tmp);
}
// Lanes that the instruction writes: exec, less those DPP's row and bank masks leave out.
u64 write_mask(const Wave& w, const Inst& in);
// Applies clamp, omod and SDWA's destination select to `t`, then writes the active lanes of dst[0].
void write_result(Wave& w, const Inst& in, u32* t);
