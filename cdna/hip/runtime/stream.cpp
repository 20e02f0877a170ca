// Streams, events, and how operations run.
#include "runtime.h"
#include "run/journal.h"  // of the engine
#include "run/written.h"
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

static List<hipStream_t> streams;
static List<hipEvent_t> events;
static ihipStream_t default_streams[MAX_DEVICES];
static thread_local ihipStream_t* thread_streams[MAX_DEVICES];  // never freed: work may be left on them
static u64 next_stream_id = 1;

ihipStream_t* resolve(hipStream_t s) {
  if (s == nullptr || s == hipStreamLegacy || s == hipStreamPerThread) {
    int device = current_device();
    ihipStream_t*& of_thread = thread_streams[device];
    if (s == hipStreamPerThread) want_stream_order();
    if (s == hipStreamPerThread && !of_thread) of_thread = make<ihipStream_t>();
    ihipStream_t* own = s == hipStreamPerThread ? of_thread : &default_streams[device];
    own->device = device;
    return own;
  }
  Guard guard;
  return streams.contains(s) ? s : nullptr;
}

u64 streams_made() { return next_stream_id; }
bool is_null_queue(const ihipStream_t& q) { return &q >= default_streams && &q < default_streams + MAX_DEVICES; }

static u64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// --- operations ----------------------------------------------------------------------------------------

static void run_copy(const CopyCall& c) {
  for (size_t z = 0; z < c.depth; z++)
    for (size_t y = 0; y < c.height; y++) {
      u8* to = (u8*)c.to + z * c.to_slice + y * c.to_pitch;
      const u8* from = (const u8*)c.from + z * c.from_slice + y * c.from_pitch;
      cdna_written_read((u64)from, c.width);
      memmove(to, from, c.width);
      cdna_written_told_copy((u64)to, (u64)from, c.width);
      journal_copy((u64)to, (u64)from, c.width);
      cdna_written_by_operation((u64)to, c.width);
    }
}
// Programs clear heaps of gigabytes that they use a little of: whole pages of shared memory become holes that read as
// zero, instead of being written. The host may not have as much as the card.
constexpr size_t WORTHWHILE = 16 << 20;
static void clear(u8* at, size_t bytes) {
  constexpr size_t PAGE = 4096;
  u8* first = (u8*)(((size_t)at + PAGE - 1) / PAGE * PAGE);
  u8* last = (u8*)((size_t)(at + bytes) / PAGE * PAGE);
  if (bytes < WORTHWHILE || madvise(first, last - first, MADV_REMOVE)) {
    memset(at, 0, bytes);
    return;
  }
  memset(at, 0, first - at);
  memset(last, 0, at + bytes - last);
}
static void run_fill(const FillCall& f) {
  for (size_t z = 0; z < f.depth; z++)
    for (size_t y = 0; y < f.height; y++) {
      u8* row = (u8*)f.to + z * f.slice + y * f.pitch;
      if (f.value == 0) clear(row, f.width);
      else if (f.value_bytes == 1) memset(row, f.value, f.width);
      else
        for (size_t x = 0; x < f.width; x += f.value_bytes) memcpy(row + x, &f.value, f.value_bytes);
      cdna_written_told_fill((u64)row, f.width, f.value);
      journal_fill((u64)row, f.width, f.value, f.value_bytes);
      if (f.width < WORTHWHILE) cdna_written_by_operation((u64)row, f.width);
      else cdna_written_known((u64)row, f.width);
    }
}
static u64 read_value(const ValueCall& v) {
  return v.bytes == 4 ? __atomic_load_n((u32*)v.address, __ATOMIC_SEQ_CST)
                      : __atomic_load_n((u64*)v.address, __ATOMIC_SEQ_CST);
}
bool holds(const ValueCall& v) {
  u64 x = read_value(v) & v.mask;
  switch (v.condition) {
    case hipStreamWaitValueGte: return v.bytes == 4 ? (i32)((u32)x - (u32)v.value) >= 0 : (i64)(x - v.value) >= 0;
    case hipStreamWaitValueEq: return x == v.value;
    case hipStreamWaitValueAnd: return (x & v.value) != 0;
    default: return (~(x | v.value) & v.mask) != 0;
  }
}

