// The emulated card: cdna/cards, as build.py has written them down for C++.
#pragma once
#include "core.h"

#include "cards.h"

extern "C" {
const Card* cdna_card(const char* model);  // null: no such card
u32 cdna_groups_per_cu(const Card*, u32 vgprs, u32 sgprs, u32 lds_bytes, u32 waves_per_group);
}
// $CDNA_CARD if it is of this arch, else the arch's default; null: no such arch. As get_card() of cdna/cards.
const Card* chosen_card(const char* arch);
// Workgroups of a kernel that a compute unit holds: 0 if not one. vgprs: of both register files.
u32 groups_per_cu(const Card&, u32 vgprs, u32 sgprs, u32 lds_bytes, u32 waves_per_group);
