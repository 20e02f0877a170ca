// The stand-in HIP runtime: what its parts share. Types and signatures are those of HIP's own headers, so
// that a program compiled against them links and runs here. Like the engine it uses no C++ standard library,
// no exceptions, no RTTI.
//
// Device memory is host memory, and an operation on a stream is done by the time the call that asked for it returns,
// one of the orders that HIP allows, unless it waits for something (queue.cpp). Streams that capture record operations
// instead (graph.cpp).
#pragma once
#include <hip/hip_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
// Of the engine:
#include "memory/list.h"
#include "memory/stream_work.h"
#include "program/program.h"

#define EXPORTED __attribute__((visibility("default")))  // what HIP's own headers do not declare so

constexpr int MAX_DEVICES = 16;

// Zero-filled, as every object of the runtime starts.
template <class T>
static T* make() {
  return (T*)calloc(1, sizeof(T));
}

extern pthread_mutex_t global_lock;  // recursive; guards the runtime's tables, never held while kernels run
struct Guard {
  Guard() { pthread_mutex_lock(&global_lock); }
  ~Guard() { pthread_mutex_unlock(&global_lock); }
};

// --- errors (errors.cpp) ---------------------------------------------------------------------------

// Every call of the API ends with `return done(result)`, and most begin with ENTER: after a kernel has
// faulted the device is lost, as HIP has it, and every call says so.
extern volatile hipError_t device_lost;
hipError_t done(hipError_t);
#define ENTER \
  if (device_lost != hipSuccess) return done(device_lost)
#define CALL(RESULT) \
  ENTER;             \
  return done(RESULT)
#define OF(...) __VA_ARGS__  // a list of parameters that a macro was given in parentheses
// A call that gives a value: where there is one to be written; of a device; of a stream `handle`, which is `s` then.
#define GIVE(OUT, VALUE)                       \
  if (!OUT) return done(hipErrorInvalidValue); \
  *OUT = VALUE;                                \
  return done(hipSuccess)
#define GIVE_OF(DEVICE, OUT, VALUE)                                     \
  if (OUT && !valid_device(DEVICE)) return done(hipErrorInvalidDevice); \
  GIVE(OUT, VALUE)
#define GIVE_OF_STREAM(OUT, VALUE)            \
  ENTER;                                      \
  ihipStream_t* s = resolve(handle);          \
  if (!s) return done(hipErrorInvalidHandle); \
  GIVE(OUT, VALUE)
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));  // one message to standard error

// --- devices (device.cpp) --------------------------------------------------------------------------

const Card&
device_card();  // that is emulated: $CDNA_CARD, else of $CDNA_ARCH, else of the first arch that a program brings
void suggest_arch(const char*);  // a program brings code for this arch
int device_count();
int current_device();
bool valid_device(int);
bool may_access_peer(int device, int peer);
void share_with_peers();  // by means that are not followed: all devices may access each other's memory

// --- memory (memory.cpp) ---------------------------------------------------------------------------

struct Allocation {
  u8* base;  // what the program holds
  size_t bytes;
  hipMemoryType type;
  int device;
  unsigned flags;
  u8* mapping;  // pages around it, guard page included
  size_t mapping_bytes;
  int file;         // descriptor of the memory file, in the process that made it
  pid_t owner;      // that process
  u64 file_offset;  // of the first data page there
  size_t file_bytes;
  bool imported;    // from another process
  bool exported;    // to other processes
  bool from_pool;   // there from a memory pool: freed here as if it were of one
  bool registered;  // the program's own memory
  bool mapped;      // by hipMemMap: the pages are virtual_memory.cpp's
  u64 id;
};
hipError_t allocate_memory(void** out, size_t bytes, hipMemoryType type, int device, unsigned flags);
hipError_t free_memory(void*);
void name_allocation(const Allocation&, char* name, size_t bytes);
Allocation* find_allocation(const void*);           // that holds the address; under global_lock
bool within_allocation(const void*, size_t bytes);  // false if it begins inside of one and ends outside
// Whether a call may access these bytes. If not it is told where bounds are checked, `does` being what the call does.
bool may_access(const void*, size_t bytes, const char* does);
bool is_beside_allocation(const void*);  // in what was reserved around one, which is nobody else's memory
void describe_address(u64 address, char* text, size_t bytes);
u64 used_bytes(int device);
List<u64> barred_allocations(int device);             // bases of other devices' memory that it has no access to
void enter_mapping(void*, size_t bytes, int device);  // what virtual_memory.cpp has mapped there; under global_lock
void leave_mapping(void*);
u8* reserve_addresses(void* at, size_t bytes,
                      int more_flags = 0);      // nothing there may be touched; null: none to be had
