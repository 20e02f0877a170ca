#include "kernel_arguments.h"
#include <stdlib.h>

constexpr size_t KERNARG_ALIGNMENT = 128;

// Fills the hidden arguments (LLVM AMDGPUUsage, "Kernel Argument Metadata") into a copy of the explicit ones. They begin
// at a multiple of 128 bytes, as HIP's do (ROCclr, rockernel.cpp): a scalar load of them asks for as many lines in each run.
u8* kernel_arguments(const KernelInfo& k, const Launch& l, const GridSync* sync, const Hostcall* hostcall) {
  const size_t bytes = (k.kernarg_bytes > l.kernarg_bytes ? k.kernarg_bytes : l.kernarg_bytes) + 64;
  void* memory;
  if (posix_memalign(&memory, KERNARG_ALIGNMENT, bytes)) abort();
  u8* buffer = (u8*)memset(memory, 0, bytes);
  if (l.kernarg_bytes) memcpy(buffer, l.kernarg, l.kernarg_bytes);
  for (u32 i = 0; i < k.n_arguments; i++) {
    const KernelArgument& a = k.arguments[i];
    u64 value = 0;
    switch (a.kind) {
      case BLOCK_COUNT_X:
      case BLOCK_COUNT_Y:
      case BLOCK_COUNT_Z: value = l.groups[a.kind - BLOCK_COUNT_X]; break;
      case GROUP_SIZE_X:
      case GROUP_SIZE_Y:
      case GROUP_SIZE_Z: value = l.block[a.kind - GROUP_SIZE_X]; break;
      case GRID_DIMS: value = l.groups[2] * l.block[2] > 1 ? 3 : l.groups[1] * l.block[1] > 1 ? 2 : 1; break;
      case DYNAMIC_LDS_SIZE: value = l.dynamic_lds_bytes; break;
      case HOSTCALL_BUFFER: value = hostcall ? hostcall_buffer(hostcall) : 0; break;
      case MULTIGRID_SYNC: value = l.cooperative ? (u64)sync : 0; break;
      case SHARED_BASE_HI: value = SHARED_APERTURE >> 32; break;
      case PRIVATE_BASE_HI: value = PRIVATE_APERTURE >> 32; break;
      default:
        if (a.kind == EXPLICIT) continue;
    }
    memcpy(buffer + a.offset, &value, a.size < 8 ? a.size : 8);
  }
  return buffer;
}

DispatchPacket dispatch_packet(const KernelInfo& k, const Launch& l, const u8* kernarg) {
  DispatchPacket packet;
  memset(&packet, 0, sizeof packet);
  packet.header = 0x1502;
  packet.setup = 3;
  for (int d = 0; d < 3; d++) {
    packet.workgroup_size[d] = l.block[d];
    packet.grid_size[d] = l.groups[d] * l.block[d];
  }
  packet.private_segment_size = cdna_scratch_of(k);
  packet.group_segment_size = k.static_lds_bytes + l.dynamic_lds_bytes;
  packet.kernarg_address = (u64)kernarg;
  return packet;
}
