// Launches that Python does not make itself, and what checks found in them, kept for it to ask for: the HIP runtime's.
#pragma once
#include "checks/check.h"
#include "time/costs.h"
#include "program/program.h"

enum LogMode : u32 { LOG_OFF, LOG_EXECUTED, LOG_COUNTERS };

struct LoggedLaunch {
  LoggedLaunch* next;
  ObserverSource* counters;  // null in LOG_EXECUTED
  char* kernel;
  u64* executed;     // [n_inst]
  char** where;      // [n_inst]: "`text` (file:line)" of what was executed, else null
  const char* card;  // its model
  u32 n_inst, groups[3], block[3], lds_bytes;
  Executed sums;
};

struct LoggedFinding {
  LoggedFinding* next;
  char *kernel, *arch, *where, *other;  // where: as above; other: the other instruction, null: none
  Finding finding;                      // of kind CHECK_KINDS: a hazard, of no wave
};

typedef u32 (*SampleOf)(const char* kernel);

extern "C" {
// Around cdna_launch. begin: null while the log is off.
LoggedLaunch* cdna_log_begin(Program*, u32 kernel, Launch*);
void cdna_log_end(LoggedLaunch*, Program*, const Launch*);
void cdna_log_set(u32 mode);     // a LogMode
void cdna_log_sample(SampleOf);  // which SampleKind a kernel is counted by
// What was logged since the last call, as lists that the caller frees piece by piece.
LoggedLaunch* cdna_log_take();
LoggedFinding* cdna_log_take_findings();
void cdna_log_free(LoggedLaunch*);
void cdna_log_free_finding(LoggedFinding*);
// Nothing while the log is off.
void cdna_log_finding(const Program*, const char* kernel, const Finding*);
void cdna_log_found(const Program*, u32 kernel, Checks*);  // all that these have found, and frees them
}
