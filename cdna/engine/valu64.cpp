#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable VALU64_OPS = {OPS, sizeof OPS / sizeof *OPS};
