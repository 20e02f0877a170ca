#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable COMPARE_OPS = {OPS, sizeof OPS / sizeof *OPS};
