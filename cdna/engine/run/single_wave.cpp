// One wave without a launch.
#include "isa/host.h"
#include "launch.h"
#include "thread.h"
#include <stdlib.h>

// Runs one wave from instruction 0 on registers the caller holds (v: [n_vgpr][64], s: 128 dwords, exec at 126):
// how single instructions are tested. Returns the stop reason.
extern "C" u32 cdna_run_wave(Program* p, u32* v, u32* s, u32* scc, u8* lds, u32 lds_bytes, u32 scratch_bytes, u32 mode,
                             char* message) {
  Workgroup g;
  memset((void*)&g, 0, sizeof g);
  g.lds = lds;
  g.lds_bytes = lds_bytes;
  g.n_waves = 1;
  g.card = chosen_card(p->arch);
  Wave* w = (Wave*)allocate(sizeof(Wave));
  memset((void*)w, 0, sizeof *w);
  memcpy(w->s, s, sizeof w->s);
  w->v = v;
  w->n_vgpr = p->n_vgpr;
  w->scc = *scc;
  w->mode = mode;
  w->wg = &g;
  Inst* skipping = p->skips ? code_with_handler(*p, VECTOR_UNITS, skipped) : nullptr;
  w->code = w->issuing = p->joined ? p->joined : p->code;
  w->skipping = skipping;
  scratch_bytes = (scratch_bytes + 3) & ~3u;  // scratch is interleaved by dwords
  w->scratch = allocate((size_t)scratch_bytes * WAVE);
  w->scratch_bytes = scratch_bytes;
  w->fault = message;
  w->executed = (u64*)calloc(p->n_inst + 1, sizeof(u64));
  u32 saved_float_mode = float_mode();
  applied_mode = ~0u;
  Thread t;
  memset((void*)&t, 0, sizeof t);
  t.running = w;
  clock_costs(*p, *g.card);
  w->clock = clock_now();
  install_fault_handlers();
  runs_waves_of(&t);
  if (sigsetjmp(t.on_fault, 1)) memory_fault(*w, t.fault_address);
  else do
      run_wave(*w, *p, QUANTUM, nullptr);
    while (w->stop != ENDED && w->stop != FAULTED);
  runs_waves_of(nullptr);
  set_float_mode(saved_float_mode);
  applied_mode = ~0u;
  clock_advance(w->clock);
  u32 stop = w->stop;
  memcpy(s, w->s, sizeof w->s);
  *scc = w->scc;
  free(w->executed);
  free(w->scratch);
  free(w);
  free(skipping);
  return stop;
}