hipError_t run_operation(hipStream_t stream, const Operation& o) {
  switch (o.kind) {
    case DO_KERNEL: return run_kernel(o.kernel, o.device);
    case DO_COPY:
      run_copy(o.copy);
      note_output(o.copy);
      if (reads_unwritten(o.copy) && found_fault()) return device_lost;
      break;
    case DO_FILL: run_fill(o.fill); break;
    case DO_HOST:
      if (o.host.callback) o.host.callback(stream, hipSuccess, o.host.data);
      else o.host.function(o.host.data);
      break;
    case DO_RECORD:
      o.record.event->time_ns = now_ns();
      o.record.event->recorded = true;
      shared_happened(*o.record.event, o.record.number ? o.record.number : issue_shared(*o.record.event));
      break;
    case DO_GRAPH: return run_graph(o.graph, stream);
    case DO_WRITE_VALUE:
      if (o.value.bytes == 4) __atomic_store_n((u32*)o.value.address, (u32)o.value.value, __ATOMIC_SEQ_CST);
      else __atomic_store_n((u64*)o.value.address, o.value.value, __ATOMIC_SEQ_CST);
      break;
    case DO_WAIT_VALUE:  // by another thread or process: what this thread submits later cannot end the wait
      while (!holds(o.value)) sched_yield();
      break;
    case DO_FREE: return free_memory(o.memory);
    case DO_NOTHING:
    case DO_WAIT:
    case DO_ALLOCATE: break;  // earlier work is done already
  }
  return hipSuccess;
}

void release_operation(Operation& o) {
  if (o.kind != DO_KERNEL) return;
  free(o.kernel.kernarg);
  free(o.kernel.arguments);
  o.kernel.kernarg = nullptr;
  o.kernel.arguments = nullptr;
}

Operation copy_of(const Operation& o) {
  Operation copy = o;
  if (o.kind != DO_KERNEL) return copy;
  KernelCall& c = copy.kernel;
  KernelInfo* k = kernel_of(c.function, o.device);
  u32 n = k ? k->n_arguments : 0;
  c.kernarg = (u8*)calloc(1, c.kernarg_bytes + 8);
  memcpy(c.kernarg, o.kernel.kernarg, c.kernarg_bytes);
  c.arguments = (void**)calloc(n + 1, sizeof(void*));
  for (u32 i = 0; i < n && o.kernel.arguments[i]; i++)
    c.arguments[i] = c.kernarg + ((u8*)o.kernel.arguments[i] - o.kernel.kernarg);
  return copy;
}

hipError_t submit(hipStream_t handle, const Operation& o) {
  ihipStream_t* s = resolve(handle);
  if (!s) return hipErrorInvalidHandle;
  if (s->capture) return capture_operation(*s, o);
  Operation run = o;
  run.device = s->device;
  return enqueue(*s, handle, run);
}

// Only priorities mean anything here, and those little: the cards have no window of L2 that stays
// (hipDeviceProp_t::accessPolicyMaxWindowSize is 0).
hipError_t set_attribute(Attributes& a, hipLaunchAttributeID which, const hipLaunchAttributeValue& value) {
  const hipAccessPolicyWindow& window = value.accessPolicyWindow;
  switch (which) {
    case hipLaunchAttributeAccessPolicyWindow:
      if (window.num_bytes || window.hitRatio < 0 || window.hitRatio > 1) return hipErrorInvalidValue;
      if (window.missProp == hipAccessPropertyPersisting) return hipErrorInvalidValue;
      a.window = window;
      break;
    case hipLaunchAttributeSynchronizationPolicy: a.policy = value.syncPolicy; break;
    case hipLaunchAttributePriority: a.priority = value.priority; break;
    default: return hipErrorInvalidValue;
  }
  return hipSuccess;
}
hipError_t get_attribute(const Attributes& a, hipLaunchAttributeID which, hipLaunchAttributeValue* value) {
  switch (which) {
    case hipLaunchAttributeAccessPolicyWindow: value->accessPolicyWindow = a.window; break;
    case hipLaunchAttributeSynchronizationPolicy: value->syncPolicy = a.policy; break;
    case hipLaunchAttributePriority: value->priority = a.priority; break;
    default: return hipErrorInvalidValue;
  }
  return hipSuccess;
}

