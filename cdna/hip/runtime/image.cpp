// Textures, surfaces and arrays: MI300X and MI355X have no image instructions, so their driver refuses these calls
// (hipDeviceAttributeImageSupport is 0 there); and what graphics APIs would share with HIP. The API's header is left
// out: whatever the arguments, the answer is one.
extern "C" {
int cdna_no_images(void);  // errors.cpp: hipErrorNotSupported, as the thread's last error too

struct ChannelFormat {  // hipChannelFormatDesc
  int x, y, z, w, kind;
};
ChannelFormat hipCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }

#define NO(NAME) \
  int NAME(void) { return cdna_no_images(); }
// clang-format off
NO(hipArray3DCreate) NO(hipArray3DGetDescriptor) NO(hipArrayCreate) NO(hipArrayDestroy) NO(hipArrayGetDescriptor)
NO(hipArrayGetInfo) NO(hipBindTexture) NO(hipBindTexture2D) NO(hipBindTextureToArray)
NO(hipBindTextureToMipmappedArray) NO(hipCreateSurfaceObject) NO(hipCreateTextureObject) NO(hipDestroySurfaceObject)
NO(hipDestroyTextureObject) NO(hipDeviceGetTexture1DLinearMaxWidth) NO(hipFreeArray) NO(hipFreeMipmappedArray)
NO(hipGetChannelDesc) NO(hipGetMipmappedArrayLevel) NO(hipGetTextureAlignmentOffset)
NO(hipGetTextureObjectResourceDesc) NO(hipGetTextureObjectResourceViewDesc) NO(hipGetTextureObjectTextureDesc)
NO(hipGetTextureReference) NO(hipMalloc3DArray) NO(hipMallocArray) NO(hipMallocMipmappedArray)
NO(hipMemcpy2DArrayToArray) NO(hipMemcpy2DFromArray) NO(hipMemcpy2DFromArrayAsync) NO(hipMemcpy2DToArray)
NO(hipMemcpy2DToArrayAsync) NO(hipMemcpyAtoA) NO(hipMemcpyAtoD) NO(hipMemcpyAtoH) NO(hipMemcpyAtoHAsync)
NO(hipMemcpyDtoA) NO(hipMemcpyFromArray) NO(hipMemcpyHtoA) NO(hipMemcpyHtoAAsync) NO(hipMemcpyToArray)
NO(hipMipmappedArrayCreate) NO(hipMipmappedArrayDestroy) NO(hipMipmappedArrayGetLevel) NO(hipModuleGetTexRef)
NO(hipTexObjectCreate) NO(hipTexObjectDestroy) NO(hipTexObjectGetResourceDesc) NO(hipTexObjectGetResourceViewDesc)
NO(hipTexObjectGetTextureDesc) NO(hipTexRefGetAddress) NO(hipTexRefGetAddressMode) NO(hipTexRefGetArray)
NO(hipTexRefGetBorderColor) NO(hipTexRefGetFilterMode) NO(hipTexRefGetFlags) NO(hipTexRefGetFormat)
NO(hipTexRefGetMaxAnisotropy) NO(hipTexRefGetMipMappedArray) NO(hipTexRefGetMipmapFilterMode)
NO(hipTexRefGetMipmapLevelBias) NO(hipTexRefGetMipmapLevelClamp) NO(hipTexRefSetAddress) NO(hipTexRefSetAddress2D)
NO(hipTexRefSetAddressMode) NO(hipTexRefSetArray) NO(hipTexRefSetBorderColor) NO(hipTexRefSetFilterMode)
NO(hipTexRefSetFlags) NO(hipTexRefSetFormat) NO(hipTexRefSetMaxAnisotropy) NO(hipTexRefSetMipmapFilterMode)
NO(hipTexRefSetMipmapLevelBias) NO(hipTexRefSetMipmapLevelClamp) NO(hipTexRefSetMipmappedArray) NO(hipUnbindTexture)
NO(hipDestroyExternalMemory) NO(hipDestroyExternalSemaphore) NO(hipExternalMemoryGetMappedBuffer)
NO(hipExternalMemoryGetMappedMipmappedArray) NO(hipGraphicsMapResources) NO(hipGraphicsResourceGetMappedPointer)
NO(hipGraphicsSubResourceGetMappedArray) NO(hipGraphicsUnmapResources) NO(hipGraphicsUnregisterResource)
NO(hipImportExternalMemory) NO(hipImportExternalSemaphore) NO(hipMemMapArrayAsync) NO(hipSignalExternalSemaphoresAsync)
NO(hipWaitExternalSemaphoresAsync)
// clang-format on
}
