#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable VALU16_OPS = {OPS, sizeof OPS / sizeof *OPS};
