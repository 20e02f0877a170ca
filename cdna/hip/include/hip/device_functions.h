// All of it is in hip_runtime.h; programs include it under this name too.
#pragma once
#include <hip/hip_runtime.h>
