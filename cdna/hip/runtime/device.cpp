// Devices: how many, which, and what they say about themselves.
#include "runtime.h"

static thread_local int device_of_thread = 0;
static const Card* card = nullptr;

// "MI300X, MI308X, ..." or "gfx942, gfx950"
static const char* known(bool models) {
  static char text[200];
  text[0] = 0;
  for (const Card& c : CARDS) {
    if (!models && strcmp(c.model, c.default_model)) continue;
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? ", " : "", models ? c.model : c.name);
  }
  return text;
}

void suggest_arch(const char* name) {
  Guard guard;
  if (!card && !getenv("CDNA_ARCH") && !getenv("CDNA_CARD")) card = chosen_card(name);
}

const Card& device_card() {
  Guard guard;
  if (card) return *card;
  const char *model = getenv("CDNA_CARD"), *arch = getenv("CDNA_ARCH");
  if (model && *model && !cdna_card(model)) {
    say("CDNA_CARD=%s: no such card; say %s", model, known(true));
    exit(2);
  }
  card = arch ? chosen_card(arch) : model && *model ? cdna_card(model) : cdna_card(CARDS[0].model);
  if (!card) {
    say("CDNA_ARCH=%s: no such arch; say %s", arch, known(false));
    exit(2);
  }
  return *card;
}

int device_count() {
  static int count = 0;
  if (count) return count;
  const char* text = getenv("CDNA_DEVICES");
  int n = text ? atoi(text) : 1;
  if (n < 1 || n > MAX_DEVICES) {
    say("CDNA_DEVICES=%s: say a number from 1 to %d", text, MAX_DEVICES);
    exit(2);
  }
  return count = n;
}
int current_device() { return device_of_thread; }
bool valid_device(int device) { return device >= 0 && device < device_count(); }

// Limits of grids and blocks are what ROCm's hipInfo prints on such cards; bus ids are made up.
static int major_of(const Card& a) { return a.name[3] - '0'; }
static int minor_of(const Card& a) { return a.name[4] - '0'; }

static const hipDeviceProp_t& properties_of(int device) {
  static thread_local hipDeviceProp_t made;
  hipDeviceProp_t* p = &made;
  const Card& a = device_card();
  memset((void*)p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "%s", a.product);
  snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s:sramecc+:xnack-", a.name);
  snprintf(p->uuid.bytes, sizeof p->uuid.bytes, "cdna-emulated%02d", device);
  p->totalGlobalMem = a.memory_bytes;
  p->sharedMemPerBlock = p->sharedMemPerMultiprocessor = p->maxSharedMemoryPerMultiProcessor =
      p->sharedMemPerBlockOptin = a.lds_bytes;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = WAVE;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = p->maxThreadsDim[2] = 1024;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65536;
  p->clockRate = a.clock_mhz * 1000;
  p->totalConstMem = 2147483647;
  p->major = major_of(a);
  p->minor = minor_of(a);
  p->textureAlignment = p->texturePitchAlignment = p->surfaceAlignment = 256;
  p->multiProcessorCount = a.compute_units;
  p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = p->managedMemory = 1;
  p->ECCEnabled = 1;
  p->pciBusID = 1 + device;
  p->asyncEngineCount = 2;
  p->memoryClockRate = a.memory_clock_mhz * 1000;
  p->memoryBusWidth = a.memory_bus_bits;
  p->l2CacheSize = a.l2_bytes;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = 1;
  p->pageableMemoryAccess = p->concurrentManagedAccess = p->canUseHostPointerForRegisteredMem = 1;
  p->directManagedMemAccessFromHost = p->hostNativeAtomicSupported = 1;
  p->cooperativeLaunch = 1;
  p->hostRegisterSupported = p->memoryPoolsSupported = 1;
  p->clockInstructionRate = a.wall_clock_khz;
  p->isLargeBar = 1;
  hipDeviceArch_t& f = p->arch;
  f.hasGlobalInt32Atomics = f.hasGlobalFloatAtomicExch = f.hasSharedInt32Atomics = f.hasSharedFloatAtomicExch = 1;
  f.hasFloatAtomicAdd = f.hasGlobalInt64Atomics = f.hasSharedInt64Atomics = f.hasDoubles = 1;
  f.hasWarpVote = f.hasWarpBallot = f.hasWarpShuffle = f.hasThreadFenceSystem = f.has3dGrid = 1;
  return made;
}

