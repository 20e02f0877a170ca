#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable MATRIX_OPS = {OPS, sizeof OPS / sizeof *OPS};
