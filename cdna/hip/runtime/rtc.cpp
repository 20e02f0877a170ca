// hipRTC: sources go to the toolchain of Python's side (rtc_process.h).
#include "rtc_process.h"
#include <hip/hiprtc.h>

struct _hiprtcProgram {
  char *source, *name;
  List<char*> header_names, headers, expressions, lowered;
  Text log, code;
  bool compiled;
};

extern "C" {
const char* hiprtcGetErrorString(hiprtcResult r) {
  switch (r) {
    case HIPRTC_SUCCESS: return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_OUT_OF_MEMORY: return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case HIPRTC_ERROR_PROGRAM_CREATION_FAILURE: return "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case HIPRTC_ERROR_INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_INVALID_OPTION: return "HIPRTC_ERROR_INVALID_OPTION";
    case HIPRTC_ERROR_COMPILATION: return "HIPRTC_ERROR_COMPILATION";
    case HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE: return "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    case HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION:
      return "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION: return "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID: return "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case HIPRTC_ERROR_LINKING: return "HIPRTC_ERROR_LINKING";
    default: return "HIPRTC_ERROR_INTERNAL_ERROR";
  }
}
hiprtcResult hiprtcVersion(int* major, int* minor) {
  if (!major || !minor) return HIPRTC_ERROR_INVALID_INPUT;
  *major = 9;
  *minor = 0;
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram* out, const char* source, const char* name, int n,
                                 const char* const* headers, const char* const* names) {
  if (!out || !source) return HIPRTC_ERROR_INVALID_PROGRAM;
  if (n < 0 || (n && (!headers || !names))) return HIPRTC_ERROR_INVALID_INPUT;
  hiprtcProgram p = make<_hiprtcProgram>();
  p->source = strdup(source);
  p->name = strdup(name && *name ? name : "default_program");
  for (int i = 0; i < n; i++) {
    p->headers.push(strdup(headers[i]));
    p->header_names.push(strdup(names[i]));
  }
  *out = p;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  if (!program || !*program) return HIPRTC_ERROR_INVALID_PROGRAM;
  hiprtcProgram p = *program;
  free(p->source);
  free(p->name);
  free(p->log.bytes);
  free(p->code.bytes);
  release_texts(p->headers);
  release_texts(p->header_names);
  release_texts(p->expressions);
  release_texts(p->lowered);
  free(p);
  *program = nullptr;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcAddNameExpression(hiprtcProgram p, const char* expression) {
  if (!p) return HIPRTC_ERROR_INVALID_PROGRAM;
  if (!expression) return HIPRTC_ERROR_INVALID_INPUT;
  if (p->compiled) return HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
  p->expressions.push(strdup(expression));
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram p, int n, const char* const* options) {
  if (!p) return HIPRTC_ERROR_INVALID_PROGRAM;
  if (n < 0 || (n && !options)) return HIPRTC_ERROR_INVALID_INPUT;
  CompilerFolder folder;
  if (!folder.made()) return HIPRTC_ERROR_INTERNAL_ERROR;
  folder.write("source", p->source, strlen(p->source));
  folder.write("name", p->name, strlen(p->name));
  folder.write_list("options", options, n);
  folder.write_list("headers", p->headers.items, p->headers.count);
  folder.write_list("header_names", p->header_names.items, p->header_names.count);
  folder.write_list("expressions", p->expressions.items, p->expressions.count);
  int status = folder.run("hiprtcCompileProgram", "compile");
  free(p->log.bytes);
  free(p->code.bytes);
  p->log = folder.read("log");
  p->code = folder.read("code");
  Text lowered = folder.read("lowered");
  release_texts(p->lowered);
  for (size_t at = 0; at < lowered.size; at += strlen(lowered.bytes + at) + 1)
    p->lowered.push(strdup(lowered.bytes + at));
  free(lowered.bytes);
  if (status < 0) return HIPRTC_ERROR_INTERNAL_ERROR;
  p->compiled = status == 0;
  return p->compiled ? HIPRTC_SUCCESS : status == 1 ? HIPRTC_ERROR_COMPILATION : HIPRTC_ERROR_INVALID_OPTION;
}

hiprtcResult hiprtcGetLoweredName(hiprtcProgram p, const char* expression, const char** name) {
  if (!p || !expression || !name) return p ? HIPRTC_ERROR_INVALID_INPUT : HIPRTC_ERROR_INVALID_PROGRAM;
  if (!p->compiled) return HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  for (u32 i = 0; i < p->lowered.count && i < p->expressions.count; i++)
    if (!strcmp(p->expressions[i], expression)) {
      *name = p->lowered[i];
      return HIPRTC_SUCCESS;
    }
  return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}
// The log's size counts its zero; none is there where the compiler said nothing.
hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram p, size_t* bytes) {
  if (!p || !bytes) return p ? HIPRTC_ERROR_INVALID_INPUT : HIPRTC_ERROR_INVALID_PROGRAM;
  *bytes = p->log.size ? p->log.size + 1 : 0;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetProgramLog(hiprtcProgram p, char* log) {
  if (!p || !log) return p ? HIPRTC_ERROR_INVALID_INPUT : HIPRTC_ERROR_INVALID_PROGRAM;
  if (p->log.size) memcpy(log, p->log.bytes, p->log.size + 1);
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCodeSize(hiprtcProgram p, size_t* bytes) {
  if (!p || !p->compiled || !p->code.size) return HIPRTC_ERROR_INVALID_PROGRAM;
  if (!bytes) return HIPRTC_ERROR_INVALID_INPUT;
  *bytes = p->code.size;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCode(hiprtcProgram p, char* code) {
  if (!p || !p->compiled || !p->code.size) return HIPRTC_ERROR_INVALID_PROGRAM;
  if (!code) return HIPRTC_ERROR_INVALID_INPUT;
  memcpy(code, p->code.bytes, p->code.size);
  return HIPRTC_SUCCESS;
}
}
