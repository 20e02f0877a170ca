// Kernel launches, and what a launch may use.
#include "run/launch.h"
#include "run/launch_log.h"
#include "runtime.h"
#include <sched.h>

static u32 host_threads() {
  static u32 n = 0;
  if (n) return n;
  const char* wanted = getenv("CDNA_THREADS");
  cpu_set_t cpus;
  n = wanted && atoi(wanted) > 0 ? atoi(wanted) : sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
  return n;
}

// See the engine's seeded_order.h; 0: the card's order.
static u64 order_seed() {
  const char* text = getenv("CDNA_ORDER_SEED");
  if (!text || !*text) return 0;
  char* end;
  u64 seed = strtoull(text, &end, 10);
  if (*end || *text == '-') {
    say("CDNA_ORDER_SEED=%s: a whole number from 1 on, or 0 for the card's order", text);
    exit(2);
  }
  return seed;
}

static u64 product(dim3 d) { return (u64)d.x * d.y * d.z; }

// Whether a buffer of arguments holds those of the kernel; what is wrong with it is said. Padding at its end may lack.
static bool arguments_fit(const KernelInfo& k, size_t bytes) {
  u32 end = 0;
  for (u32 i = 0; i < k.n_arguments; i++)
    if (k.arguments[i].kind == EXPLICIT && k.arguments[i].offset + k.arguments[i].size > end)
      end = k.arguments[i].offset + k.arguments[i].size;
  if ((bytes + 15) / 16 * 16 >= end && bytes <= (k.kernarg_bytes + 15u) / 16 * 16) return true;
  say("%s takes %u bytes of arguments, and HIP_LAUNCH_PARAM_BUFFER_SIZE says %zu", k.readable, end, bytes);
  return false;
}

// Arguments go where the kernel's metadata says; `extra` is a buffer that has them there already.
hipError_t kernel_call(hipFunction_t f, dim3 grid, dim3 block, size_t lds_bytes, void** arguments, void** extra,
                       bool cooperative, Operation* out) {
  constexpr u64 MOST = 0xffffffff;
  KernelInfo* k = kernel_of(f, current_device());
  if (!k) return hipErrorInvalidDeviceFunction;
  if (!product(grid) || !product(block) || product(block) > 1024 || grid.y > 65536 || grid.z > 65536 ||
      product(grid) > MOST || (u64)grid.x * block.x > MOST || (u64)grid.y * block.y > MOST ||
      (u64)grid.z * block.z > MOST) {
    say("%s: refused: %u x %u x %u workgroups of %u x %u x %u work-items, of which a workgroup has 1 to 1024, "
        "and a launch 2^32 - 1 along x, y or z at most",
        k->readable, grid.x, grid.y, grid.z, block.x, block.y, block.z);
    return hipErrorInvalidConfiguration;
  }
  if (lds_bytes > device_card().lds_bytes) {
    say("%s: refused: it needs %zu bytes of LDS, %s has %u for a workgroup", k->readable,
        k->static_lds_bytes + lds_bytes, device_card().name, device_card().lds_bytes);
    return hipErrorInvalidValue;
  }
  *out = operation(DO_KERNEL);
  KernelCall& c = out->kernel;
  c = {f, grid, block, (u32)lds_bytes, cooperative, (u8*)calloc(1, k->kernarg_bytes + 8), k->kernarg_bytes, nullptr};
  c.arguments = (void**)calloc(k->n_arguments + 1, sizeof(void*));
  const u8* packed = nullptr;
  size_t packed_bytes = 0;
  for (void** e = extra; e && *e != HIP_LAUNCH_PARAM_END; e += 2) {
    if (e[0] == HIP_LAUNCH_PARAM_BUFFER_POINTER) packed = (const u8*)e[1];
    else if (e[0] == HIP_LAUNCH_PARAM_BUFFER_SIZE) packed_bytes = *(const size_t*)e[1];
    else break;
  }
  if (packed && !arguments_fit(*k, packed_bytes)) {
    release_operation(*out);
    return hipErrorInvalidValue;
  }
  if (packed) memcpy(c.kernarg, packed, packed_bytes < k->kernarg_bytes ? packed_bytes : k->kernarg_bytes);
  u32 n = 0;
  for (u32 i = 0; i < k->n_arguments; i++) {
    const KernelArgument& a = k->arguments[i];
    if (a.kind != EXPLICIT) continue;
    c.arguments[n] = c.kernarg + a.offset;
    if (!packed) {
      if (!arguments || !arguments[n]) {
        release_operation(*out);
        return hipErrorInvalidValue;
      }
      memcpy(c.kernarg + a.offset, arguments[n], a.size);
    }
    n++;
  }
  return hipSuccess;
}

