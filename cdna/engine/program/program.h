// Loaded programs and what a launch of one of their kernels needs. Programs come as images, made by image.py.
#pragma once
#include "isa/card.h"
#include "isa/core.h"
#include "isa/facts.h"

struct KernelArgument {
  u32 offset, size, kind;  // kind: ArgumentKind
};
enum ArgumentKind : u32 {
  EXPLICIT,
  HIDDEN_OTHER,
  BLOCK_COUNT_X,
  BLOCK_COUNT_Y,
  BLOCK_COUNT_Z,
  GROUP_SIZE_X,
  GROUP_SIZE_Y,
  GROUP_SIZE_Z,
  REMAINDER_X,
  REMAINDER_Y,
  REMAINDER_Z,
  GRID_DIMS,
  DYNAMIC_LDS_SIZE,
  GLOBAL_OFFSET,
  HOSTCALL_BUFFER,
  MULTIGRID_SYNC,
  SHARED_BASE_HI,
  PRIVATE_BASE_HI
};
constexpr u32 NO_SGPR = ~0u;

// From the kernel descriptor (.amdhsa_*) and metadata.
struct KernelInfo {
  u32 entry;          // instruction index
  u32 user_sgprs;     // how many SGPRs the user data takes
  u32 kernarg_sgpr;   // index of the pair holding the kernarg address, NO_SGPR if none
  u32 dispatch_sgpr;  // index of the pair holding the dispatch packet's address, NO_SGPR if none
  u32 preload_sgpr, preload_dwords, preload_offset;  // kernel arguments preloaded to SGPRs
  u32 workgroup_id_mask;                             // bit d: the id of dimension d follows the user SGPRs
  u32 static_lds_bytes, scratch_bytes, kernarg_bytes;
  u32 mode;            // MODE register at the start
  u32 max_work_items;  // of a workgroup, as the kernel was compiled for
  u32 vgprs, agprs, sgprs;
  u32 dynamic_stack;  // how deep its calls go is not known: it needs more scratch than it says
  u32 n_arguments;
  const char* name;
  const char* readable;  // as its source has it, for messages
  const KernelArgument* arguments;
};

struct Symbol {
  const char* name;
  u8* address;
  u64 size;
  bool constant;  // kernels may only read it, as the program's host code has said
};

constexpr u32 ANY_KERNEL = ~0u;
struct Hazard {  // of hazards.py
  u32 pc;
  u32 kernel;  // whose code it is; ANY_KERNEL: a function's, which several may call
  bool doubt, told;
  const char* message;
};

struct Program {
  Inst* code;
  u32 n_inst;  // one more stands behind them, which faults: what counts while waves execute has a place for it
  u32 n_vgpr;  // architectural + accumulation
  u32 first_accumulation;
  char arch[16];
  u32 arch_number;
  u8* blob;  // the image: strings and records point into it
  u8** sections;
  u64* got;  // addresses that code loads, n_got of them
  KernelInfo* kernels;
  Symbol* symbols;
  u32 n_sections, n_kernels, n_symbols, n_got;
  const char** where;  // per instruction: "`text` (file:line)"
  u32* section_bytes;
  Hazard* hazards;
  u32 n_hazards;
  bool skips;               // it has an s_setvskip
  bool loads_to_lds;        // it has loads that go straight to the LDS
  bool listed;              // its variables, among the memory of all launches; see memory/registry.h
  Inst* noting[2];          // its code and its joined code for who asks who wrote what, or null: see run/written.h
  u16 told_in, told_first;  // the call in which its constants were told last, and a case's first one that told them
  u32 told;                 // how many bytes those were
  u64 blob_bytes;
  u32 number, journaled_in;  // of who replays launches, and the case for which it has been told: see run/journal.h
  Inst* joined;              // its code for who does not look between two instructions, or null: see joined_products.h
  struct Access* accesses;   // made where they are first asked for, see access.h
  bool measured;             // its kernels' registers, see measure_registers
  Program* next;             // of all that are loaded
  u16* costs;                // see clock_costs
  bool costs_known;
};

// One launch. The caller fills the first part.
struct Launch {
  u32 groups[3];
  u32 block[3];
  u32 dynamic_lds_bytes;
  u32 n_threads;
  const u8* kernarg;  // explicit arguments at their offsets; hidden ones are filled in
  u32 kernarg_bytes;
  u32 cooperative;                   // workgroups may wait for all others: every one of them is live at once
  u64* executed;                     // [n_inst] executed wave instructions, added up over threads; may be null
  volatile u32* cancel;              // set non-zero by the host to stop the launch; may be null
  struct ObserverSource* observers;  // see observer.h; may be null
  struct Checks* checks;             // see check.h; may be null
  u64 order_seed;                    // see seeded_order.h; 0: the card's order
  const Card* card;                  // null: chosen_card of the program's arch
  u32 device_number;                 // of the process's, from 1 on; 0: not said, see memory/peer_memory.h
  // results
  u32 status;  // LaunchStatus
  u32 fault_pc, fault_wave, fault_group[3];
  u64 fault_address;
  char message[512];
};
static inline u32 waves_per_group(const Launch& l) { return (l.block[0] * l.block[1] * l.block[2] + WAVE - 1) / WAVE; }
enum LaunchStatus : u32 { LAUNCHED = 0, LAUNCH_FAULTED = 1, LAUNCH_CANCELLED = 2, LAUNCH_REFUSED = 3 };

constexpr u32 VECTOR_UNITS = 1 << VECTOR_UNIT | 1 << MATRIX_UNIT | 1 << MEMORY_UNIT | 1 << LDS_UNIT;
// A copy of a program's code with another handler for the instructions of some units (a mask).
Inst* code_with_handler(const Program& p, u32 units, Handler handler);
const Program* program_at(u64 address);  // whose data lies there; null: nobody's

typedef bool (*AddressTest)(u64 address);

extern "C" {
Program* cdna_image_load(const u8* image, u64 bytes,
                         char* message);  // null with a message (256 bytes) if it does not fit this engine
void cdna_program_destroy(Program*);
int cdna_find_kernel(Program*, const char* name);  // index, or -1
void cdna_set_stack_bytes(u32 bytes);              // of each work-item of kernels with a dynamic stack, at least
u32 cdna_scratch_of(const KernelInfo&);            // bytes of a work-item
}
