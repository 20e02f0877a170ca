// Where programs of before rocWMMA 2 find its types and conversions.
#pragma once

#include <rocwmma/rocwmma.hpp>
