#include "core.h"

static const OpInfo OPS[] = {
};
extern const OpTable LANE_OPS = {OPS, sizeof OPS / sizeof *OPS};
