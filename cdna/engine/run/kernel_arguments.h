// What a launch gives a kernel beside its explicit arguments.
#pragma once
#include "hostcall.h"

// What the hidden multigrid argument of a cooperative launch points at (ROCm-Device-Libs, ockl/src/cg.cl, mg_info):
// the barrier of the grid counts arrivals there.
struct GridSync {
  u64 grids;
  u32 grid_id, n_grids;
  u64 threads_before, threads;
  u32 arrived, reserved, n_groups;
};

u8* kernel_arguments(const KernelInfo&, const Launch&, const GridSync*, const Hostcall*);  // to be freed

// hsa_kernel_dispatch_packet_t (HSA system architecture specification, "Kernel dispatch packet").
struct DispatchPacket {
  u16 header, setup, workgroup_size[3], reserved0;
  u32 grid_size[3], private_segment_size, group_segment_size;
  u64 kernel_object, kernarg_address, reserved2, completion_signal;
};
DispatchPacket dispatch_packet(const KernelInfo&, const Launch&, const u8* kernarg);
