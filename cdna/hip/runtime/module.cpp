// Programs that a host binary brings, or loads: registration, kernels and variables by name.
#include "memory/registry.h"
#include "rtc_process.h"

// What clang's host pass hands to __hipRegisterFatBinary.
struct FatBinary {
  u32 magic, version;
  const u8* binary;
  const void* unused;
};
constexpr u32 FAT_BINARY_MAGIC = 0x48495046;  // "HIPF"

// compile/fat_binary.py: magic, count, then {arch, offset from the container's start, bytes}.
struct ContainerEntry {
  char arch[16];
  u64 offset, bytes;
};
struct Container {
  u64 magic;
  u32 count, unused;
  ContainerEntry entries[];
};
constexpr u64 CONTAINER_MAGIC = 0x3154414641444e43ull;  // "CNDAFAT1"

static List<hipFunction_t> functions;
static List<hipModule_t> modules;

static const ContainerEntry* entry_for(const Container& c, const char* arch) {
  for (u32 i = 0; i < c.count; i++)
    if (!strcmp(c.entries[i].arch, arch)) return &c.entries[i];
  return nullptr;
}

static Symbol* symbol_named(const Program& p, const char* name) {
  for (u32 i = 0; i < p.n_symbols; i++)
    if (!strcmp(p.symbols[i].name, name)) return &p.symbols[i];
  return nullptr;
}

Program* program_of(ihipModule_t* m, int device) {
  Guard guard;
  Program*& p = m->programs[device];
  if (p) return p;
  const Container& c = *(const Container*)m->container;
  const ContainerEntry* e = entry_for(c, device_card().name);
  if (!e) {
    say("the program has no code for %s, but for %s; compile it for that arch, or set CDNA_ARCH", device_card().name,
        c.count ? c.entries[0].arch : "none");
    return nullptr;
  }
  char message[256] = "";
  p = cdna_image_load(m->container + e->offset, e->bytes, message);
  if (!p) {
    say("%s", message);
    return nullptr;
  }
  for (Variable& v : m->variables) {
    Symbol* s = symbol_named(*p, v.name);
    if (!s) continue;
    s->constant = v.constant;
    if (v.managed) memcpy(s->address, v.managed, sizeof(void*));  // device code reads the pointer from here
  }
  if (alone()) cdna_variables_register(p);
  return p;
}

KernelInfo* kernel_of(hipFunction_t f, int device, u32* index) {
  Program* p = program_of(f->module, device);
  int i = p ? cdna_find_kernel(p, f->name) : -1;
  if (i < 0) return nullptr;
  if (index) *index = i;
  return &p->kernels[i];
}

hipFunction_t find_function(const void* p) {
  Guard guard;
  for (hipFunction_t f : functions)
    if (f->host == p || f == p) return f;
  return nullptr;
}

hipError_t symbol_address(const void* symbol, int device, void** address, size_t* bytes) {
  Guard guard;
  for (hipModule_t m : modules)
    for (Variable& v : m->variables) {
      if (v.host != symbol) continue;
      if (bytes) *bytes = v.bytes;
      if (v.managed) {
        *address = *v.managed;
        return hipSuccess;
      }
      Program* p = program_of(m, device);
      if (!p) return hipErrorNoBinaryForGpu;
      const Symbol* s = symbol_named(*p, v.name);
      if (!s) return hipErrorInvalidSymbol;
      *address = s->address;
      return hipSuccess;
    }
  return hipErrorInvalidSymbol;
}

static hipFunction_t add_function(hipModule_t m, const char* name, const void* host) {
  hipFunction_t f = make<ihipModuleSymbol_t>();
  *f = {m, strdup(name), host, -1};
  m->functions.push(f);
  functions.push(f);
  return f;
}

static hipModule_t open_container(const u8* container) {
  if (!container || ((const Container*)container)->magic != CONTAINER_MAGIC) return nullptr;
  hipModule_t m = make<ihipModule_t>();
  m->container = container;
  const Container& c = *(const Container*)container;
  if (c.count) suggest_arch(c.entries[0].arch);
  Guard guard;
  modules.push(m);
  return m;
}