bool known_event(hipEvent_t e) {
  Guard guard;
  return events.contains(e);
}

extern "C" {
// --- streams -------------------------------------------------------------------------------------------

hipError_t hipStreamCreateWithPriority(hipStream_t* out, unsigned flags, int priority) {
  ENTER;
  if (!out || (flags != hipStreamDefault && flags != hipStreamNonBlocking)) return done(hipErrorInvalidValue);
  ihipStream_t* s = make<ihipStream_t>();
  s->device = current_device();
  s->flags = flags;
  s->attributes.priority = priority < -1 ? -1 : priority > 1 ? 1 : priority;
  s->attributes.policy = hipSyncPolicyAuto;
  want_stream_order();
  Guard guard;
  s->id = next_stream_id++;
  streams.push(s);
  *out = s;
  return done(hipSuccess);
}
hipError_t hipStreamCreate(hipStream_t* out) { return hipStreamCreateWithPriority(out, hipStreamDefault, 0); }
hipError_t hipStreamCreateWithFlags(hipStream_t* out, unsigned flags) {
  return hipStreamCreateWithPriority(out, flags, 0);
}
hipError_t hipExtStreamCreateWithCUMask(hipStream_t* out, uint32_t words, const uint32_t* mask) {
  return words && mask ? hipStreamCreate(out) : done(hipErrorInvalidValue);
}
hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  ENTER;
  if (least) *least = 1;
  if (greatest) *greatest = -1;
  return done(hipSuccess);
}
hipError_t hipStreamDestroy(hipStream_t s) {
  ENTER;
  Guard guard;
  if (!streams.contains(s)) return done(hipErrorInvalidHandle);
  streams.drop(s);
  if (!forget_queue(*s)) return done(hipSuccess);
  for (hipEvent_t e : events)
    if (e->queue == s) e->queue = nullptr;
  s->last.release();
  free(s);
  return done(hipSuccess);
}
static hipError_t finished(hipStream_t handle, bool wait) {
  ihipStream_t* s = resolve(handle);
  if (!s) return hipErrorInvalidHandle;
  if (!s->capture) return wait ? wait_for_queue(*s) : queue_is_done(*s) ? hipSuccess : hipErrorNotReady;
  s->capture_invalid = true;
  return hipErrorStreamCaptureUnsupported;
}
hipError_t hipStreamQuery(hipStream_t s) { CALL(finished(s, false)); }
hipError_t hipStreamSynchronize(hipStream_t s) { CALL(finished(s, true)); }
hipError_t hipStreamGetFlags(hipStream_t handle, unsigned* flags) { GIVE_OF_STREAM(flags, s->flags); }
hipError_t hipStreamGetPriority(hipStream_t handle, int* priority) { GIVE_OF_STREAM(priority, s->attributes.priority); }
hipError_t hipStreamSetAttribute(hipStream_t handle, hipStreamAttrID which, const hipStreamAttrValue* value) {
  ENTER;
  ihipStream_t* s = resolve(handle);
  if (!s || !value) return done(s ? hipErrorInvalidValue : hipErrorInvalidHandle);
  return done(set_attribute(s->attributes, which, *value));
}
hipError_t hipStreamGetAttribute(hipStream_t handle, hipStreamAttrID which, hipStreamAttrValue* value) {
  ENTER;
  ihipStream_t* s = resolve(handle);
  if (!s || !value) return done(s ? hipErrorInvalidValue : hipErrorInvalidHandle);
  return done(get_attribute(s->attributes, which, value));
}
hipError_t hipExtStreamGetCUMask(hipStream_t handle, uint32_t words, uint32_t* mask) {
  ENTER;
  u32 units = device_card().compute_units;
  if (!resolve(handle)) return done(hipErrorInvalidHandle);
  if (!mask || words * 32 < units) return done(hipErrorInvalidValue);
  for (u32 i = 0; i < words; i++) mask[i] = 0;
  for (u32 i = 0; i < units; i++) mask[i / 32] |= 1u << i % 32;
  return done(hipSuccess);
}
hipError_t hipStreamGetDevice(hipStream_t handle, hipDevice_t* device) { GIVE_OF_STREAM(device, s->device); }
int hipGetStreamDeviceId(hipStream_t handle) {
  ihipStream_t* s = resolve(handle);
  return s ? s->device : hipInvalidDeviceId;
}
hipError_t hipStreamGetId(hipStream_t handle, unsigned long long* id) { GIVE_OF_STREAM(id, s->id); }