// Workgroups of the kernel that a compute unit holds.
static u32 blocks_per_unit(const KernelInfo& k, u64 block, size_t dynamic_lds_bytes) {
  u64 lds = k.static_lds_bytes + dynamic_lds_bytes;
  if (block < 1 || block > k.max_work_items || lds > device_card().lds_bytes) return 0;
  return groups_per_cu(device_card(), k.vgprs, k.sgprs, lds, (block + WAVE - 1) / WAVE);
}

hipError_t run_kernel(const KernelCall& c, int device) {
  u32 index;
  KernelInfo* k = kernel_of(c.function, device, &index);
  if (!k) return hipErrorInvalidDeviceFunction;
  Program* p = c.function->module->programs[device];
  if (c.cooperative &&
      product(c.grid) > (u64)device_card().compute_units * blocks_per_unit(*k, product(c.block), c.dynamic_lds_bytes)) {
    tell_unless_asked(
        "%s: refused: a cooperative launch of %llu workgroups, of which the card has room for %llu at once",
        k->readable, (unsigned long long)product(c.grid),
        (unsigned long long)device_card().compute_units * blocks_per_unit(*k, product(c.block), c.dynamic_lds_bytes));
    return hipErrorCooperativeLaunchTooLarge;
  }
  if (tell_hazards(*p, index)) return device_lost = hipErrorLaunchFailure;
  Launch l;
  memset((void*)&l, 0, sizeof l);
  u32 groups[3] = {c.grid.x, c.grid.y, c.grid.z}, block[3] = {c.block.x, c.block.y, c.block.z};
  memcpy(l.groups, groups, sizeof groups);
  memcpy(l.block, block, sizeof block);
  l.dynamic_lds_bytes = c.dynamic_lds_bytes;
  l.n_threads = host_threads();
  l.kernarg = c.kernarg;
  l.kernarg_bytes = c.kernarg_bytes;
  l.cooperative = c.cooperative;
  l.card = &device_card();
  l.device_number = device + 1;
  l.checks = begin_checks(c, *k, device);
  LoggedLaunch* log = cdna_log_begin(p, index, &l);
  static const u64 seed = order_seed();
  if (!l.observers) l.order_seed = seed;  // a time is one of the card's order
  cdna_launch(p, index, &l);
  cdna_log_end(log, p, &l);
  bool found = end_checks(l.checks, *p, k->readable);
  if (l.status == LAUNCH_REFUSED) {
    say("%s: refused: %s", k->readable, l.message);
    return hipErrorInvalidConfiguration;
  }
  if (l.status == LAUNCHED) return hipSuccess;
  if (l.status == LAUNCH_CANCELLED) return hipErrorLaunchTimeOut;
  if (found) return device_lost = hipErrorLaunchFailure;  // the finding has told what the fault is
  char about[200] = "";
  if (l.fault_address) describe_address(l.fault_address, about, sizeof about);
  say("%s on %s: %s\n  at %s, workgroup (%u, %u, %u), wave %u%s%s", k->readable, p->arch, l.message,
      p->where[l.fault_pc], l.fault_group[0], l.fault_group[1], l.fault_group[2], l.fault_wave, about[0] ? "\n  " : "",
      about);
  if (!strncmp(l.message, "bounds: ", 8)) log_fault(*p, k->readable, l);
  (void)found_fault();  // whose launch may have been left behind: its call has returned no error
  return device_lost = hipErrorLaunchFailure;
}

