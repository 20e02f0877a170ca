// The former name of hip_ext.h.
#pragma once

#include <hip/hip_ext.h>
