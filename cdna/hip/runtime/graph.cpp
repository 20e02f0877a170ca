// Graphs: nodes that capture or the program adds, and their execution in an order that the edges allow.
#include "graph.h"

struct hipGraphExec {
  hipGraph_t graph;  // its own copy
  unsigned long long flags;
};

static List<hipGraph_t> graphs;
static List<hipGraphExec_t> executables;

bool known(hipGraph_t g) {
  Guard guard;
  return g && graphs.contains(g);
}
bool known(hipGraphExec_t e) {
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

static Operation owned(const Operation& o) {  // with copies of what the operation refers to
  Operation copy = copy_of(o);
  if (o.kind == DO_GRAPH) copy.graph = clone(o.graph);
  return copy;
}

hipGraphNode_t node_of(hipGraph_t g, hipGraphNode_t origin) {
  for (hipGraphNode_t node : g->nodes)
    if (node->origin == origin) return node;
  return nullptr;
}

hipGraph_t clone(hipGraph_t from) {
  hipGraph_t g = new_graph();
  for (hipGraphNode_t node : from->nodes) {
    hipGraphNode_t copy = make<hipGraphNode>();
    copy->graph = g;
    copy->operation = owned(node->operation);
    copy->origin = node;
    copy->attributes = node->attributes;
    g->nodes.push(copy);
  }
  for (u32 i = 0; i < g->nodes.count; i++)
    for (hipGraphNode_t need : from->nodes[i]->needs) g->nodes[i]->needs.push(node_of(g, need));
  return g;
}

// Nodes in an order in which each follows what it needs; false if there is a cycle.
bool in_order(hipGraph_t g, List<hipGraphNode_t>& order) {
  Guard guard;
  const bool backwards = takes_last_branch_first();
  for (hipGraphNode_t node : g->nodes) node->placed = false;
  while (order.count < g->nodes.count) {
    u32 before = order.count;
    for (u64 i = 0; i < g->nodes.count; i++) {
      hipGraphNode_t node = g->nodes[backwards ? g->nodes.count - 1 - i : i];
      bool ready = !node->placed;
      for (hipGraphNode_t need : node->needs) ready = ready && need->placed;
      if (!ready) continue;
      node->placed = true;
      node->at = order.count;
      order.push(node);
    }
    if (order.count == before) return false;
  }
  return true;
}

hipError_t add(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* needs, size_t n, const Operation& o) {
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

hipError_t replace(hipGraphNode_t node, const Operation& o) {
  if (!node || node->operation.kind != o.kind) return hipErrorInvalidValue;
  if (o.kind == DO_GRAPH) (void)hipGraphDestroy(node->operation.graph);
  release_operation(node->operation);
  node->operation = o;
  return hipSuccess;
}
hipError_t replace_in(hipGraphExec_t e, hipGraphNode_t node, const Operation& o) {
  return known(e) ? replace(node_of(e->graph, node), o) : hipErrorInvalidValue;
}

extern "C" {
hipError_t hipGraphCreate(hipGraph_t* out, unsigned flags) {
  ENTER;
  if (flags) return done(hipErrorInvalidValue);
  GIVE(out, new_graph());
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
  if (!known(g)) return done(hipErrorInvalidValue);
  GIVE(out, clone(g));
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

hipError_t hipGraphAddDependencies(hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t n) {
  ENTER;
  if (!known(g) || (n && (!from || !to))) return done(hipErrorInvalidValue);
  for (size_t i = 0; i < n; i++) {
    if (!from[i] || !to[i] || from[i]->graph != g || to[i]->graph != g || to[i]->needs.contains(from[i]))
      return done(hipErrorInvalidValue);
    to[i]->needs.push(from[i]);
  }
  return done(hipSuccess);
}
hipError_t hipGraphRemoveDependencies(hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t n) {
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
  CALL(known(g) && n ? give(g->nodes, nodes, n) : hipErrorInvalidValue);
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
  CALL(node && n ? give(node->needs, nodes, n) : hipErrorInvalidValue);
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
struct NodeType {
  hipGraphNodeType type;
  const char* name;
};
static NodeType type_of(OperationKind kind) {
  switch (kind) {
    case DO_KERNEL: return {hipGraphNodeTypeKernel, "KERNEL"};
    case DO_COPY: return {hipGraphNodeTypeMemcpy, "MEMCPY"};
    case DO_FILL: return {hipGraphNodeTypeMemset, "MEMSET"};
    case DO_HOST: return {hipGraphNodeTypeHost, "HOST"};
    case DO_GRAPH: return {hipGraphNodeTypeGraph, "GRAPH"};
    case DO_RECORD: return {hipGraphNodeTypeEventRecord, "EVENT_RECORD"};
    case DO_WAIT: return {hipGraphNodeTypeWaitEvent, "EVENT_WAIT"};
    case DO_ALLOCATE: return {hipGraphNodeTypeMemAlloc, "MEM_ALLOC"};
    case DO_FREE: return {hipGraphNodeTypeMemFree, "MEM_FREE"};
    case DO_WRITE_VALUE:
    case DO_WAIT_VALUE: return {hipGraphNodeTypeBatchMemOp, "BATCH_MEM_OP"};
    case DO_NOTHING: break;
  }
  return {hipGraphNodeTypeEmpty, "EMPTY"};
}
hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* out) {
  ENTER;
  if (!node) return done(hipErrorInvalidValue);
  GIVE(out, type_of(node->operation.kind).type);
}

// --- as a picture --------------------------------------------------------------------------------------

static void draw(FILE* file, hipGraph_t g) {
  fprintf(file, "subgraph cluster_%p {\n", (void*)g);
  for (hipGraphNode_t node : g->nodes) {
    const Operation& o = node->operation;
    fprintf(file, "\"%p\" [label=\"%s", (void*)node, type_of(o.kind).name);
    const KernelInfo* kernel = o.kind == DO_KERNEL ? kernel_of(o.kernel.function, current_device()) : nullptr;
    if (kernel)
      fprintf(file, "\\n%s\\n(%u, %u, %u) x (%u, %u, %u), %u bytes", kernel->readable, o.kernel.grid.x, o.kernel.grid.y,
              o.kernel.grid.z, o.kernel.block.x, o.kernel.block.y, o.kernel.block.z, o.kernel.dynamic_lds_bytes);
    fprintf(file, "\"];\n");
    for (hipGraphNode_t need : node->needs) fprintf(file, "\"%p\" -> \"%p\";\n", (void*)need, (void*)node);
    if (o.kind == DO_GRAPH) draw(file, o.graph);
  }
  fprintf(file, "}\n");
}
hipError_t hipGraphDebugDotPrint(hipGraph_t g, const char* path, unsigned) {
  ENTER;
  if (!known(g) || !path) return done(hipErrorInvalidValue);
  FILE* file = fopen(path, "w");
  if (!file) return done(hipErrorOperatingSystem);
  fprintf(file, "digraph {\n");
  draw(file, g);
  fprintf(file, "}\n");
  return done(fclose(file) ? hipErrorOperatingSystem : hipSuccess);
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
hipError_t hipGraphInstantiate(hipGraphExec_t* out, hipGraph_t g, hipGraphNode_t* bad, char* log, size_t log_bytes) {
  if (bad) *bad = nullptr;
  if (log && log_bytes) log[0] = 0;
  return hipGraphInstantiateWithFlags(out, g, 0);
}
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* out, hipGraph_t g, hipGraphInstantiateParams* p) {
  if (!p) return done(hipErrorInvalidValue);
  hipError_t error = hipGraphInstantiateWithFlags(out, g, p->flags);
  p->errNode_out = nullptr;
  p->result_out = error == hipSuccess ? hipGraphInstantiateSuccess
                  : !out || !known(g) ? hipGraphInstantiateError
                                      : hipGraphInstantiateInvalidStructure;
  return error;
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
  if (!known(e)) return done(hipErrorInvalidValue);
  GIVE(flags, e->flags);
}
hipError_t hipGraphUpload(hipGraphExec_t e, hipStream_t) { CALL(known(e) ? hipSuccess : hipErrorInvalidValue); }
hipError_t hipGraphLaunch(hipGraphExec_t e, hipStream_t stream) {
  ENTER;
  if (!known(e)) return done(hipErrorInvalidValue);
  Operation o = operation(DO_GRAPH);
  o.graph = e->graph;
  return done(submit(stream, o));
}
hipError_t hipGraphExecUpdate(hipGraphExec_t e, hipGraph_t g, hipGraphNode_t* bad, hipGraphExecUpdateResult* result) {
  ENTER;
  if (!known(e) || !known(g)) return done(hipErrorInvalidValue);
  if (bad) *bad = nullptr;
  hipGraphExecUpdateResult verdict =
      e->graph->nodes.count == g->nodes.count ? hipGraphExecUpdateSuccess : hipGraphExecUpdateErrorTopologyChanged;
  for (u32 i = 0; i < g->nodes.count && verdict == hipGraphExecUpdateSuccess; i++) {
    hipGraphNode_t mine = e->graph->nodes[i], theirs = g->nodes[i];
    if (mine->operation.kind != theirs->operation.kind) verdict = hipGraphExecUpdateErrorNodeTypeChanged;
    else if (mine->needs.count != theirs->needs.count) verdict = hipGraphExecUpdateErrorTopologyChanged;
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
  if (!mine) return done(hipErrorInvalidValue);
  GIVE(enabled, !mine->disabled);
}
}