static bool attribute(const hipDeviceProp_t& p, hipDeviceAttribute_t which, int* out) {
  switch (which) {
#define A(NAME, VALUE) \
  case hipDeviceAttribute##NAME: *out = (int)(VALUE); return true
#define YES(NAME) A(NAME, 1);
#define NO(NAME) A(NAME, 0);
    // clang-format off
    YES(CanMapHostMemory) YES(CanUseHostPointerForRegisteredMem) YES(ConcurrentKernels) YES(ConcurrentManagedAccess)
    YES(CooperativeLaunch) YES(DirectManagedMemAccessFromHost) YES(GlobalL1CacheSupported)
    YES(HostNativeAtomicSupported) YES(ManagedMemory) YES(PageableMemoryAccess) YES(StreamPrioritiesSupported)
    YES(UnifiedAddressing) YES(MemoryPoolsSupported) YES(VirtualMemoryManagementSupported) YES(HostRegisterSupported)
    YES(IsLargeBar) YES(CanUseStreamWaitValue) YES(FineGrainSupport)
    NO(ComputePreemptionSupported) NO(CooperativeMultiDeviceLaunch) NO(Integrated) NO(IsMultiGpuBoard)
    NO(KernelExecTimeout) NO(MultiGpuBoardGroupID) NO(PageableMemoryAccessUsesHostPageTables)
    NO(ReservedSharedMemPerBlock) NO(TccDriver) NO(CooperativeMultiDeviceUnmatchedFunc)
    NO(CooperativeMultiDeviceUnmatchedGridDim) NO(CooperativeMultiDeviceUnmatchedBlockDim)
    NO(CooperativeMultiDeviceUnmatchedSharedMem) NO(ImageSupport);
    // clang-format on
    A(EccEnabled, p.ECCEnabled);
    A(AccessPolicyMaxWindowSize, p.accessPolicyMaxWindowSize);
    A(AsyncEngineCount, p.asyncEngineCount);
    A(ClockRate, p.clockRate);
    A(ComputeMode, p.computeMode);
    A(DeviceOverlap, p.deviceOverlap);
    A(L2CacheSize, p.l2CacheSize);
    A(LocalL1CacheSupported, p.localL1CacheSupported);
    A(ComputeCapabilityMajor, p.major);
    A(ComputeCapabilityMinor, p.minor);
    A(MaxBlocksPerMultiProcessor, p.maxBlocksPerMultiProcessor);
    A(MaxBlockDimX, p.maxThreadsDim[0]);
    A(MaxBlockDimY, p.maxThreadsDim[1]);
    A(MaxBlockDimZ, p.maxThreadsDim[2]);
    A(MaxGridDimX, p.maxGridSize[0]);
    A(MaxGridDimY, p.maxGridSize[1]);
    A(MaxGridDimZ, p.maxGridSize[2]);
    A(MaxThreadsPerBlock, p.maxThreadsPerBlock);
    A(MaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor);
    A(MaxPitch, p.memPitch);
    A(MemoryBusWidth, p.memoryBusWidth);
    A(MemoryClockRate, p.memoryClockRate);
    A(MultiprocessorCount, p.multiProcessorCount);
    A(PciBusId, p.pciBusID);
    A(PciDeviceId, p.pciDeviceID);
    A(PciDomainId, p.pciDomainID);
    A(MaxRegistersPerBlock, p.regsPerBlock);
    A(MaxRegistersPerMultiprocessor, p.regsPerMultiprocessor);
    A(MaxSharedMemoryPerBlock, p.sharedMemPerBlock);
    A(SharedMemPerBlockOptin, p.sharedMemPerBlockOptin);
    A(SharedMemPerMultiprocessor, p.sharedMemPerMultiprocessor);
    A(SurfaceAlignment, p.surfaceAlignment);
    A(TextureAlignment, p.textureAlignment);
    A(TexturePitchAlignment, p.texturePitchAlignment);
    A(TotalConstantMemory, p.totalConstMem);
    A(TotalGlobalMem, p.totalGlobalMem >> 31 ? 2147483647 : p.totalGlobalMem);
    A(WarpSize, p.warpSize);
    A(MemoryPoolSupportedHandleTypes, hipMemHandleTypePosixFileDescriptor);
    A(ClockInstructionRate, p.clockInstructionRate);
    A(MaxSharedMemoryPerMultiprocessor, p.maxSharedMemoryPerMultiProcessor);
    A(AsicRevision, p.asicRevision);
    A(PhysicalMultiProcessorCount, p.multiProcessorCount);
    A(WallClockRate, p.clockInstructionRate);
    A(NumberOfXccs, device_card().xcds);
    A(MaxAvailableVgprsPerThread, device_card().vgprs_per_lane);
#undef A
#undef YES
#undef NO
    default: return false;
  }
}

