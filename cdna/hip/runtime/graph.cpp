// Graphs: nodes that capture or the program adds, and their execution in an order that the edges allow.
#include "runtime.h"

struct ihipGraph {
  List<hipGraphNode_t> nodes;
};
struct hipGraphExec {
  hipGraph_t graph;  // its own copy
  unsigned long long flags;
};

static List<hipGraph_t> graphs;
static List<hipGraphExec_t> executables;

static bool known(hipGraph_t g) {
  Guard guard;
  return g && graphs.contains(g);
}
static bool known(hipGraphExec_t e) {
  Guard guard;
  return e && executables.contains(e);
}

static hipGraph_t new_graph() {
  hipGraph_t g = make<ihipGraph>();
  Guard guard;
  graphs.push(g);
  return g;
}

static void delete_node(hipGraphNode_t node) {
  if (node->operation.kind == DO_GRAPH) (void)hipGraphDestroy(node->operation.graph);
  release_operation(node->operation);
  node->needs.release();
  free(node);
}

static hipGraph_t clone(hipGraph_t from);

static Operation owned(const Operation& o) {  // with copies of what the operation refers to
  Operation copy = copy_of(o);
  if (o.kind == DO_GRAPH) copy.graph = clone(o.graph);
  return copy;
}

static hipGraphNode_t node_of(hipGraph_t g, hipGraphNode_t origin) {
  for (hipGraphNode_t node : g->nodes)
    if (node->origin == origin) return node;
  return nullptr;
}

static hipGraph_t clone(hipGraph_t from) {
  hipGraph_t g = new_graph();
  for (hipGraphNode_t node : from->nodes) {
    hipGraphNode_t copy = make<hipGraphNode>();
    copy->graph = g;
    copy->operation = owned(node->operation);
    copy->origin = node;
    g->nodes.push(copy);
  }
  for (u32 i = 0; i < g->nodes.count; i++)
    for (hipGraphNode_t need : from->nodes[i]->needs) g->nodes[i]->needs.push(node_of(g, need));
  return g;
}

// Nodes in an order in which each follows what it needs; false if there is a cycle.
static bool in_order(hipGraph_t g, List<hipGraphNode_t>& order) {
  while (order.count < g->nodes.count) {
    u32 before = order.count;
    for (hipGraphNode_t node : g->nodes) {
      if (order.contains(node)) continue;
      bool ready = true;
      for (hipGraphNode_t need : node->needs) ready = ready && order.contains(need);
      if (ready) order.push(node);
    }
    if (order.count == before) return false;
  }
  return true;
}

hipError_t run_graph(hipGraph_t g, hipStream_t stream) {
  List<hipGraphNode_t> order;
  bool fine = in_order(g, order);
  hipError_t error = fine ? hipSuccess : hipErrorInvalidValue;
  for (u32 i = 0; fine && i < order.count && error == hipSuccess; i++)
    if (!order[i]->disabled) error = run_operation(stream, order[i]->operation);
  order.release();
  return error;
}

static hipError_t add(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* needs, size_t n,
                      const Operation& o) {  // takes over o
  Guard guard;
  if (!out || !known(g) || (n && !needs)) return hipErrorInvalidValue;
  for (size_t i = 0; i < n; i++)
    if (!needs[i] || needs[i]->graph != g) return hipErrorInvalidValue;
  hipGraphNode_t node = make<hipGraphNode>();
  node->graph = g;
  node->operation = o;
  for (size_t i = 0; i < n; i++) node->needs.push(needs[i]);
  g->nodes.push(node);
  *out = node;
  return hipSuccess;
}

hipError_t capture_operation(ihipStream_t& s, const Operation& o) {
  Guard guard;
  Operation mine = owned(o);
  mine.device = s.device;
  hipGraphNode_t node;
  hipError_t error = add(&node, s.capture, s.last.items, s.last.count, mine);
  if (error != hipSuccess) return error;
  s.last.clear();
  s.last.push(node);
  return hipSuccess;
}

