// Memory from device code: placement new, and the heap of the device library (ockl.bc).
#pragma once
#include <new>

extern "C" __attribute__((device)) unsigned long __ockl_dm_alloc(unsigned long);
extern "C" __attribute__((device)) void __ockl_dm_dealloc(unsigned long);

CDNA_DEVICE void* malloc(size_t bytes) { return (void*)__ockl_dm_alloc(bytes); }
CDNA_DEVICE void free(void* pointer) { __ockl_dm_dealloc((unsigned long)pointer); }

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