static bool peer_enabled[MAX_DEVICES][MAX_DEVICES], all_peers_enabled;
bool may_access_peer(int device, int peer) { return all_peers_enabled || peer_enabled[device][peer]; }
void share_with_peers() { all_peers_enabled = true; }

extern "C" {
hipError_t hipInit(unsigned flags) { return done(flags ? hipErrorInvalidValue : hipSuccess); }
hipError_t hipDriverGetVersion(int* version) { GIVE(version, HIP_VERSION); }
hipError_t hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }

hipError_t hipGetDeviceCount(int* count) { GIVE(count, device_count()); }
hipError_t hipSetDevice(int device) {
  ENTER;
  if (!valid_device(device)) return done(hipErrorInvalidDevice);
  device_of_thread = device;
  return done(hipSuccess);
}
hipError_t hipGetDevice(int* device) { GIVE(device, device_of_thread); }
hipError_t hipSetValidDevices(int* devices, int n) {
  for (int i = 0; i < n; i++)
    if (!devices || !valid_device(devices[i])) return done(hipErrorInvalidDevice);
  return done(hipSuccess);
}
hipError_t hipChooseDevice(int* device, const hipDeviceProp_t* wanted) {
  if (!wanted) return done(hipErrorInvalidValue);
  GIVE(device, 0);  // all are alike
}
hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) { GIVE_OF(ordinal, device, ordinal); }
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  GIVE_OF(device, properties, properties_of(device));
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t which, int device) {
  if (value && !valid_device(device)) return done(hipErrorInvalidDevice);
  return done(value && attribute(properties_of(device), which, value) ? hipSuccess : hipErrorInvalidValue);
}
hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
  if (!major || !minor) return done(hipErrorInvalidValue);
  if (!valid_device(device)) return done(hipErrorInvalidDevice);
  *major = major_of(device_card());
  *minor = minor_of(device_card());
  return done(hipSuccess);
}
hipError_t hipDeviceGetName(char* name, int bytes, hipDevice_t device) {
  if (!name || bytes <= 0) return done(hipErrorInvalidValue);
  if (!valid_device(device)) return done(hipErrorInvalidDevice);
  snprintf(name, bytes, "%s", device_card().product);
  return done(hipSuccess);
}
hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) { GIVE_OF(device, uuid, properties_of(device).uuid); }
hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) { GIVE_OF(device, bytes, device_card().memory_bytes); }
hipError_t hipDeviceGetPCIBusId(char* id, int bytes, int device) {
  if (!id || bytes <= 0) return done(hipErrorInvalidValue);
  if (!valid_device(device)) return done(hipErrorInvalidDevice);
  snprintf(id, bytes, "0000:%02x:00.0", 1 + device);
  return done(hipSuccess);
}
hipError_t hipDeviceGetByPCIBusId(int* device, const char* id) {
  unsigned domain, bus;
  if (!id || sscanf(id, "%x:%x", &domain, &bus) != 2) return done(hipErrorInvalidValue);
  GIVE_OF((int)bus - 1, device, (int)bus - 1);
}

