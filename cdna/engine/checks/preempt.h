// Waves that are held back where they meet others: see preempt.cpp.
#pragma once
#include "check.h"

struct Preempts;
// Of a launch with checks; null: it is held back nowhere, and nobody asks where its waves meet.
Preempts* preempts_create(const KernelInfo&, u32 xcds);
void preempts_destroy(Preempts*);
bool preempted(Wave& w, WaveCheck& c, u32 pc);  // before an instruction: whether the wave is held there
// Dwords that a wave is about to touch, to be told where it meets others.
void preempt_touch(Wave& w, const Access& x, const u64* at, u64 lanes);
// After a pass over all workgroups in which none ended: true while any wave is held. Lets go who is held longest, once
// nobody else gets on.
bool preempt_rests(Checks& c);
bool schedule_says(const char* word);  // of $CDNA_SCHEDULE
