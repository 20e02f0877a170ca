// Memory from device code: placement new, and a heap that the host keeps: the device library's call for large blocks
// (ockl.bc) serves small ones too, for its own heap wants to be set up by a kernel of the runtime's.
#pragma once
#include <new>

extern "C" __attribute__((device)) unsigned long __ockl_devmem_request(unsigned long address, unsigned long bytes);

CDNA_DEVICE void* malloc(size_t bytes) { return (void*)__ockl_devmem_request(0, bytes); }
CDNA_DEVICE void free(void* pointer) {
  if (pointer) __ockl_devmem_request((unsigned long)pointer, 0);
}

__attribute__((device)) inline void* operator new(size_t, void* place) noexcept { return place; }
__attribute__((device)) inline void* operator new[](size_t, void* place) noexcept { return place; }
__attribute__((device)) inline void operator delete(void*, void*) noexcept {}
__attribute__((device)) inline void operator delete[](void*, void*) noexcept {}
__attribute__((device)) inline void* operator new(size_t bytes) { return malloc(bytes); }
__attribute__((device)) inline void* operator new[](size_t bytes) { return malloc(bytes); }
__attribute__((device)) inline void operator delete(void* pointer) noexcept { free(pointer); }
__attribute__((device)) inline void operator delete[](void* pointer) noexcept { free(pointer); }
__attribute__((device)) inline void operator delete(void* pointer, size_t) noexcept { free(pointer); }
__attribute__((device)) inline void operator delete[](void* pointer, size_t) noexcept { free(pointer); }