// Work is done when the call that asked for it returns: there is nothing to wait for.
hipError_t hipDeviceSynchronize(void) { CALL(wait_for_device(current_device())); }

hipError_t hipDeviceGetP2PAttribute(int* value, hipDeviceP2PAttr which, int from, int to) {
  if (!value || from == to) return done(hipErrorInvalidValue);
  if (!valid_device(from) || !valid_device(to)) return done(hipErrorInvalidDevice);
  *value = which == hipDevP2PAttrAccessSupported || which == hipDevP2PAttrNativeAtomicSupported;
  return done(hipSuccess);
}
hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t* type, uint32_t* hops) {
  if (!type || !hops || from == to) return done(hipErrorInvalidValue);
  if (!valid_device(from) || !valid_device(to)) return done(hipErrorInvalidDevice);
  *type = 4;  // HSA_AMD_LINK_INFO_TYPE_XGMI
  *hops = 1;
  return done(hipSuccess);
}
hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can && !valid_device(device)) return done(hipErrorInvalidDevice);
  GIVE_OF(peer, can, device != peer);
}
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  ENTER;
  if (flags) return done(hipErrorInvalidValue);
  if (!valid_device(peer) || peer == current_device()) return done(hipErrorInvalidDevice);
  bool& enabled = peer_enabled[current_device()][peer];
  if (enabled) return done(hipErrorPeerAccessAlreadyEnabled);
  enabled = true;
  return done(hipSuccess);
}
hipError_t hipDeviceDisablePeerAccess(int peer) {
  ENTER;
  if (!valid_device(peer) || peer == current_device()) return done(hipErrorInvalidDevice);
  bool& enabled = peer_enabled[current_device()][peer];
  if (!enabled) return done(hipErrorPeerAccessNotEnabled);
  enabled = false;
  return done(hipSuccess);
}

static unsigned device_flags;
hipError_t hipSetDeviceFlags(unsigned flags) {
  device_flags = flags;
  return done(hipSuccess);
}
hipError_t hipGetDeviceFlags(unsigned* flags) { GIVE(flags, device_flags); }
// Preferences of caches and banks mean nothing on these archs, which HIP accepts silently too.
hipError_t hipDeviceSetCacheConfig(hipFuncCache_t) { return done(hipSuccess); }
hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* config) { GIVE(config, hipFuncCachePreferNone); }
hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig) { return done(hipSuccess); }
hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* config) { GIVE(config, hipSharedMemBankSizeFourByte); }
static size_t limits[3] = {1024, 1 << 20, 8 << 20};  // stack, printf queue, heap of device malloc
hipError_t hipDeviceGetLimit(size_t* value, hipLimit_t limit) {
  if (value && limit > hipLimitMallocHeapSize) return done(hipErrorUnsupportedLimit);
  GIVE(value, limits[limit]);
}
hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value) {
  if (limit > hipLimitMallocHeapSize) return done(hipErrorUnsupportedLimit);
  constexpr size_t MOST_STACK = (128 << 10) - 16;
  if (limit == hipLimitStackSize && value > MOST_STACK) return done(hipErrorInvalidValue);
  limits[limit] = value;
  if (limit == hipLimitStackSize) cdna_set_stack_bytes((u32)value);
  return done(hipSuccess);
}
hipError_t hipProfilerStart(void) { return done(hipSuccess); }
hipError_t hipProfilerStop(void) { return done(hipSuccess); }
}
