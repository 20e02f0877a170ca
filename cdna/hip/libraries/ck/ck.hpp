// Of composable kernel's "ck" only what kernels borrow from it: index types, vector types, buffer loads and stores
// (ck/utility/data_type.hpp, amd_buffer_addressing.hpp). Its tensor operations are not here.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <stdint.h>

namespace ck {

using index_t = int32_t;

template <index_t... Is> struct Sequence {
  static constexpr index_t mSize = sizeof...(Is);
};

}  // namespace ck
