// What a run in one order is compared by with a run in another, and streams that a schedule keeps back: see the engine's
// checks/preempt.cpp. `stream:ID` in $CDNA_SCHEDULE has the work of the stream that was created as the ID-th wait until
// somebody waits for it; `branches` takes those of graphs the other way round.
#include "checks/preempt.h"
#include "runtime.h"

static u64 digest;  // of what the host has got, in whatever order

static bool ran_graph;

bool takes_last_branch_first() {
  ran_graph = true;
  static const bool says = schedule_says("branches");
  return says;
}

bool is_late(const ihipStream_t& q) {
  static const bool any = getenv("CDNA_SCHEDULE");
  if (!any || !q.id) return false;
  char word[32];
  snprintf(word, sizeof word, "stream:%llu", (unsigned long long)q.id);
  return schedule_says(word);
}

static void write_digest(int, void*) {
  FILE* report = fopen(getenv("CDNA_ORDER_REPORT"), "a");
  if (!report) return;
  fprintf(report, "digest\t%016llx\n", (unsigned long long)digest);
  for (u64 id = 1; id < streams_made(); id++) fprintf(report, "stream\t%llu\n", (unsigned long long)id);
  if (ran_graph) fprintf(report, "graph\n");
  fclose(report);
}

void note_output(const CopyCall& c) {
  static const bool asked = getenv("CDNA_ORDER_REPORT") && !on_exit(write_digest, nullptr);
  if (!asked) return;
  const Allocation* to = find_allocation(c.to);
  if (to ? to->type == hipMemoryTypeDevice : program_at((u64)c.to) != nullptr) return;
  u64 hash = 0xcbf29ce484222325ull;
  for (size_t z = 0; z < c.depth; z++)
    for (size_t y = 0; y < c.height; y++) {
      const u8* from = (const u8*)c.from + z * c.from_slice + y * c.from_pitch;
      for (size_t x = 0; x < c.width; x++) hash = (hash ^ from[x]) * 0x100000001b3ull;
    }
  __atomic_add_fetch(&digest, hash, __ATOMIC_RELAXED);
}