// What a launch is told to instead of being carried out, where a tool wants to know what host code launches. What the
// card would refuse is told as well.
typedef void (*LaunchRecorder)(const char* kernel, const u32* groups, const u32* block, u64 dynamic_lds_bytes);
static LaunchRecorder recorder;
extern "C" EXPORTED void cdna_record_launches(LaunchRecorder r) { recorder = r; }

static hipError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, void** extra, size_t lds_bytes,
                         hipStream_t stream, bool cooperative) {
  hipFunction_t f = find_function(function);
  if (!f) return hipErrorInvalidDeviceFunction;
  if (recorder) {
    KernelInfo* k = kernel_of(f, current_device());
    if (!k) return hipErrorInvalidDeviceFunction;
    u32 groups[3] = {grid.x, grid.y, grid.z}, threads[3] = {block.x, block.y, block.z};
    recorder(k->name, groups, threads, lds_bytes);
    return hipSuccess;
  }
  Operation o;
  hipError_t error = kernel_call(f, grid, block, lds_bytes, arguments, extra, cooperative, &o);
  if (error != hipSuccess) return error;
  error = submit(stream, o);
  release_operation(o);
  return error;
}

struct CallConfiguration {
  dim3 grid, block;
  size_t lds_bytes;
  hipStream_t stream;
};
static thread_local List<CallConfiguration> configurations;
static thread_local bool by_stub;  // the launch that comes is one of <<<...>>>, whose error no call returns

