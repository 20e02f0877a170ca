#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable LDS_OPS = {OPS, sizeof OPS / sizeof *OPS};
