// How workgroups and their waves start: registers, scratch and LDS.
#include "thread.h"
#include "checks/check.h"
#include <stdlib.h>

// Registers and LDS hold arbitrary values at the start on hardware; a quiet NaN with a payload shows up in results.
static void poison(void* p, size_t bytes, u32 value) {
  u32* x = (u32*)p;
  for (size_t i = 0; i < bytes / 4; i++) x[i] = value;
}

static void start_wave(Thread& t, Workgroup& g, Wave& w, u32 id, u64 now) {
  const Launch& l = *t.launch;
  const KernelInfo& k = *t.kernel;
  u32* v = w.v;
  u8* scratch = w.scratch;
  memset((void*)&w, 0, sizeof w);
  w.v = v;
  w.n_vgpr = t.program->n_vgpr;
  w.scratch = scratch;
  w.scratch_bytes = t.scratch_bytes;
  w.code = w.issuing = t.code;
  w.skipping = t.skipping;
  w.pc = k.entry;
  w.mode = k.mode;
  w.wg = &g;
  w.id = id;
  w.executed = t.executed;
  w.fault = t.message;
  w.clock = now;
  w.reach = t.reach;
  for (int i = 0; i < 108; i++) w.s[i] = UNWRITTEN;
  if (k.kernarg_sgpr != NO_SGPR) w.set_s64(k.kernarg_sgpr, (u64)l.kernarg);
  if (k.dispatch_sgpr != NO_SGPR) w.set_s64(k.dispatch_sgpr, (u64)t.packet);
  memcpy(&w.s[k.preload_sgpr], l.kernarg + k.preload_offset * 4, k.preload_dwords * 4);
  u32 r = k.user_sgprs;
  for (int d = 0; d < 3; d++)
    if (k.workgroup_id_mask >> d & 1) w.s[r++] = g.id[d];
  w.s[M0] = 0xffffffff;

  poison(w.v, (size_t)t.program->n_vgpr * WAVE * 4, UNWRITTEN);
  const u32 threads = l.block[0] * l.block[1] * l.block[2], first = id * WAVE, n = threads - first;
  if (threads == l.block[0]) {  // as most are; dividing takes longer than many a wave's whole work
    for (u32 i = 0; i < WAVE; i++) w.v[i] = first + i;
  } else {
    u32 x = first % l.block[0], y = first / l.block[0] % l.block[1], z = first / l.block[0] / l.block[1];
    for (u32 i = 0; i < WAVE; i++) {
      w.v[i] = x | y << 10 | z << 20;  // packed work-item ids, as gfx90a and later pass them
      if (++x == l.block[0]) x = 0, y++;
      if (y == l.block[1]) y = 0, z++;
    }
  }
  w.set_exec(n < WAVE ? (1ull << n) - 1 : ~0ull);
}

Workgroup* start_group(Thread& t, Workgroup* g, u32 linear) {
  const Launch& l = *t.launch;
  u32 n_waves = waves_per_group(l);
  if (!g) {
    g = (Workgroup*)calloc(1, sizeof(Workgroup));
    g->lds = allocate(l.card->lds_bytes + 16);
    g->waves = (Wave*)allocate(sizeof(Wave) * n_waves);
    u8* registers = allocate((size_t)n_waves * t.program->n_vgpr * WAVE * 4);
    u8* scratch = allocate((size_t)n_waves * t.scratch_bytes * WAVE);
    for (u32 i = 0; i < n_waves; i++) {
      g->waves[i].v = (u32*)(registers + (size_t)i * t.program->n_vgpr * WAVE * 4);
      g->waves[i].scratch = scratch + (size_t)i * t.scratch_bytes * WAVE;
    }
  }
  g->linear_id = linear;
  g->id[0] = linear % l.groups[0];
  g->id[1] = linear / l.groups[0] % l.groups[1];
  g->id[2] = linear / l.groups[0] / l.groups[1];
  g->n_waves = n_waves;
  g->n_ended = g->n_at_barrier = 0;
  g->lds_bytes = t.lds_bytes;
  g->launch = t.launch;
  g->card = l.card;
  g->l2 = t.l2;
  poison(g->lds, t.lds_bytes + 16, 0x7fc5a5a5);
  u64 now = clock_group_starts(t.clock);
  for (u32 i = 0; i < n_waves; i++) start_wave(t, *g, g->waves[i], i, now);
  if (t.observer) t.observer->group_started(t.observer, *g);
  if (t.launch->checks) check_start_group(*g, t.launch->checks, *t.kernel);
  return g;
}

void free_group(Workgroup* g) {
  check_free_group(*g);
  free(g->waves[0].v);
  free(g->waves[0].scratch);
  free(g->waves);
  free(g->lds);
  free(g);
}
