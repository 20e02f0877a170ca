// The process that compiles for a program that runs.
#include "rtc_process.h"
#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

CompilerFolder::CompilerFolder() {
  const char* place = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/cdna-rtc-XXXXXX", place && *place ? place : "/tmp");
  if (!mkdtemp(path)) {
    say("%s: cannot make this folder, where code is compiled: %s; set TMPDIR", path, strerror(errno));
    path[0] = 0;
    return;
  }
  write("arch", device_card().name, strlen(device_card().name));
}

CompilerFolder::~CompilerFolder() {
  DIR* d = made() ? opendir(path) : nullptr;
  for (dirent* e; d && (e = readdir(d));) {
    char file[600];
    snprintf(file, sizeof file, "%s/%s", path, e->d_name);
    if (e->d_name[0] != '.') unlink(file);
  }
  if (d) closedir(d);
  if (made()) rmdir(path);
}

void CompilerFolder::write(const char* name, const char* bytes, size_t size) const {
  char file[600];
  snprintf(file, sizeof file, "%s/%s", path, name);
  FILE* f = fopen(file, "wb");
  if (!f) return;
  fwrite(bytes, 1, size, f);
  fclose(f);
}

void CompilerFolder::write_list(const char* name, const char* const* texts, u32 n) const {
  List<char> all;
  for (u32 i = 0; i < n; i++)
    for (const char* c = texts[i];; c++) {
      all.push(*c);
      if (!*c) break;
    }
  write(name, all.items, all.count);
  all.release();
}

Text CompilerFolder::read(const char* name) const {
  char file[600];
  snprintf(file, sizeof file, "%s/%s", path, name);
  return read_file(file);
}

void release_texts(List<char*>& list) {
  for (char* text : list) free(text);
  list.release();
}

// CDNA_ROOT: the folder that has the package, where it is not installed.
int CompilerFolder::run(const char* call, const char* action) const {
  const char *python = getenv("CDNA_PYTHON"), *root = getenv("CDNA_ROOT");
  const char* const start =
      "import sys; sys.path[:0] = filter(None, [sys.argv[1]]); "
      "from cdna.hip import hiprtc; sys.exit(hiprtc.main(*sys.argv[2:]))";
  const char* const command[] = {python ? python : "python3", "-c", start, root ? root : "", action, path, nullptr};
  pid_t pid;
  int status = 0;
  fflush(stdout);
  if (!posix_spawnp(&pid, command[0], nullptr, nullptr, (char* const*)command, environ) &&
      waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) <= 2)
    return WEXITSTATUS(status);
  say("%s: cdna.hip.hiprtc does not run with %s: CDNA_PYTHON must name a Python that has cdna", call, command[0]);
  return -1;
}
