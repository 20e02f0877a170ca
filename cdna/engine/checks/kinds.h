// The checks, in the order of their bits: KIND(identifier, name). The engine (check.h), the
// HIP runtime (hip/runtime/checks.cpp) and Python (cdna/checks) read this one list.
// clang-format off
KIND(BOUNDS, "bounds")
KIND(WAIT, "wait")
KIND(RACE, "race")
KIND(UNINITIALISED, "uninitialised")
KIND(ALIGNMENT, "alignment")
KIND(BARRIER, "barrier")
KIND(DEADLOCK, "deadlock")
KIND(UNWRITTEN, "unwritten")
// clang-format on