// New parameters of a node in a graph, or of the node that an executable made of it.
static hipError_t replace(hipGraphNode_t node, const Operation& o) {  // takes over o
  if (!node || node->operation.kind != o.kind) return hipErrorInvalidValue;
  release_operation(node->operation);
  node->operation = o;
  return hipSuccess;
}
static hipError_t replace_in(hipGraphExec_t e, hipGraphNode_t node, const Operation& o) {
  return known(e) ? replace(node_of(e->graph, node), o) : hipErrorInvalidValue;
}

static hipError_t kernel_operation(const hipKernelNodeParams* p, Operation* o) {
  if (!p) return hipErrorInvalidValue;
  hipFunction_t f = find_function(p->func);
  return f ? kernel_call(f, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams, p->extra, false, o)
           : hipErrorInvalidDeviceFunction;
}
static hipError_t memset_operation(const hipMemsetParams* p, Operation* o) {
  if (!p || !p->dst || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
    return hipErrorInvalidValue;
  *o = operation(DO_FILL);
  o->fill = {p->dst, p->value, p->elementSize, p->width * p->elementSize, p->height, 1, p->pitch, 0};
  return hipSuccess;
}
static hipError_t memcpy3d_operation(const hipMemcpy3DParms* p, Operation* o) {
  if (!p || p->srcArray || p->dstArray) return p ? hipErrorNotSupported : hipErrorInvalidValue;
  auto at = [](const hipPitchedPtr& q, const hipPos& pos) {
    return (u8*)q.ptr + pos.z * q.pitch * q.ysize + pos.y * q.pitch + pos.x;
  };
  *o = operation(DO_COPY);
  o->copy = {at(p->dstPtr, p->dstPos),
             at(p->srcPtr, p->srcPos),
             p->extent.width,
             p->extent.height,
             p->extent.depth,
             p->dstPtr.pitch,
             p->srcPtr.pitch,
             p->dstPtr.pitch * p->dstPtr.ysize,
             p->srcPtr.pitch * p->srcPtr.ysize};
  return hipSuccess;
}
static hipError_t memcpy1d_operation(void* to, const void* from, size_t bytes, Operation* o) {
  if (!to || !from || !within_allocation(to, bytes) || !within_allocation(from, bytes))
    return hipErrorInvalidValue;
  *o = copy_operation(to, from, bytes);
  return hipSuccess;
}
static hipError_t symbol_operation(const void* symbol, bool to_symbol, void* other, size_t bytes,
                                   size_t offset, Operation* o) {
  void* address;
  size_t size;
  hipError_t error = symbol_address(symbol, current_device(), &address, &size);
  if (error != hipSuccess) return error;
  if (!other || offset + bytes > size) return hipErrorInvalidValue;
  u8* p = (u8*)address + offset;
  *o = to_symbol ? copy_operation(p, other, bytes) : copy_operation(other, p, bytes);
  return hipSuccess;
}
static hipError_t host_operation(const hipHostNodeParams* p, Operation* o) {
  if (!p || !p->fn) return hipErrorInvalidValue;
  *o = operation(DO_HOST);
  o->host = {p->fn, nullptr, p->userData};
  return hipSuccess;
}
static Operation event_operation(OperationKind kind, hipEvent_t e) {
  Operation o = operation(kind);
  o.record.event = e;
  return o;
}

extern "C" {
hipError_t hipGraphCreate(hipGraph_t* out, unsigned flags) {
  ENTER;
  if (!out || flags) return done(hipErrorInvalidValue);
  *out = new_graph();
  return done(hipSuccess);
}
hipError_t hipGraphDestroy(hipGraph_t g) {
  ENTER;
  Guard guard;
  if (!known(g)) return done(hipErrorInvalidValue);
  graphs.drop(g);
  for (hipGraphNode_t node : g->nodes) delete_node(node);
  g->nodes.release();
  free(g);
  return done(hipSuccess);
}
hipError_t hipGraphClone(hipGraph_t* out, hipGraph_t g) {
  ENTER;
  if (!out || !known(g)) return done(hipErrorInvalidValue);
  *out = clone(g);
  return done(hipSuccess);
}
hipError_t hipGraphNodeFindInClone(hipGraphNode_t* out, hipGraphNode_t node, hipGraph_t g) {
  ENTER;
  if (!out || !node || !known(g)) return done(hipErrorInvalidValue);
  *out = node_of(g, node);
  return done(*out ? hipSuccess : hipErrorInvalidValue);
}
hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  ENTER;
  if (!node) return done(hipErrorInvalidValue);
  Guard guard;
  node->graph->nodes.drop(node);
  for (hipGraphNode_t other : node->graph->nodes) other->needs.drop(node);
  delete_node(node);
  return done(hipSuccess);
}

// --- edges ---------------------------------------------------------------------------------------------

hipError_t hipGraphAddDependencies(hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                   size_t n) {
  ENTER;
  if (!known(g) || (n && (!from || !to))) return done(hipErrorInvalidValue);
  for (size_t i = 0; i < n; i++) {
    if (!from[i] || !to[i] || from[i]->graph != g || to[i]->graph != g || to[i]->needs.contains(from[i]))
      return done(hipErrorInvalidValue);
    to[i]->needs.push(from[i]);
  }
  return done(hipSuccess);
}
hipError_t hipGraphRemoveDependencies(hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                      size_t n) {
  ENTER;
  if (!known(g) || (n && (!from || !to))) return done(hipErrorInvalidValue);
  for (size_t i = 0; i < n; i++) {
    if (!to[i] || !to[i]->needs.contains(from[i])) return done(hipErrorInvalidValue);
    to[i]->needs.drop(from[i]);
  }
  return done(hipSuccess);
}

// A list as HIP gives it: its length where there is no room, else what fits, the rest null.
static hipError_t give(List<hipGraphNode_t>& list, hipGraphNode_t* out, size_t* n) {
  if (out)
    for (size_t i = 0; i < *n; i++) out[i] = i < list.count ? list[(u32)i] : nullptr;
  if (!out || *n > list.count) *n = list.count;
  return hipSuccess;
}
hipError_t hipGraphGetNodes(hipGraph_t g, hipGraphNode_t* nodes, size_t* n) {
  ENTER;
  return done(known(g) && n ? give(g->nodes, nodes, n) : hipErrorInvalidValue);
}
hipError_t hipGraphGetRootNodes(hipGraph_t g, hipGraphNode_t* nodes, size_t* n) {
  ENTER;
  if (!known(g) || !n) return done(hipErrorInvalidValue);
  List<hipGraphNode_t> roots;
  for (hipGraphNode_t node : g->nodes)
    if (!node->needs.count) roots.push(node);
  (void)give(roots, nodes, n);
  roots.release();
  return done(hipSuccess);
}
hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t* nodes, size_t* n) {
  ENTER;
  return done(node && n ? give(node->needs, nodes, n) : hipErrorInvalidValue);
}
hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t* nodes, size_t* n) {
  ENTER;
  if (!node || !n) return done(hipErrorInvalidValue);
  List<hipGraphNode_t> found;
  for (hipGraphNode_t other : node->graph->nodes)
    if (other->needs.contains(node)) found.push(other);
  (void)give(found, nodes, n);
  found.release();
  return done(hipSuccess);
}
hipError_t hipGraphGetEdges(hipGraph_t g, hipGraphNode_t* from, hipGraphNode_t* to, size_t* n) {
  ENTER;
  if (!known(g) || !n || !from != !to) return done(hipErrorInvalidValue);
  size_t count = 0;
  for (hipGraphNode_t node : g->nodes)
    for (hipGraphNode_t need : node->needs) {
      if (from && count < *n) {
        from[count] = need;
        to[count] = node;
      }
      count++;
    }
  if (!from || *n > count) *n = count;
  return done(hipSuccess);
}
hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* out) {
  ENTER;
  if (!node || !out) return done(hipErrorInvalidValue);
  switch (node->operation.kind) {
    case DO_KERNEL: *out = hipGraphNodeTypeKernel; break;
    case DO_COPY: *out = hipGraphNodeTypeMemcpy; break;
    case DO_FILL: *out = hipGraphNodeTypeMemset; break;
    case DO_HOST: *out = hipGraphNodeTypeHost; break;
    case DO_GRAPH: *out = hipGraphNodeTypeGraph; break;
    case DO_RECORD: *out = hipGraphNodeTypeEventRecord; break;
    case DO_WAIT: *out = hipGraphNodeTypeWaitEvent; break;
    case DO_ALLOCATE: *out = hipGraphNodeTypeMemAlloc; break;
    case DO_FREE: *out = hipGraphNodeTypeMemFree; break;
    case DO_WRITE_VALUE:
    case DO_WAIT_VALUE: *out = hipGraphNodeTypeBatchMemOp; break;
    case DO_NOTHING: *out = hipGraphNodeTypeEmpty; break;
  }
  return done(hipSuccess);
}

