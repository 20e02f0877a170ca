// This library's own functions by name.
#include "runtime.h"
#include <dlfcn.h>

static void* function_named(const char* name) {
  Dl_info own;
  if (strncmp(name, "hip", 3) || !dladdr((void*)function_named, &own)) return nullptr;
  void* library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void* function = library ? dlsym(library, name) : nullptr;
  if (library) dlclose(library);
  return function;
}

extern "C" {
hipError_t hipGetProcAddress(const char* name, void** out, int, uint64_t, hipDriverProcAddressQueryResult* status) {
  if (!name || !out) return done(hipErrorInvalidValue);
  *out = function_named(name);
  if (status) *status = *out ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return done(*out ? hipSuccess : hipErrorInvalidValue);
}
hipError_t hipGetDriverEntryPoint(const char* name, void** out, unsigned long long,
                                  hipDriverEntryPointQueryResult* status) {
  if (!name || !out) return done(hipErrorInvalidValue);
  *out = function_named(name);
  if (status) *status = *out ? hipDriverEntryPointSuccess : hipDriverEntryPointSymbolNotFound;
  return done(hipSuccess);
}
}
