// All instructions: the tables of the families in one, each entry with its facts.
#include "facts.h"

// clang-format off
#define TABLES(X) \
  X(SALU_OPS) X(SCALAR_MEMORY_OPS) X(CONTROL_OPS) X(VALU32_OPS) X(VALU16_OPS) X(VALU64_OPS) X(FLOAT32_OPS) \
  X(TRANSCENDENTAL_OPS) X(DIVISION_OPS) X(PACKED_OPS) X(CONVERT_OPS) X(CONVERT_LOW_OPS) X(COMPARE_OPS) \
  X(LANE_OPS) X(GLOBAL_OPS) X(SCRATCH_OPS) X(BUFFER_OPS) X(TYPED_BUFFER_OPS) X(ATOMIC_OPS) X(LDS_OPS) \
  X(LDS_ATOMIC_OPS) X(LDS_LANE_OPS) X(GWS_OPS) X(MATRIX_OPS) X(MATRIX_INT_F64_OPS) X(MATRIX_SCALED_OPS) \
  X(SPARSE_OPS)
// clang-format on
#define DECLARE(TABLE) extern const OpTable TABLE;
#define ADDRESS(TABLE) &TABLE,
TABLES(DECLARE)
static const OpTable* const OPS[] = {TABLES(ADDRESS)};

static const Facts ROWS[] = {
// sorted by name
#include "isa.inc"
};

// A name may have a form behind it, and where it stands for it only, see OpInfo.
static const Facts* row_of(const char* op) {
  size_t length = strcspn(op, " @");
  u32 low = 0, high = sizeof ROWS / sizeof *ROWS;
  while (low < high) {
    u32 middle = (low + high) / 2;
    int order = strncmp(ROWS[middle].name, op, length);
    if (!order && !ROWS[middle].name[length]) return &ROWS[middle];
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return nullptr;
}

constexpr u32 MOST_OPS = 2048;
static struct {
  const OpInfo* info;
  Facts facts;  // name null: none
} ops[MOST_OPS];
static u32 n_ops;

__attribute__((constructor)) static void collect() {
  for (const OpTable* table : OPS)
    for (int i = 0; i < table->count; i++) {
      auto& op = ops[n_ops++];
      op.info = &table->ops[i];
      const Facts* row = row_of(op.info->name);
      if (!row) continue;
      op.facts = *row;
      const char* form = strchr(op.info->name, ' ');
      if (form && !strncmp(form, " lds", 4)) {  // it has no result
        op.facts.flags |= FACT_TO_LDS;
        memmove(op.facts.slots, op.facts.slots + 1, sizeof(OperandSlot) * (MOST_SLOTS - 1));
      }
    }
}

u32 arch_number(const char* name) {
  u32 i = 0;
  while (i < N_ARCHS && strcmp(ARCHS[i], name)) i++;
  return i;
}

const OpInfo& op_info(u32 op) { return *ops[op].info; }
const Facts& op_facts(u32 op) { return ops[op].facts; }

extern "C" {
int cdna_op_count() { return n_ops; }
const char* cdna_op_name(int op) { return ops[op].info->name; }
int cdna_op_has_facts(int op) { return ops[op].facts.name != nullptr; }
}