hipError_t hipStreamAddCallback(hipStream_t s, hipStreamCallback_t callback, void* data, unsigned flags) {
  ENTER;
  if (!callback || flags) return done(hipErrorInvalidValue);
  Operation o = operation(DO_HOST);
  o.host = {nullptr, callback, data};
  return done(submit(s, o));
}
hipError_t hipLaunchHostFunc(hipStream_t s, hipHostFn_t function, void* data) {
  ENTER;
  if (!function) return done(hipErrorInvalidValue);
  Operation o = operation(DO_HOST);
  o.host = {function, nullptr, data};
  return done(submit(s, o));
}

static hipError_t value_call(OperationKind kind, hipStream_t s, void* p, u64 value, u64 mask, u32 bytes,
                             u32 condition) {
  if (!p || condition > hipStreamWaitValueNor) return hipErrorInvalidValue;
  Operation o = operation(kind);
  o.value = {p, value, mask, bytes, condition};
  return submit(s, o);
}
hipError_t hipStreamWaitValue32(hipStream_t s, void* p, uint32_t value, unsigned flags, uint32_t mask) {
  CALL(value_call(DO_WAIT_VALUE, s, p, value, mask, 4, flags));
}
hipError_t hipStreamWaitValue64(hipStream_t s, void* p, uint64_t value, unsigned flags, uint64_t mask) {
  CALL(value_call(DO_WAIT_VALUE, s, p, value, mask, 8, flags));
}
hipError_t hipStreamWriteValue32(hipStream_t s, void* p, uint32_t value, unsigned) {
  CALL(value_call(DO_WRITE_VALUE, s, p, value, 0, 4, 0));
}
hipError_t hipStreamWriteValue64(hipStream_t s, void* p, uint64_t value, unsigned) {
  CALL(value_call(DO_WRITE_VALUE, s, p, value, 0, 8, 0));
}

hipError_t hipStreamBatchMemOp(hipStream_t s, unsigned n, hipStreamBatchMemOpParams* list, unsigned flags) {
  ENTER;
  if (!n || n > 256 || !list || flags) return done(hipErrorInvalidValue);
  hipError_t error = hipSuccess;
  for (unsigned i = 0; i < n && error == hipSuccess; i++) {
    const auto& until = list[i].waitValue;
    const auto& to = list[i].writeValue;
    switch (list[i].operation) {
      case hipStreamMemOpWaitValue32: error = hipStreamWaitValue32(s, until.address, until.value, until.flags); break;
      case hipStreamMemOpWaitValue64: error = hipStreamWaitValue64(s, until.address, until.value64, until.flags); break;
      case hipStreamMemOpWriteValue32: error = hipStreamWriteValue32(s, to.address, to.value, 0); break;
      case hipStreamMemOpWriteValue64: error = hipStreamWriteValue64(s, to.address, to.value64, 0); break;
      default: error = hipErrorNotSupported;
    }
  }
  return done(error);
}