void return_addresses(void*, size_t bytes);     // unmaps, and tells the checks that they may be anything now
void forget_advice(const void*, size_t bytes);  // advice.cpp's

// --- lend.cpp ----------------------------------------------------------------------------------------

bool lend(int file, u32* where);  // to processes that are told where to ask for it
int borrow(int file, u32 where);  // a descriptor of it, as its process numbers it; -1, errno
u32 lender_threads();

// --- misuse.cpp --------------------------------------------------------------------------------------

bool alone();  // a program of its own, no Python process
// A call that is refused, and does something in vain: "writes 8 bytes ...".
void tell_refused(const char* format, ...) __attribute__((format(printf, 1, 2)));
// The same of one that programs try: told at the program's end, where it has asked for no error since.
void tell_unless_asked(const char* format, ...) __attribute__((format(printf, 1, 2)));
void tell_unasked();
void refused_unseen();   // a launch was refused, and its call does not return the error
void errors_asked();     // the program looks
bool refused_unasked();  // and has not since
bool checks_bounds();    // checks.cpp
bool found_fault();      // that has been told: it ends the program's work, where findings do
bool has_right_kind(const void* to, const void* from, hipMemcpyKind);
bool lies_apart(const struct CopyCall&);
bool is_pageable(const void*);         // the host's own memory, of which HIP does not know
size_t host_block_after(const void*);  // bytes up to the end of the block of the host's heap; SIZE_MAX: not known

// --- modules and kernels (module.cpp) ----------------------------------------------------------------

struct ihipModuleSymbol_t {  // hipFunction_t
  ihipModule_t* module;
  const char* name;
  const void* host;     // the stub's address, which the program launches by
  int max_dynamic_lds;  // as set by hipFuncSetAttribute; -1: as the arch allows
};
struct Variable {
  const void* host;
  char* name;
  size_t bytes;
  void** managed;
  bool constant;
};
struct ihipModule_t {
  const u8* container;
  u8* owned;  // the container's bytes if the module holds them
  Program* programs[MAX_DEVICES];
  List<hipFunction_t> functions;
  List<Variable> variables;
};
Program* program_of(ihipModule_t*, int device);  // loads it on first use; null after saying why
KernelInfo* kernel_of(hipFunction_t, int device, u32* index = nullptr);
hipFunction_t find_function(const void* host_or_handle);
hipError_t symbol_address(const void* symbol, int device, void** address, size_t* bytes);

// --- streams, operations, graphs ----------------------------------------------------------------------

struct KernelCall {
  hipFunction_t function;
  dim3 grid, block;
  u32 dynamic_lds_bytes;
  int cooperative;  // as a graph's node was told, or 0 or 1
  u8* kernarg;      // explicit arguments at their offsets
  u32 kernarg_bytes;
  void** arguments;  // into kernarg: what hipGraphKernelNodeGetParams shows
};
struct CopyCall {  // depth planes of height rows of width bytes
  void* to;
  const void* from;
  size_t width, height, depth, to_pitch, from_pitch, to_slice, from_slice;
};
struct FillCall {
  void* to;
  u32 value, value_bytes;
  size_t width, height, depth, pitch, slice;
  bool on_stream;  // that the program has named, or in a graph: nobody takes it for done when the call returns
};
struct HostCall {
  hipHostFn_t function;
  hipStreamCallback_t callback;
  void* data;
};
struct RecordCall {
  hipEvent_t event;
  u64 number;  // of an event that processes share: see ipc_event.cpp; 0: the next
};
struct ValueCall {
  volatile void* address;
  u64 value, mask;
  u32 bytes, condition;
};

