// hipRTC: sources go to the toolchain of Python's side (cdna/hip/rtc.py), in a process of its own, through a folder.
#include "runtime.h"
#include <hip/hiprtc.h>
#include <dirent.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

struct Text {
  char* bytes;
  size_t size;
};
struct _hiprtcProgram {
  char *source, *name;
  List<char*> header_names, headers, expressions, lowered;
  Text log, code;
  bool compiled;
};

static void write_file(const char* folder, const char* name, const char* bytes, size_t size) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* f = fopen(path, "wb");
  if (!f) return;
  fwrite(bytes, 1, size, f);
  fclose(f);
}
static Text read_file(const char* folder, const char* name) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  Text t = {nullptr, 0};
  FILE* f = fopen(path, "rb");
  if (!f) return t;
  fseek(f, 0, SEEK_END);
  t.size = ftell(f);
  rewind(f);
  t.bytes = (char*)calloc(1, t.size + 1);
  if (fread(t.bytes, 1, t.size, f) != t.size) t.size = 0;
  fclose(f);
  return t;
}
// Strings one after the other, each with its zero.
static void write_list(const char* folder, const char* name, const char* const* texts, u32 n) {
  List<char> all;
  for (u32 i = 0; i < n; i++)
    for (const char* c = texts[i];; c++) {
      all.push(*c);
      if (!*c) break;
    }
  write_file(folder, name, all.items, all.count);
  all.release();
}
static void remove_folder(const char* folder) {
  DIR* d = opendir(folder);
  for (dirent* e; d && (e = readdir(d));) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] != '.') unlink(path);
  }
  if (d) closedir(d);
  rmdir(folder);
}

static void clear(List<char*>& list) {
  for (char* text : list) free(text);
  list.release();
}

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
    case HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION: return "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
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
  clear(p->headers);
  clear(p->header_names);
  clear(p->expressions);
  clear(p->lowered);
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
  char folder[] = "/tmp/cdna-rtc-XXXXXX";
  if (!mkdtemp(folder)) return HIPRTC_ERROR_INTERNAL_ERROR;
  write_file(folder, "source", p->source, strlen(p->source));
  write_file(folder, "name", p->name, strlen(p->name));
  write_file(folder, "arch", arch_facts().name, strlen(arch_facts().name));
  write_list(folder, "options", options, n);
  write_list(folder, "headers", p->headers.items, p->headers.count);
  write_list(folder, "header_names", p->header_names.items, p->header_names.count);
  write_list(folder, "expressions", p->expressions.items, p->expressions.count);
  const char* python = getenv("CDNA_PYTHON");
  const char* const command[] = {python ? python : "python3", "-m", "cdna.hip.rtc", folder, nullptr};
  pid_t pid;
  int status = 0;
  fflush(stdout);
  bool ran = !posix_spawnp(&pid, command[0], nullptr, nullptr, (char* const*)command, environ) &&
             waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) <= 2;
  free(p->log.bytes);
  free(p->code.bytes);
  p->log = read_file(folder, "log");
  p->code = read_file(folder, "code");
  Text lowered = read_file(folder, "lowered");
  for (size_t at = 0; at < lowered.size; at += strlen(lowered.bytes + at) + 1) p->lowered.push(strdup(lowered.bytes + at));
  free(lowered.bytes);
  remove_folder(folder);
  if (!ran) {
    say("hiprtcCompileProgram: `%s -m cdna.hip.rtc` does not run: CDNA_PYTHON must name a Python that has cdna", command[0]);
    return HIPRTC_ERROR_INTERNAL_ERROR;
  }
  p->compiled = WEXITSTATUS(status) == 0;
  return p->compiled ? HIPRTC_SUCCESS : WEXITSTATUS(status) == 1 ? HIPRTC_ERROR_COMPILATION : HIPRTC_ERROR_INVALID_OPTION;
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
  if (!p || !bytes) return p ? HIPRTC_ERROR_INVALID_INPUT : HIPRTC_ERROR_INVALID_PROGRAM;
  *bytes = p->code.size;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCode(hiprtcProgram p, char* code) {
  if (!p || !code) return p ? HIPRTC_ERROR_INVALID_INPUT : HIPRTC_ERROR_INVALID_PROGRAM;
  if (!p->compiled) return HIPRTC_ERROR_INVALID_PROGRAM;
  memcpy(code, p->code.bytes, p->code.size);
  return HIPRTC_SUCCESS;
}
}