extern "C" {
EXPORTED hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds_bytes, hipStream_t stream) {
  configurations.push({grid, block, lds_bytes, stream});
  return hipSuccess;
}
EXPORTED hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds_bytes, hipStream_t* stream) {
  if (!configurations.count) return done(hipErrorMissingConfiguration);
  CallConfiguration& c = configurations[configurations.count - 1];
  *grid = c.grid;
  *block = c.block;
  *lds_bytes = c.lds_bytes;
  *stream = c.stream;
  configurations.count--;
  by_stub = true;
  return hipSuccess;
}
hipError_t hipLaunchKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t lds_bytes,
                           hipStream_t stream) {
  const bool seen = !by_stub;
  by_stub = false;
  ENTER;
  const hipError_t error = launch(f, grid, block, arguments, nullptr, lds_bytes, stream, false);
  if (error != hipSuccess && !seen) refused_unseen();
  return done(error);
}
hipError_t hipLaunchCooperativeKernel(const void* f, dim3 grid, dim3 block, void** arguments, unsigned lds_bytes,
                                      hipStream_t stream) {
  CALL(launch(f, grid, block, arguments, nullptr, lds_bytes, stream, true));
}
static hipError_t launch_all(const hipLaunchParams* list, int n, bool cooperative) {
  if (!list || n <= 0) return hipErrorInvalidValue;
  hipError_t error = hipSuccess;
  for (const hipLaunchParams* p = list; p < list + n && error == hipSuccess; p++)
    error = launch(p->func, p->gridDim, p->blockDim, p->args, nullptr, p->sharedMem, p->stream, cooperative);
  return error;
}
hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams* list, int n, unsigned) {
  CALL(launch_all(list, n, false));
}
hipError_t hipLaunchCooperativeKernelMultiDevice(hipLaunchParams* list, int n, unsigned) {
  CALL(n > device_count() ? hipErrorInvalidValue : launch_all(list, n, true));
}
hipError_t hipModuleLaunchCooperativeKernelMultiDevice(hipFunctionLaunchParams* list, unsigned n, unsigned) {
  ENTER;
  if (!list || !n || n > (unsigned)device_count()) return done(hipErrorInvalidValue);
  hipError_t error = hipSuccess;
  for (unsigned i = 0; i < n && error == hipSuccess; i++) {
    const hipFunctionLaunchParams& p = list[i];
    error = launch(p.function, dim3(p.gridDimX, p.gridDimY, p.gridDimZ), dim3(p.blockDimX, p.blockDimY, p.blockDimZ),
                   p.kernelParams, nullptr, p.sharedMemBytes, p.hStream, true);
  }
  return done(error);
}
static bool asks_cooperative(const hipLaunchAttribute* attributes, unsigned n) {
  for (unsigned i = 0; i < n; i++)
    if (attributes[i].id == hipLaunchAttributeCooperative && attributes[i].value.cooperative) return true;
  return false;
}
hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* c, const void* f, void** arguments) {
  CALL(!c ? hipErrorInvalidValue
          : launch(f, c->gridDim, c->blockDim, arguments, nullptr, c->dynamicSmemBytes, c->stream,
                   asks_cooperative(c->attrs, c->numAttrs)));
}
hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* c, hipFunction_t f, void** arguments, void** extra) {
  CALL(!c ? hipErrorInvalidValue
          : launch(f, dim3(c->gridDimX, c->gridDimY, c->gridDimZ), dim3(c->blockDimX, c->blockDimY, c->blockDimZ),
                   arguments, extra, c->sharedMemBytes, c->hStream, asks_cooperative(c->attrs, c->numAttrs)));
}
static hipError_t timed_launch(hipEvent_t start, hipEvent_t stop, const void* f, dim3 grid, dim3 block,
                               void** arguments, void** extra, size_t lds_bytes, hipStream_t stream) {
  hipError_t error = start ? hipEventRecord(start, stream) : hipSuccess;
  if (error == hipSuccess) error = launch(f, grid, block, arguments, extra, lds_bytes, stream, false);
  return error == hipSuccess && stop ? hipEventRecord(stop, stream) : error;
}
hipError_t hipExtLaunchKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t lds_bytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int) {
  CALL(timed_launch(start, stop, f, grid, block, arguments, nullptr, lds_bytes, stream));
}
hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned lds_bytes, hipStream_t stream, void** arguments, void** extra) {
  CALL(launch(f, dim3(gx, gy, gz), dim3(bx, by, bz), arguments, extra, lds_bytes, stream, false));
}
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                            unsigned by, unsigned bz, unsigned lds_bytes, hipStream_t stream,
                                            void** arguments) {
  CALL(launch(f, dim3(gx, gy, gz), dim3(bx, by, bz), arguments, nullptr, lds_bytes, stream, true));
}
// Sizes here are in work-items, not workgroups.
EXPORTED hipError_t hipExtModuleLaunchKernel(hipFunction_t f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz,
                                             size_t lds_bytes, hipStream_t stream, void** arguments, void** extra,
                                             hipEvent_t start, hipEvent_t stop, u32) {
  ENTER;
  if (!bx || !by || !bz || gx % bx || gy % by || gz % bz) return done(hipErrorInvalidConfiguration);
  return done(timed_launch(start, stop, f, dim3(gx / bx, gy / by, gz / bz), dim3(bx, by, bz), arguments, extra,
                           lds_bytes, stream));
}

// --- attributes and occupancy --------------------------------------------------------------------------