enum OperationKind : u32 {
  DO_NOTHING,
  DO_KERNEL,
  DO_COPY,
  DO_FILL,
  DO_HOST,
  DO_RECORD,
  DO_WAIT,
  DO_GRAPH,
  DO_WRITE_VALUE,
  DO_WAIT_VALUE,
  DO_ALLOCATE,
  DO_FREE
};
struct Operation {
  Operation() { memset((void*)this, 0, sizeof *this); }
  OperationKind kind;
  int device;
  union {
    KernelCall kernel;
    CopyCall copy;
    FillCall fill;
    HostCall host;
    ValueCall value;
    RecordCall record;
    hipGraph_t graph;
    void* memory;
  };
};
static inline Operation operation(OperationKind kind) {
  Operation o;
  o.kind = kind;
  o.device = current_device();
  return o;
}
static inline Operation copy_operation(void* to, const void* from, size_t bytes) {
  Operation o = operation(DO_COPY);
  o.copy = {to, from, bytes, 1, 1, bytes, bytes, bytes, bytes};
  return o;
}

struct Attributes {  // hints: what is set can be read again
  hipAccessPolicyWindow window;
  hipSynchronizationPolicy policy;
  int priority;
};
hipError_t set_attribute(Attributes&, hipLaunchAttributeID, const hipLaunchAttributeValue&);  // stream.cpp
hipError_t get_attribute(const Attributes&, hipLaunchAttributeID, hipLaunchAttributeValue*);

struct hipGraphNode {
  ihipGraph* graph;
  Operation operation;
  List<hipGraphNode_t> needs;  // nodes that come before
  hipGraphNode_t origin;       // in a clone or an executable: the node it was made of
  Attributes attributes;
  bool disabled, placed;  // placed: while nodes are put in order
  u32 at;                 // its place in that order
  bool let_go;            // by a capturing queue that was told to come after other nodes
};
// stream_order.cpp
constexpr u32 MOST_BRANCHES = 16;  // of a stream's graphs that are told apart, as MOST_STREAMS streams are
struct StreamOrder {
  u32 number;               // 0: none yet, or there were too many
  u64 known[MOST_STREAMS];  // by number: up to which place that stream's work has ended before what comes now
};
struct WorkOrder {
  u32 work;  // 0: not known; else its stream's number above its place there
  u64 known[MOST_STREAMS];
  const u32*
      branches;  // of a graph that has some: the numbers that they have, and the place of the graph on its stream
  u32 n_branches;
  u64 place;
};
extern thread_local const WorkOrder* order_of_work;  // that this thread runs; null: nothing is known of it
void want_stream_order();                            // the program has streams of its own
void lose_stream_order();                            // from now on the order is not known
void order_work(ihipStream_t&, const List<ihipStream_t*>& before, u64 place, u32 branches, WorkOrder& out);
void order_after(ihipStream_t&, const StreamOrder& event);
void order_program_after(const u64* known, bool has_called = true);  // false: it may have been told otherwise, long ago
// The work of a step on a branch of a graph, as one that knows how far others have come before it; 0: not known.
u32 order_step(const WorkOrder& graph, u32 branch, u32 step, u64* known);
// schedule.cpp
bool takes_last_branch_first();     // of a graph
bool is_late(const ihipStream_t&);  // its work waits until somebody waits for it
void note_output(const CopyCall&);  // a copy that has been made
u64 streams_made();                 // plus 1
// pinned_reads.cpp. They return whether the host has written where a copy may still read.
bool note_pinned_read(const CopyCall&, u32 work);
bool pinned_reads_end(const u64* known, bool look);
void forget_pinned_reads(const void*, size_t bytes);  // the device may have written there, or the memory goes

// results.cpp
void device_work_begins();
void device_work_ends();
void note_result(const void* to, size_t bytes, u32 work);
void results_end(const u64* known);
void forget_results(const void*, size_t bytes);
bool opens_result(u64 address);  // whether an access faults because a result there is closed to the host

const char* beside(u32 work, u32 other);  // where the other is, and what is not between the two
void name_work(u32 work, const char* kernel);
const char* work_name(u32 work);

