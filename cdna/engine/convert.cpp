#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable CONVERT_OPS = {OPS, sizeof OPS / sizeof *OPS};