hipError_t hipMallocAsync(void** p, size_t bytes, hipStream_t handle) {
  ENTER;
  ihipStream_t* s = resolve(handle);
  if (!s) return done(hipErrorInvalidHandle);
  return done(allocate_memory(p, bytes, hipMemoryTypeDevice, s->device, 0));
}
hipError_t hipFreeAsync(void* p, hipStream_t s) {
  ENTER;
  if (!p) return done(hipErrorInvalidValue);
  Operation o = operation(DO_FREE);
  o.memory = p;
  return done(submit(s, o));
}

// --- events --------------------------------------------------------------------------------------------

hipError_t hipEventCreateWithFlags(hipEvent_t* out, unsigned flags) {
  ENTER;
  bool shared = flags & hipEventInterprocess;
  if (!out || (shared && !(flags & hipEventDisableTiming))) return done(hipErrorInvalidValue);
  ihipEvent_t* e = make<ihipEvent_t>();
  e->flags = flags;
  e->device = current_device();
  if (shared && !share_event(*e)) {
    free(e);
    return done(hipErrorOutOfMemory);
  }
  Guard guard;
  events.push(e);
  *out = e;
  return done(hipSuccess);
}
hipError_t hipEventCreate(hipEvent_t* out) { return hipEventCreateWithFlags(out, 0); }
hipError_t hipEventDestroy(hipEvent_t e) {
  ENTER;
  Guard guard;
  if (!events.contains(e)) return done(hipErrorInvalidHandle);
  events.drop(e);
  if (!is_done(e->queue, e->ticket)) return done(hipSuccess);  // it is still to be recorded
  unshare_event(*e);
  e->last.release();
  free(e);
  return done(hipSuccess);
}
hipError_t hipEventRecord(hipEvent_t e, hipStream_t handle) {
  ENTER;
  ihipStream_t* s = resolve(handle);
  if (!s || !known_event(e)) return done(hipErrorInvalidHandle);
  e->capture = s->capture;
  e->last.clear();
  if (s->capture) {  // other streams join the capture by waiting for this event
    for (hipGraphNode_t node : s->last) e->last.push(node);
    return done(hipSuccess);
  }
  Operation o = operation(DO_RECORD);
  o.device = s->device;
  o.record = {e, issue_shared(*e)};
  e->queue = nullptr;
  u64 ticket = 0;
  hipError_t error = enqueue(*s, handle, o, nullptr, 0, &ticket);
  e->ticket = ticket;
  e->queue = s;
  order_event(*s, *e);
  return done(error);
}
hipError_t hipEventRecordWithFlags(hipEvent_t e, hipStream_t s, unsigned) { return hipEventRecord(e, s); }
static bool happened(ihipEvent_t& e) {
  return is_done(e.queue, e.ticket) && (!e.shared || holds(shared_wait(e).value));
}
hipError_t hipStreamWaitEvent(hipStream_t handle, hipEvent_t e, unsigned) {
  ENTER;
  ihipStream_t* s = resolve(handle);
  if (!s || !known_event(e)) return done(hipErrorInvalidHandle);
  if (!e->capture) {
    if (s->capture) return done(hipErrorStreamCaptureIsolation);
    if (e->shared) lose_stream_order();
    order_after(*s, e->order);
    if (e->shared) return done(happened(*e) ? hipSuccess : enqueue(*s, handle, shared_wait(*e)));
    return done(is_done(e->queue, e->ticket) ? hipSuccess
                                             : enqueue(*s, handle, operation(DO_WAIT), e->queue, e->ticket));
  }
  if (s->capture && s->capture != e->capture) return done(hipErrorStreamCaptureMerge);
  s->capture = e->capture;
  for (hipGraphNode_t node : e->last)
    if (!s->last.contains(node)) s->last.push(node);
  return done(hipSuccess);
}
hipError_t hipEventQuery(hipEvent_t e) {
  ENTER;
  if (!known_event(e)) return done(hipErrorInvalidHandle);
  if (e->capture) return done(hipErrorCapturedEvent);
  if (!happened(*e)) return done(hipErrorNotReady);
  order_program_after(e->order.known);
  return done(hipSuccess);
}
hipError_t hipEventSynchronize(hipEvent_t e) {
  ENTER;
  if (!known_event(e)) return done(hipErrorInvalidHandle);
  if (e->capture) return done(hipErrorCapturedEvent);
  order_program_after(e->order.known);
  while (e->shared && is_done(e->queue, e->ticket) && !happened(*e)) sched_yield();  // another process's work
  return done(wait_for(e->queue, e->ticket));
}
hipError_t hipEventElapsedTime(float* ms, hipEvent_t start, hipEvent_t stop) {
  ENTER;
  if (!ms) return done(hipErrorInvalidValue);
  if (!known_event(start) || !known_event(stop)) return done(hipErrorInvalidHandle);
  if (!is_done(start->queue, start->ticket) || !is_done(stop->queue, stop->ticket)) return done(hipErrorNotReady);
  if (!start->recorded || !stop->recorded) return done(hipErrorInvalidHandle);
  if ((start->flags | stop->flags) & hipEventDisableTiming) return done(hipErrorInvalidHandle);
  static int told = 0;
  if (!__atomic_exchange_n(&told, 1, __ATOMIC_SEQ_CST))
    say("note: times between events are this computer's, not the card's");
  *ms = (float)((double)(i64)(stop->time_ns - start->time_ns) * 1e-6);
  return done(hipSuccess);
}