struct ihipStream_t {
  int device;
  unsigned flags;
  Attributes attributes;
  u64 id;
  hipGraph_t capture;  // the graph that operations go to, or null
  bool capture_origin, capture_invalid;
  bool capture_to_given;      // to a graph that the program made
  List<hipGraphNode_t> last;  // nodes that the next captured one comes after
  u64 issued, completed;      // operations; see queue.cpp
  u64 wanted;                 // up to which somebody waits for them
  List<struct Pending*> pending;
  bool has_thread;
  StreamOrder order;
  u32 branches[MOST_BRANCHES], n_branches;  // numbers of the branches of graphs that run there
  hipError_t error;                         // of work that its call had left behind
};
struct ihipEvent_t {
  ihipStream_t* queue;  // where it was recorded last, as which operation; null: it is done
  u64 ticket;
  struct SharedEvent* shared;  // with other processes; null: with none
  unsigned flags;
  int device;
  bool recorded;
  u64 time_ns;
  hipGraph_t capture;
  List<hipGraphNode_t> last;
  StreamOrder order;  // of what it was recorded behind
};

bool known_event(hipEvent_t);
bool share_event(ihipEvent_t&);    // ipc_event.cpp; false: there are too many
void unshare_event(ihipEvent_t&);  // under global_lock
u64 issue_shared(ihipEvent_t&);    // the number of the recording that is to come
void shared_happened(ihipEvent_t&, u64 number);
Operation shared_wait(ihipEvent_t&);
bool holds(const ValueCall&);

hipError_t submit(hipStream_t, const Operation&);  // run it, or record it where the stream captures
bool is_null_queue(const ihipStream_t&);
bool may_detach();
// Runs an operation, after what is before it on its queue and after another one. ticket: its number there.
hipError_t enqueue(ihipStream_t&, hipStream_t handle, const Operation&, ihipStream_t* after = nullptr,
                   u64 after_ticket = 0, u64* ticket = nullptr);
bool is_done(ihipStream_t*, u64 ticket);
hipError_t wait_for(ihipStream_t*, u64 ticket);
hipError_t wait_for_queue(ihipStream_t&);  // and what an operation on it would wait for
hipError_t wait_for_device(int);
void wait_for_all();
bool queue_is_done(ihipStream_t&);
void order_event(ihipStream_t&, ihipEvent_t&);  // recorded there just now
bool forget_queue(ihipStream_t&);
bool program_may_act();  // false: its threads have all waited for a while, and nothing but kernels runs
hipError_t run_operation(hipStream_t, const Operation&);
hipError_t run_counted(hipStream_t, const Operation&);  // on a queue's thread: program_may_act knows of it
hipError_t copy3d_operation(const hipMemcpy3DParms*, Operation* out);  // copy.cpp
hipError_t copy3d_operation(const HIP_MEMCPY3D*, Operation* out);
hipError_t run_graph(hipGraph_t, hipStream_t);
u32 branches_of(hipGraph_t);  // graph_branches.cpp; 0: its nodes follow each other
hipError_t run_kernel(const KernelCall&, int device);
void mark_fresh(u8*, size_t bytes);       // for the check of what nobody wrote
bool reads_unwritten(const CopyCall&);    // a copy to the host, and that has been told
bool tell_hazards(Program&, u32 kernel);  // each once; true if the launch must not run
struct Checks* begin_checks(const KernelCall&, const KernelInfo&, int device);  // null: none wanted
bool looks_for_races();
hipError_t check_moves(const Operation&, const WorkOrder&);    // of a copy or a fill
bool end_checks(Checks*, const Program&, const char* kernel);  // prints what was found; true if anything was
// Notes what has ended a launch where it went to the host's memory, with or without checks: the program fails by it.
void log_fault(const Program&, const char* kernel, const Launch&);
void release_operation(Operation&);  // what the operation owns
Operation copy_of(const Operation&);
ihipStream_t* resolve(hipStream_t);  // the stream of a handle, default streams included; null: none
hipError_t capture_operation(ihipStream_t&, const Operation&);
hipError_t kernel_call(hipFunction_t, dim3 grid, dim3 block, size_t lds_bytes, void** arguments, void** extra,
                       bool cooperative, Operation* out);
