// Linking bitcode while a program runs: hiprtcLink*, and hipLink*, which is the same under HIP's own names.
#include "rtc_process.h"
#include <hip/hiprtc.h>

struct LinkState {
  List<char*> options, kinds, names;
  List<Text> inputs;
  Text code;
};
static List<LinkState*> states;

static bool known(LinkState* s) {
  Guard guard;
  return states.contains(s);
}

static void add_text(List<char*>& list, const char* text) { list.push(strdup(text)); }

static void release(LinkState* s) {
  for (List<char*>* list : {&s->options, &s->kinds, &s->names}) release_texts(*list);
  for (Text& input : s->inputs) free(input.bytes);
  s->inputs.release();
  free(s->code.bytes);
  free(s);
}

// 0, or what hiprtc.py's exit code says; its log has been told.
static int link(LinkState* s, const char* call) {
  CompilerFolder folder;
  if (!folder.made()) return -1;
  folder.write_list("options", s->options.items, s->options.count);
  folder.write_list("kinds", s->kinds.items, s->kinds.count);
  folder.write_list("names", s->names.items, s->names.count);
  for (u32 i = 0; i < s->inputs.count; i++) {
    char name[32];
    snprintf(name, sizeof name, "input%u", i);
    folder.write(name, s->inputs[i].bytes, s->inputs[i].size);
  }
  int status = folder.run(call, "link");
  Text log = folder.read("log");
  if (log.size) say("%s: %s", call, log.bytes);
  free(log.bytes);
  free(s->code.bytes);
  s->code = folder.read("code");
  return s->code.size ? status : -1;
}

static LinkState* create(u32 n, const hipJitOption* options, void** values) {
  LinkState* s = make<LinkState>();
  const char* const* words = nullptr;
  size_t count = 0;
  for (u32 i = 0; i < n; i++) {
    if (options[i] == hipJitOptionIRtoISAOptExt) words = (const char* const*)values[i];
    if (options[i] == hipJitOptionIRtoISAOptCountExt) count = (size_t)values[i];
  }
  for (size_t i = 0; words && i < count; i++) add_text(s->options, words[i]);
  Guard guard;
  states.push(s);
  return s;
}

static bool takes(hipJitInputType kind) {
  return kind == hipJitInputLLVMBitcode || kind == hipJitInputLLVMBundledBitcode ||
         kind == hipJitInputLLVMArchivesOfBundledBitcode;
}

static void add(LinkState* s, hipJitInputType kind, const void* data, size_t bytes, const char* name) {
  char number[16];
  snprintf(number, sizeof number, "%d", (int)kind);
  add_text(s->kinds, number);
  add_text(s->names, name && *name ? name : "bitcode");
  Text copy = {(char*)malloc(bytes + 1), bytes};
  memcpy(copy.bytes, data, bytes);
  s->inputs.push(copy);
}

static bool add_file(LinkState* s, hipJitInputType kind, const char* path) {
  Text file = read_file(path);
  if (file.size) add(s, kind, file.bytes, file.size, path);
  free(file.bytes);
  return file.size;
}

static void destroy(LinkState* s) {
  Guard guard;
  states.drop(s);
  release(s);
}

bool is_wrapped_bitcode(const u8* data) { return !memcmp(data, &WRAPPED_BITCODE, sizeof WRAPPED_BITCODE); }

Text link_wrapped_bitcode(const u8* bitcode, const char* call) {
  if (!is_wrapped_bitcode(bitcode)) return {nullptr, 0};
  u32 header[4];  // LLVM's: magic, version, where the bitcode begins, its bytes
  memcpy(header, bitcode, sizeof header);
  LinkState* s = make<LinkState>();
  add(s, hipJitInputLLVMBitcode, bitcode, header[2] + header[3], "bitcode");
  Text code = {nullptr, 0};
  if (!link(s, call)) {
    code = s->code;
    s->code = {nullptr, 0};
  }
  release(s);
  return code;
}

extern "C" {
hiprtcResult hiprtcLinkCreate(unsigned n, hiprtcJIT_option* options, void** values, hiprtcLinkState* out) {
  if (!out || (n && (!options || !values))) return HIPRTC_ERROR_INVALID_INPUT;
  *out = (hiprtcLinkState)create(n, options, values);
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcLinkAddData(hiprtcLinkState state, hiprtcJITInputType kind, void* data, size_t bytes,
                               const char* name, unsigned, hiprtcJIT_option*, void**) {
  LinkState* s = (LinkState*)state;
  if (!known(s) || !data || !bytes || !takes(kind)) return HIPRTC_ERROR_INVALID_INPUT;
  add(s, kind, data, bytes, name);
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcLinkAddFile(hiprtcLinkState state, hiprtcJITInputType kind, const char* path, unsigned,
                               hiprtcJIT_option*, void**) {
  LinkState* s = (LinkState*)state;
  if (!known(s) || !path || !takes(kind)) return HIPRTC_ERROR_INVALID_INPUT;
  return add_file(s, kind, path) ? HIPRTC_SUCCESS : HIPRTC_ERROR_PROGRAM_CREATION_FAILURE;
}
hiprtcResult hiprtcLinkComplete(hiprtcLinkState state, void** code, size_t* bytes) {
  LinkState* s = (LinkState*)state;
  if (!known(s) || !code || !bytes) return HIPRTC_ERROR_INVALID_INPUT;
  if (link(s, "hiprtcLinkComplete")) return HIPRTC_ERROR_LINKING;
  *code = s->code.bytes;
  *bytes = s->code.size;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcLinkDestroy(hiprtcLinkState state) {
  if (!known((LinkState*)state)) return HIPRTC_ERROR_INVALID_INPUT;
  destroy((LinkState*)state);
  return HIPRTC_SUCCESS;
}

hipError_t hipLinkCreate(unsigned n, hipJitOption* options, void** values, hipLinkState_t* out) {
  if (!out || (n && (!options || !values))) return done(hipErrorInvalidValue);
  *out = (hipLinkState_t)create(n, options, values);
  return done(hipSuccess);
}
hipError_t hipLinkAddData(hipLinkState_t state, hipJitInputType kind, void* data, size_t bytes, const char* name,
                          unsigned, hipJitOption*, void**) {
  LinkState* s = (LinkState*)state;
  if (!known(s) || !data || !bytes || !takes(kind)) return done(hipErrorInvalidValue);
  add(s, kind, data, bytes, name);
  return done(hipSuccess);
}
hipError_t hipLinkAddFile(hipLinkState_t state, hipJitInputType kind, const char* path, unsigned, hipJitOption*,
                          void**) {
  LinkState* s = (LinkState*)state;
  if (!known(s) || !path || !takes(kind)) return done(hipErrorInvalidValue);
  return done(add_file(s, kind, path) ? hipSuccess : hipErrorFileNotFound);
}
hipError_t hipLinkComplete(hipLinkState_t state, void** code, size_t* bytes) {
  LinkState* s = (LinkState*)state;
  if (!known(s) || !code) return done(hipErrorInvalidValue);
  if (link(s, "hipLinkComplete")) return done(hipErrorInvalidImage);
  *code = s->code.bytes;
  if (bytes) *bytes = s->code.size;
  return done(hipSuccess);
}
hipError_t hipLinkDestroy(hipLinkState_t state) {
  if (!known((LinkState*)state)) return done(hipErrorInvalidValue);
  destroy((LinkState*)state);
  return done(hipSuccess);
}
}
