#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable BUFFER_OPS = {OPS, sizeof OPS / sizeof *OPS};
