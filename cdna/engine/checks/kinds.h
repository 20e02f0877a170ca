// The checks, in the order of their bits: KIND(identifier, name, whether it is part of "all"). The engine (check.h), the
// HIP runtime (hip/runtime/checks.cpp) and Python (checks.py) read this one list.
// clang-format off
KIND(BOUNDS, "bounds", 1)
KIND(WAIT, "wait", 1)
KIND(RACE, "race", 1)
KIND(UNINITIALISED, "uninitialised", 1)
KIND(ALIGNMENT, "alignment", 1)
KIND(BARRIER, "barrier", 1)
KIND(DEADLOCK, "deadlock", 1)
KIND(UNWRITTEN, "unwritten", 0)
// clang-format on
