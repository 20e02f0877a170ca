// Which range holds an address, see bounds.cpp.
#pragma once
#include "check.h"

bool contains(const Checks& c, const Range& r, const Access& x, u64 from, u64 to);
bool readable(const Checks& c, u64 address);
// Whether an address made from `base` means this range; which range it means, or null.
bool meant_by(const Range& r, u64 base, bool named);
const Range* meant_by(const Checks& c, u64 base, bool named);
Range* range_around(Checks& c, const Access& x, u64 from, u64 to, bool& known);
Range* range_of(Wave& w, const Access& x, int lane, u64 address, u64 base, bool named, bool& stop);
