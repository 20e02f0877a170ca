// Of composable kernel's "ck" only what kernels borrow from it: index types, vector types, buffer loads and stores
// (ck/utility/data_type.hpp, amd_buffer_addressing.hpp). Its tensor operations are not here.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <stdint.h>

#define CK_BUFFER_RESOURCE_3RD_DWORD 0x00020000  // of a gfx9 resource: raw buffer, 32-bit elements

namespace ck {

using index_t = int32_t;
using long_index_t = int64_t;

enum struct InMemoryDataOperationEnum { Set, AtomicAdd, AtomicMax, Add };

}  // namespace ck
