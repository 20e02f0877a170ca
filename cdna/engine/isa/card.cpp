// The cards: which of them is emulated, and how many workgroups of a kernel its compute units hold.
#include "card.h"
#include <stdlib.h>

extern "C" const Card* cdna_card(const char* model) {
  for (const Card& card : CARDS)
    if (!strcmp(card.model, model)) return &card;
  return nullptr;
}

const Card* chosen_card(const char* arch) {
  const char* model = getenv("CDNA_CARD");
  const Card* chosen = model && *model ? cdna_card(model) : nullptr;
  if (chosen && !strcmp(chosen->name, arch)) return chosen;
  for (const Card& card : CARDS)
    if (!strcmp(card.name, arch) && !strcmp(card.model, card.default_model)) return &card;
  return nullptr;
}

static u32 granules(u32 amount, u32 granule) { return (amount + granule - 1) / granule; }

// Waves by registers: LLVM's AMDGPU backend (AMDGPUBaseInfo.cpp, getNumWavesPerEUWithNumVGPRs; GCNSubtarget.cpp,
// getOccupancyWithNumSGPRs). By LDS: how many workgroups a compute unit's holds, in granules. LLVM's own figure leaves out
// the LDS that a launch asks for, and Triton asks for all of it at launch.
u32 groups_per_cu(const Card& card, u32 vgprs, u32 sgprs, u32 lds_bytes, u32 waves_per_group) {
  u32 by_vgprs = card.vgprs_per_lane / (granules(vgprs ? vgprs : 1, card.vgpr_granule) * card.vgpr_granule);
  u32 waves = card.max_waves_per_simd - (sgprs > card.most_sgprs_at_all_waves);
  if (by_vgprs < waves) waves = by_vgprs;
  u32 groups = waves * card.simds_per_cu / waves_per_group;
  if (!lds_bytes) return groups;
  u32 by_lds = card.lds_bytes / (granules(lds_bytes, card.lds_granule_bytes) * card.lds_granule_bytes);
  return by_lds < groups ? by_lds : groups;
}

extern "C" u32 cdna_groups_per_cu(const Card* card, u32 vgprs, u32 sgprs, u32 lds_bytes, u32 waves_per_group) {
  return groups_per_cu(*card, vgprs, sgprs, lds_bytes, waves_per_group);
}