// --- nodes: add, read, change in the graph, change in an executable --------------------------------------

#define NEEDS hipGraphNode_t *out, hipGraph_t g, const hipGraphNode_t *needs, size_t n
#define ADDING(MAKE)       \
  ENTER;                   \
  Operation o;             \
  hipError_t error = MAKE; \
  return done(error == hipSuccess ? add(out, g, needs, n, o) : error)
#define CHANGING(MAKE)     \
  ENTER;                   \
  Operation o;             \
  hipError_t error = MAKE; \
  return done(error == hipSuccess ? replace(node, o) : error)
#define CHANGING_IN(MAKE)  \
  ENTER;                   \
  Operation o;             \
  hipError_t error = MAKE; \
  return done(error == hipSuccess ? replace_in(e, node, o) : error)

hipError_t hipGraphAddKernelNode(NEEDS, const hipKernelNodeParams* p) { ADDING(kernel_operation(p, &o)); }
hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* p) {
  CHANGING(kernel_operation(p, &o));
}
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t e, hipGraphNode_t node,
                                           const hipKernelNodeParams* p) {
  CHANGING_IN(kernel_operation(p, &o));
}
hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams* p) {
  ENTER;
  if (!node || !p || node->operation.kind != DO_KERNEL) return done(hipErrorInvalidValue);
  const KernelCall& c = node->operation.kernel;
  *p = {c.block, nullptr,     (void*)(c.function->host ? c.function->host : c.function),
        c.grid,  c.arguments, c.dynamic_lds_bytes};
  return done(hipSuccess);
}
hipError_t hipGraphAddMemsetNode(NEEDS, const hipMemsetParams* p) { ADDING(memset_operation(p, &o)); }
hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams* p) {
  CHANGING(memset_operation(p, &o));
}
hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t e, hipGraphNode_t node, const hipMemsetParams* p) {
  CHANGING_IN(memset_operation(p, &o));
}
hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams* p) {
  ENTER;
  if (!node || !p || node->operation.kind != DO_FILL) return done(hipErrorInvalidValue);
  const FillCall& f = node->operation.fill;
  *p = {f.to, f.value_bytes, f.height, f.pitch, f.value, f.width / f.value_bytes};
  return done(hipSuccess);
}
hipError_t hipGraphAddMemcpyNode(NEEDS, const hipMemcpy3DParms* p) { ADDING(memcpy3d_operation(p, &o)); }
hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms* p) {
  CHANGING(memcpy3d_operation(p, &o));
}
hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t e, hipGraphNode_t node, hipMemcpy3DParms* p) {
  CHANGING_IN(memcpy3d_operation(p, &o));
}
hipError_t hipGraphAddMemcpyNode1D(NEEDS, void* to, const void* from, size_t bytes, hipMemcpyKind) {
  ADDING(memcpy1d_operation(to, from, bytes, &o));
}
hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* to, const void* from, size_t bytes,
                                         hipMemcpyKind) {
  CHANGING(memcpy1d_operation(to, from, bytes, &o));
}
hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t e, hipGraphNode_t node, void* to,
                                             const void* from, size_t bytes, hipMemcpyKind) {
  CHANGING_IN(memcpy1d_operation(to, from, bytes, &o));
}
hipError_t hipGraphAddMemcpyNodeToSymbol(NEEDS, const void* symbol, const void* from, size_t bytes,
                                         size_t offset, hipMemcpyKind) {
  ADDING(symbol_operation(symbol, true, (void*)from, bytes, offset, &o));
}
hipError_t hipGraphAddMemcpyNodeFromSymbol(NEEDS, void* to, const void* symbol, size_t bytes, size_t offset,
                                           hipMemcpyKind) {
  ADDING(symbol_operation(symbol, false, to, bytes, offset, &o));
}
hipError_t hipGraphAddHostNode(NEEDS, const hipHostNodeParams* p) { ADDING(host_operation(p, &o)); }
hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* p) {
  CHANGING(host_operation(p, &o));
}
hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t e, hipGraphNode_t node, const hipHostNodeParams* p) {
  CHANGING_IN(host_operation(p, &o));
}
hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams* p) {
  ENTER;
  if (!node || !p || node->operation.kind != DO_HOST) return done(hipErrorInvalidValue);
  *p = {node->operation.host.function, node->operation.host.data};
  return done(hipSuccess);
}
hipError_t hipGraphAddEmptyNode(NEEDS) {
  ENTER;
  return done(add(out, g, needs, n, operation(DO_NOTHING)));
}
hipError_t hipGraphAddEventRecordNode(NEEDS, hipEvent_t event) {
  ENTER;
  return done(event ? add(out, g, needs, n, event_operation(DO_RECORD, event)) : hipErrorInvalidValue);
}
hipError_t hipGraphAddEventWaitNode(NEEDS, hipEvent_t event) {
  ENTER;
  return done(event ? add(out, g, needs, n, event_operation(DO_WAIT, event)) : hipErrorInvalidValue);
}
hipError_t hipGraphAddChildGraphNode(NEEDS, hipGraph_t child) {
  ENTER;
  if (!known(child)) return done(hipErrorInvalidValue);
  Operation o = operation(DO_GRAPH);
  o.graph = clone(child);
  return done(add(out, g, needs, n, o));
}
hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* out) {
  ENTER;
  if (!node || !out || node->operation.kind != DO_GRAPH) return done(hipErrorInvalidValue);
  *out = node->operation.graph;
  return done(hipSuccess);
}
// The address is known when the node is added, and the memory is there from then on.
hipError_t hipGraphAddMemAllocNode(NEEDS, hipMemAllocNodeParams* p) {
  ENTER;
  if (!p || !valid_device(p->poolProps.location.id)) return done(hipErrorInvalidValue);
  hipError_t error = allocate_memory(&p->dptr, p->bytesize, hipMemoryTypeDevice, p->poolProps.location.id, 0);
  if (error != hipSuccess) return done(error);
  Operation o = operation(DO_ALLOCATE);
  o.memory = p->dptr;
  return done(add(out, g, needs, n, o));
}
// A graph may run again, and its allocations with it: their memory stays until the program ends.
hipError_t hipGraphAddMemFreeNode(NEEDS, void* p) {
  ENTER;
  Operation o = operation(DO_NOTHING);
  o.memory = p;
  return done(p ? add(out, g, needs, n, o) : hipErrorInvalidValue);
}