static KernelInfo* known_kernel(const void* function) {
  hipFunction_t f = find_function(function);
  return f ? kernel_of(f, current_device()) : nullptr;
}
hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute which, int value) {
  ENTER;
  hipFunction_t f = find_function(function);
  if (!f) return done(hipErrorInvalidDeviceFunction);
  if (which == hipFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || (u32)value > device_card().lds_bytes) return done(hipErrorInvalidValue);
    f->max_dynamic_lds = value;
  }
  return done(hipSuccess);
}
hipError_t hipFuncSetCacheConfig(const void* f, hipFuncCache_t) {
  CALL(find_function(f) ? hipSuccess : hipErrorInvalidDeviceFunction);
}
hipError_t hipFuncSetSharedMemConfig(const void* f, hipSharedMemConfig) {
  return hipFuncSetCacheConfig(f, hipFuncCachePreferNone);
}
hipError_t hipFuncGetAttributes(hipFuncAttributes* out, const void* function) {
  ENTER;
  if (!out) return done(hipErrorInvalidValue);
  KernelInfo* k = known_kernel(function);
  if (!k) return done(hipErrorInvalidDeviceFunction);
  memset((void*)out, 0, sizeof *out);
  hipFunction_t f = find_function(function);
  out->localSizeBytes = k->scratch_bytes;
  out->maxDynamicSharedSizeBytes =
      f->max_dynamic_lds >= 0 ? f->max_dynamic_lds : (int)(device_card().lds_bytes - k->static_lds_bytes);
  out->maxThreadsPerBlock = k->max_work_items;
  out->numRegs = k->vgprs;
  out->sharedSizeBytes = k->static_lds_bytes;
  out->binaryVersion = out->ptxVersion = 90 + (device_card().name[4] - '0');
  return done(hipSuccess);
}
hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute which, hipFunction_t f) {
  ENTER;
  if (!value) return done(hipErrorInvalidValue);
  hipFuncAttributes a;
  hipError_t error = hipFuncGetAttributes(&a, f);
  if (error != hipSuccess) return done(error);
  switch (which) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = a.maxThreadsPerBlock; break;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)a.sharedSizeBytes; break;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)a.localSizeBytes; break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: *value = a.numRegs; break;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION: *value = a.ptxVersion; break;
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: *value = a.binaryVersion; break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = a.maxDynamicSharedSizeBytes; break;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = 0; break;
    default: return done(hipErrorInvalidValue);
  }
  return done(hipSuccess);
}

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block,
                                                        size_t lds_bytes) {
  ENTER;
  if (!blocks || block < 1) return done(hipErrorInvalidValue);
  KernelInfo* k = known_kernel(function);
  if (!k) return done(hipErrorInvalidDeviceFunction);
  *blocks = blocks_per_unit(*k, block, lds_bytes);
  return done(hipSuccess);
}
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int block,
                                                                 size_t lds_bytes, unsigned) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, lds_bytes);
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t f, int block,
                                                              size_t lds_bytes) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, lds_bytes);
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, hipFunction_t f, int block,
                                                                       size_t lds_bytes, unsigned) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, lds_bytes);
}
// The largest block with which most waves are resident, and as many blocks as fill the device.
hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function, size_t lds_bytes, int limit) {
  ENTER;
  if (!grid || !block) return done(hipErrorInvalidValue);
  KernelInfo* k = known_kernel(function);
  if (!k) return done(hipErrorInvalidDeviceFunction);
  int most = k->max_work_items, best_waves = 0;
  if (limit > 0 && limit < most) most = limit;
  *grid = *block = 0;
  for (int size = most / WAVE * WAVE; size >= WAVE; size -= WAVE) {
    int blocks = blocks_per_unit(*k, size, lds_bytes), waves = blocks * (size / WAVE);
    if (waves <= best_waves) continue;
    best_waves = waves;
    *block = size;
    *grid = blocks * device_card().compute_units;
  }
  return done(hipSuccess);
}
hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t f, size_t lds_bytes,
                                                   int limit) {
  return hipOccupancyMaxPotentialBlockSize(grid, block, (const void*)f, lds_bytes, limit);
}
hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, hipFunction_t f, size_t lds_bytes,
                                                            int limit, unsigned) {
  return hipOccupancyMaxPotentialBlockSize(grid, block, (const void*)f, lds_bytes, limit);
}
}