hipError_t hipDeviceReset(void) {
  (void)wait_for_device(current_device());
  return done(device_lost);
}

// --- capture -------------------------------------------------------------------------------------------

static u64 next_capture_id = 1;
// graph: null for a new one.
static hipError_t begin_capture(hipStream_t handle, hipGraph_t graph, hipStreamCaptureMode mode) {
  if (mode < hipStreamCaptureModeGlobal || mode > hipStreamCaptureModeRelaxed) return hipErrorInvalidValue;
  if (!handle || handle == hipStreamLegacy) return hipErrorStreamCaptureUnsupported;
  ihipStream_t* s = resolve(handle);
  if (!s) return hipErrorInvalidHandle;
  if (s->capture) return hipErrorIllegalState;
  s->capture_to_given = graph;
  s->capture = graph;
  hipError_t error = graph ? hipSuccess : hipGraphCreate(&s->capture, 0);
  if (error != hipSuccess) return error;
  s->capture_origin = true;
  s->capture_invalid = false;
  s->id = s->id ? s->id : next_capture_id++;
  s->last.clear();
  return hipSuccess;
}
// Whether all are nodes of the graph.
static bool are_of(hipGraph_t g, const hipGraphNode_t* nodes, size_t n) {
  if (n && !nodes) return false;
  for (size_t i = 0; i < n; i++)
    if (!nodes[i] || nodes[i]->graph != g) return false;
  return true;
}
hipError_t hipStreamBeginCapture(hipStream_t handle, hipStreamCaptureMode mode) {
  CALL(begin_capture(handle, nullptr, mode));
}
hipError_t hipStreamBeginCaptureToGraph(hipStream_t handle, hipGraph_t graph, const hipGraphNode_t* needs,
                                        const hipGraphEdgeData*, size_t n, hipStreamCaptureMode mode) {
  ENTER;
  size_t nodes;
  if (hipGraphGetNodes(graph, nullptr, &nodes) != hipSuccess || !are_of(graph, needs, n))
    return done(hipErrorInvalidValue);
  hipError_t error = begin_capture(handle, graph, mode);
  for (size_t i = 0; error == hipSuccess && i < n; i++) resolve(handle)->last.push(needs[i]);
  return done(error);
}
hipError_t hipStreamUpdateCaptureDependencies(hipStream_t handle, hipGraphNode_t* nodes, size_t n, unsigned flags) {
  ENTER;
  ihipStream_t* s = resolve(handle);
  if (!s) return done(hipErrorInvalidHandle);
  if (!s->capture) return done(hipErrorIllegalState);
  if (flags > hipStreamSetCaptureDependencies || !are_of(s->capture, nodes, n)) return done(hipErrorInvalidValue);
  if (flags == hipStreamSetCaptureDependencies) {
    for (hipGraphNode_t node : s->last) node->let_go = true;
    s->last.clear();
  }
  for (size_t i = 0; i < n; i++)
    if (!s->last.contains(nodes[i])) s->last.push(nodes[i]);
  return done(hipSuccess);
}
static void leave_capture(ihipStream_t& s) {
  s.capture = nullptr;
  s.capture_origin = s.capture_invalid = false;
  s.last.clear();
}
hipError_t hipStreamEndCapture(hipStream_t handle, hipGraph_t* out) {
  ENTER;
  ihipStream_t* s = resolve(handle);
  if (!s) return done(hipErrorInvalidHandle);
  if (!out) return done(hipErrorInvalidValue);
  if (!s->capture) return done(hipErrorIllegalState);
  if (!s->capture_origin) return done(hipErrorStreamCaptureUnmatched);
  hipGraph_t graph = s->capture;
  hipError_t error = s->capture_invalid ? hipErrorStreamCaptureInvalidated : hipSuccess;
  Guard guard;
  for (hipStream_t other : streams) {
    if (other == s || other->capture != graph) continue;
    for (hipGraphNode_t node : other->last) {  // its work must have been waited for
      size_t n = 0;
      (void)hipGraphNodeGetDependentNodes(node, nullptr, &n);
      if (!n && !s->last.contains(node) && !node->let_go) error = hipErrorStreamCaptureUnjoined;
    }
    leave_capture(*other);
  }
  for (hipEvent_t e : events)
    if (e->capture == graph) e->capture = nullptr;
  leave_capture(*s);
  if (error != hipSuccess) {
    if (!s->capture_to_given) (void)hipGraphDestroy(graph);
    graph = nullptr;
  }
  *out = graph;
  return done(error);
}
hipError_t hipStreamIsCapturing(hipStream_t handle, hipStreamCaptureStatus* status) {
  GIVE_OF_STREAM(status, !s->capture          ? hipStreamCaptureStatusNone
                         : s->capture_invalid ? hipStreamCaptureStatusInvalidated
                                              : hipStreamCaptureStatusActive);
}
hipError_t hipStreamGetCaptureInfo(hipStream_t handle, hipStreamCaptureStatus* status, unsigned long long* id) {
  hipError_t error = hipStreamIsCapturing(handle, status);
  if (error == hipSuccess && id) *id = resolve(handle)->id;
  return error;
}
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t handle, hipStreamCaptureStatus* status, unsigned long long* id,
                                      hipGraph_t* graph, const hipGraphNode_t** nodes, size_t* n) {
  hipError_t error = hipStreamGetCaptureInfo(handle, status, id);
  if (error != hipSuccess) return error;
  ihipStream_t* s = resolve(handle);
  if (graph) *graph = s->capture;
  if (nodes) *nodes = s->last.items;
  if (n) *n = s->last.count;
  return error;
}
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  static thread_local hipStreamCaptureMode current = hipStreamCaptureModeGlobal;
  if (!mode || *mode > hipStreamCaptureModeRelaxed) return done(hipErrorInvalidValue);
  hipStreamCaptureMode previous = current;
  current = *mode;
  *mode = previous;
  return done(hipSuccess);
}
}