// --- executables ---------------------------------------------------------------------------------------

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* out, hipGraph_t g, unsigned long long flags) {
  ENTER;
  if (!out || !known(g)) return done(hipErrorInvalidValue);
  List<hipGraphNode_t> order;
  bool fine = in_order(g, order);
  order.release();
  if (!fine) return done(hipErrorInvalidValue);
  hipGraphExec_t e = make<hipGraphExec>();
  e->graph = clone(g);
  e->flags = flags;
  Guard guard;
  executables.push(e);
  *out = e;
  return done(hipSuccess);
}
hipError_t hipGraphInstantiate(hipGraphExec_t* out, hipGraph_t g, hipGraphNode_t* bad, char* log,
                               size_t log_bytes) {
  if (bad) *bad = nullptr;
  if (log && log_bytes) log[0] = 0;
  return hipGraphInstantiateWithFlags(out, g, 0);
}
hipError_t hipGraphExecDestroy(hipGraphExec_t e) {
  ENTER;
  wait_for_all();
  Guard guard;
  if (!known(e)) return done(hipErrorInvalidValue);
  executables.drop(e);
  hipError_t error = hipGraphDestroy(e->graph);
  free(e);
  return done(error);
}
hipError_t hipGraphExecGetFlags(hipGraphExec_t e, unsigned long long* flags) {
  ENTER;
  if (!known(e) || !flags) return done(hipErrorInvalidValue);
  *flags = e->flags;
  return done(hipSuccess);
}
hipError_t hipGraphUpload(hipGraphExec_t e, hipStream_t) {
  ENTER;
  return done(known(e) ? hipSuccess : hipErrorInvalidValue);
}
hipError_t hipGraphLaunch(hipGraphExec_t e, hipStream_t stream) {
  ENTER;
  if (!known(e)) return done(hipErrorInvalidValue);
  Operation o = operation(DO_GRAPH);
  o.graph = e->graph;
  return done(submit(stream, o));
}
hipError_t hipGraphExecUpdate(hipGraphExec_t e, hipGraph_t g, hipGraphNode_t* bad,
                              hipGraphExecUpdateResult* result) {
  ENTER;
  if (!known(e) || !known(g)) return done(hipErrorInvalidValue);
  if (bad) *bad = nullptr;
  hipGraphExecUpdateResult verdict = e->graph->nodes.count == g->nodes.count
                                         ? hipGraphExecUpdateSuccess
                                         : hipGraphExecUpdateErrorTopologyChanged;
  for (u32 i = 0; i < g->nodes.count && verdict == hipGraphExecUpdateSuccess; i++) {
    hipGraphNode_t mine = e->graph->nodes[i], theirs = g->nodes[i];
    if (mine->operation.kind != theirs->operation.kind)
      verdict = hipGraphExecUpdateErrorNodeTypeChanged;
    else if (mine->needs.count != theirs->needs.count)
      verdict = hipGraphExecUpdateErrorTopologyChanged;
    if (verdict != hipGraphExecUpdateSuccess && bad) *bad = theirs;
  }
  if (result) *result = verdict;
  if (verdict != hipGraphExecUpdateSuccess) return done(hipErrorGraphExecUpdateFailure);
  (void)hipGraphDestroy(e->graph);
  e->graph = clone(g);
  return done(hipSuccess);
}
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t e, hipGraphNode_t node, unsigned enabled) {
  ENTER;
  hipGraphNode_t mine = known(e) ? node_of(e->graph, node) : nullptr;
  if (!mine) return done(hipErrorInvalidValue);
  mine->disabled = !enabled;
  return done(hipSuccess);
}
hipError_t hipGraphNodeGetEnabled(hipGraphExec_t e, hipGraphNode_t node, unsigned* enabled) {
  ENTER;
  hipGraphNode_t mine = known(e) ? node_of(e->graph, node) : nullptr;
  if (!mine || !enabled) return done(hipErrorInvalidValue);
  *enabled = !mine->disabled;
  return done(hipSuccess);
}
}