static void close_module(hipModule_t m) {
  Guard guard;
  modules.drop(m);
  for (hipFunction_t f : m->functions) {
    functions.drop(f);
    free((void*)f->name);
    free(f);
  }
  for (Variable& v : m->variables) free(v.name);
  for (Program* p : m->programs) {
    if (!p) continue;
    if (p->listed) cdna_variables_forget(p);
    cdna_program_destroy(p);
  }
  m->functions.release();
  m->variables.release();
  free(m->owned);
  free(m);
}

extern "C" {
// --- what the host pass of the compiler calls --------------------------------------------------------

EXPORTED void** __hipRegisterFatBinary(const void* data) {
  const FatBinary* f = (const FatBinary*)data;
  hipModule_t m = f && f->magic == FAT_BINARY_MAGIC ? open_container(f->binary) : nullptr;
  if (!m) {
    say("this program holds machine code for AMD GPUs, which the emulated device does not run: compile it "
        "with `python -m cdna run`");
    exit(2);
  }
  (void)device_count();  // what the environment says is checked before the program runs
  return (void**)m;
}
EXPORTED void __hipRegisterFunction(void** handle, const void* host, char*, const char* name, unsigned, void*, void*,
                                    void*, void*, int*) {
  Guard guard;
  add_function((hipModule_t)handle, name, host);
}
EXPORTED void __hipRegisterVar(void** handle, void* host, char*, char* name, int, size_t bytes, int constant, int) {
  Guard guard;
  ((hipModule_t)handle)->variables.push({host, strdup(name), bytes, nullptr, constant != 0});
}
EXPORTED void __hipRegisterManagedVar(void** handle, void** pointer, void* initial, const char* name, size_t bytes,
                                      unsigned) {
  if (allocate_memory(pointer, bytes, hipMemoryTypeManaged, current_device(), hipMemAttachGlobal) != hipSuccess) {
    say("no memory for the managed variable %s of %zu bytes", name, bytes);
    exit(2);
  }
  memcpy(*pointer, initial, bytes);
  Guard guard;
  ((hipModule_t)handle)->variables.push({pointer, strdup(name), bytes, pointer, false});
}
EXPORTED void __hipUnregisterFatBinary(void** handle) { close_module((hipModule_t)handle); }

// --- modules that the program loads --------------------------------------------------------------------

// bytes: 0 where they are not known.
static hipError_t load(hipModule_t* out, const u8* data, size_t bytes, u8* owned, const char* what) {
  hipModule_t m = open_container(data);
  if (!m) {
    const bool object = is_code_object(data);
    Text code = object ? load_code_object(data, bytes, what) : Text{};
    if (!object)
      say("%s is no code object (ELF, or a bundle of them) and nothing that `python -m cdna compile` made", what);
    free(owned);
    return code.size ? load(out, (const u8*)code.bytes, code.size, (u8*)code.bytes, what) : hipErrorNoBinaryForGpu;
  }
  m->owned = owned;
  *out = m;
  return program_of(m, current_device()) ? hipSuccess : hipErrorNoBinaryForGpu;
}
hipError_t hipModuleLoad(hipModule_t* out, const char* path) {
  ENTER;
  if (!out || !path) return done(hipErrorInvalidValue);
  Text file = read_file(path);
  if (!file.bytes) return done(hipErrorFileNotFound);
  u8* data = (u8*)calloc(1, file.size + sizeof(Container));  // as much is looked at, however short the file
  memcpy(data, file.bytes, file.size);
  free(file.bytes);
  return done(load(out, data, file.size, data, path));
}
hipError_t hipModuleLoadData(hipModule_t* out, const void* data) {
  CALL(out && data ? load(out, (const u8*)data, 0, nullptr, "what hipModuleLoadData was given") : hipErrorInvalidValue);
}
hipError_t hipModuleLoadDataEx(hipModule_t* out, const void* data, unsigned, hipJitOption*, void**) {
  return hipModuleLoadData(out, data);
}
hipError_t hipModuleLoadFatBinary(hipModule_t* out, const void* data) { return hipModuleLoadData(out, data); }
hipError_t hipModuleUnload(hipModule_t m) {
  ENTER;
  {
    Guard guard;
    if (!m || !modules.contains(m)) return done(hipErrorInvalidHandle);
  }
  wait_for_all();
  close_module(m);
  return done(hipSuccess);
}
hipError_t hipModuleGetFunction(hipFunction_t* out, hipModule_t m, const char* name) {
  ENTER;
  if (!out || !name) return done(hipErrorInvalidValue);
  Guard guard;
  if (!m || !modules.contains(m)) return done(hipErrorInvalidHandle);
  Program* p = program_of(m, current_device());
  if (!p) return done(hipErrorNotFound);
  if (cdna_find_kernel(p, name) < 0) {
    say("hipModuleGetFunction: the module has no kernel %s; it has %u, the first is %s", name, p->n_kernels,
        p->n_kernels ? p->kernels[0].name : "none");
    return done(hipErrorNotFound);
  }
  for (hipFunction_t f : m->functions)
    if (!strcmp(f->name, name)) {
      *out = f;
      return done(hipSuccess);
    }
  *out = add_function(m, name, nullptr);
  return done(hipSuccess);
}
hipError_t hipModuleGetFunctionCount(unsigned* count, hipModule_t m) {
  ENTER;
  Guard guard;
  if (!count || !m || !modules.contains(m)) return done(hipErrorInvalidValue);
  Program* p = program_of(m, current_device());
  if (!p) return done(hipErrorNoBinaryForGpu);
  *count = p->n_kernels;
  return done(hipSuccess);
}
hipError_t hipModuleGetGlobal(hipDeviceptr_t* address, size_t* bytes, hipModule_t m, const char* name) {
  ENTER;
  if (!name) return done(hipErrorInvalidValue);
  Guard guard;
  if (!m || !modules.contains(m)) return done(hipErrorInvalidHandle);
  Program* p = program_of(m, current_device());
  const Symbol* s = p ? symbol_named(*p, name) : nullptr;
  if (!s) return done(hipErrorNotFound);
  if (address) *address = s->address;
  if (bytes) *bytes = s->size;
  return done(hipSuccess);
}

// --- libraries: modules by another name -------------------------------------------------------------------

hipError_t hipLibraryLoadData(hipLibrary_t* out, const void* code, hipJitOption**, void**, unsigned, hipLibraryOption**,
                              void**, unsigned) {
  return hipModuleLoadData((hipModule_t*)out, code);
}
hipError_t hipLibraryLoadFromFile(hipLibrary_t* out, const char* path, hipJitOption**, void**, unsigned,
                                  hipLibraryOption**, void**, unsigned) {
  return hipModuleLoad((hipModule_t*)out, path);
}
hipError_t hipLibraryUnload(hipLibrary_t library) { return hipModuleUnload((hipModule_t)library); }
hipError_t hipLibraryGetKernel(hipKernel_t* out, hipLibrary_t library, const char* name) {
  return hipModuleGetFunction((hipFunction_t*)out, (hipModule_t)library, name);
}
hipError_t hipLibraryGetKernelCount(unsigned* count, hipLibrary_t library) {
  return hipModuleGetFunctionCount(count, (hipModule_t)library);
}

hipError_t hipGetFuncBySymbol(hipFunction_t* out, const void* symbol) {
  ENTER;
  if (!out) return done(hipErrorInvalidValue);
  *out = find_function(symbol);
  return done(*out ? hipSuccess : hipErrorInvalidDeviceFunction);
}
const char* hipKernelNameRef(const hipFunction_t f) { return f && find_function(f) ? f->name : nullptr; }
const char* hipKernelNameRefByPtr(const void* host, hipStream_t) {
  hipFunction_t f = find_function(host);
  return f ? f->name : nullptr;
}
}
