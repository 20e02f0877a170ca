// How the compiler lays out the structures that Python sees into: cdna/engine/abi.py compares it with what it reads from them.
#include "checks/check.h"
#include "launch_log.h"
#include "time/device_clock.h"
#include "time/counters.h"
#include "watch.h"
#include "written.h"
#include <stddef.h>

extern "C" const u32 cdna_layout[] = {
#include "layout.inc"
};
