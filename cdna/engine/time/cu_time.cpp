// Waves issue in order, the one whose clock is behind first. An instruction takes its unit for its cycles: a
// SIMD's lanes, a SIMD's matrix core (and 4 cycles of its lanes' issue), the CU's LDS or L1. Results of
// memory come after a latency; s_waitcnt moves the wave's clock to when they are there, s_barrier to when the
// last wave has arrived. What the compiler separates with s_nop costs those; registers are not followed.
#include "cu_time.h"
#include "costs.h"
#include <stdlib.h>

namespace {
constexpr u32 SIMDS = 4, ISSUE = ISSUE_CYCLES;
constexpr u32 VM_RING = 64, LDS_RING = 16;  // what vmcnt and lgkmcnt can tell apart

struct WaveClock {
  u64 at;  // next step
  u64 vm[VM_RING], lds[LDS_RING], scalar_done;
  u32 vm_issued, lds_issued;
  bool waits;  // at a barrier
};
struct Units {
  u64 vector[SIMDS], matrix[SIMDS], lds, l1;
};  // when each is free
}  // namespace

static u64 later(u64 a, u64 b) { return a > b ? a : b; }
static u64 take(u64& unit, u64 now, u32 cycles) {  // when it starts
  u64 start = later(unit, now);
  unit = start + cycles;
  return start;
}
// Results of one counter come back in the order of issue.
static void issue(u64* ring, u32 size, u32& issued, u64 done) {
  ring[issued % size] = issued ? later(done, ring[(issued - 1) % size]) : done;
  issued++;
}
static u64 awaited(const u64* ring, u32 size, u32 issued, u32 left, u64 now) {
  return left < size && left < issued ? later(now, ring[(issued - 1 - left) % size]) : now;
}

// The wave's clock after one step that is no barrier.
static u64 execute(WaveClock& w, Units& units, u32 simd, Step step, u64 now, const Latencies& latency) {
  u32 amount = step >> 4;
  switch (step & 15) {
    case ISSUE_STEP: return now + amount;
    case VECTOR_STEP: return take(units.vector[simd], now, amount) + amount;
    case MATRIX_STEP: {
      u64 start = take(units.vector[simd], later(now, units.matrix[simd]), ISSUE);
      units.matrix[simd] = start + amount;
      return start + ISSUE;
    }
    case LDS_STEP: {
      u64 start = take(units.lds, now, amount);
      issue(w.lds, LDS_RING, w.lds_issued, start + amount + latency.lds);
      return now + ISSUE;
    }
    case MEMORY_STEP: {
      u32 cycles = amount & ~MISSED;
      bool missed = amount & MISSED;
      u64 start = take(units.l1, now, cycles);
      issue(w.vm, VM_RING, w.vm_issued, start + cycles + (missed ? latency.beyond_l1 : latency.l1));
      return now + ISSUE;
    }
    case SCALAR_MEMORY_STEP: w.scalar_done = later(w.scalar_done, now + latency.scalar); return now + ISSUE;
    default: {  // WAIT_STEP
      u32 vm = amount & 255, lgkm = amount >> 8 & 255;
      now = awaited(w.vm, VM_RING, w.vm_issued, vm, now);
      now = awaited(w.lds, LDS_RING, w.lds_issued, lgkm, now);
      return ISSUE + (lgkm == 0 ? later(now, w.scalar_done) : now);
    }
  }
}

u64 cu_cycles(const Steps* waves, u32 n_waves, u32 copies, const Latencies& latencies) {
  constexpr u64 STOPPED = ~0ull;  // at a barrier, or ended
  u32 n = n_waves * copies;
  WaveClock* w = (WaveClock*)calloc(n, sizeof(WaveClock));
  u64* now = (u64*)calloc(n, sizeof(u64));
  u64* arrived_at = (u64*)calloc(copies, sizeof(u64));
  u32* arrived = (u32*)calloc(copies, sizeof(u32));
  u32* ended = (u32*)calloc(copies, sizeof(u32));
  Units units = {};
  u64 end = 0;
  while (true) {
    u32 next = 0;
    for (u32 i = 1; i < n; i++) next = now[i] < now[next] ? i : next;
    u64 t = now[next];
    if (t == STOPPED) break;
    WaveClock& c = w[next];
    const Steps& s = waves[next % n_waves];
    u32 group = next / n_waves;
    bool stops = c.at == s.n;
    if (stops) {
      ended[group]++;
      end = later(end, t);
    } else {
      Step step = s.at[c.at++];
      if ((step & 15) == BARRIER_STEP) {
        arrived[group]++;
        stops = c.waits = true;
      } else {
        now[next] = execute(c, units, next % SIMDS, step, t, latencies);
      }
    }
    if (!stops) continue;
    now[next] = STOPPED;
    arrived_at[group] = later(arrived_at[group], t);
    if (!arrived[group] || arrived[group] + ended[group] < n_waves) continue;
    for (u32 i = group * n_waves; i < (group + 1) * n_waves; i++) {
      if (!w[i].waits) continue;
      w[i].waits = false;
      now[i] = arrived_at[group] + ISSUE;
    }
    arrived[group] = 0;
  }
  free(w);
  free(now);
  free(arrived_at);
  free(arrived);
  free(ended);
  return end;
}
