// A graph's nodes: what each kind is made of, and how it is added, read and changed.
#include "graph.h"

static hipError_t kernel_operation(const hipKernelNodeParams* p, Operation* o) {
  if (!p) return hipErrorInvalidValue;
  hipFunction_t f = find_function(p->func);
  return f ? kernel_call(f, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams, p->extra, false, o)
           : hipErrorInvalidDeviceFunction;
}
static hipError_t memset_operation(const hipMemsetParams* p, Operation* o) {
  if (!p || !p->dst || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)) return hipErrorInvalidValue;
  *o = operation(DO_FILL);
  o->fill = {p->dst, p->value, p->elementSize, p->width * p->elementSize, p->height, 1, p->pitch, 0, true};
  return hipSuccess;
}
static hipError_t memcpy1d_operation(void* to, const void* from, size_t bytes, Operation* o) {
  if (!to || !from || !may_access(to, bytes, "copies to") || !may_access(from, bytes, "copies from"))
    return hipErrorInvalidValue;
  *o = copy_operation(to, from, bytes);
  return hipSuccess;
}
static hipError_t symbol_operation(const void* symbol, bool to_symbol, void* other, size_t bytes, size_t offset,
                                   Operation* o) {
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
static hipError_t event_operation(OperationKind kind, hipEvent_t e, Operation* o) {
  if (!e) return hipErrorInvalidValue;
  *o = operation(kind);
  o->record.event = e;
  return hipSuccess;
}
static hipError_t child_operation(hipGraph_t child, Operation* o) {
  if (!known(child)) return hipErrorInvalidValue;
  *o = operation(DO_GRAPH);
  o->graph = clone(child);
  return hipSuccess;
}
// The address is known when the node is added, and the memory is there from then on.
static hipError_t allocation_operation(hipMemAllocNodeParams* p, Operation* o) {
  if (!p || !valid_device(p->poolProps.location.id)) return hipErrorInvalidValue;
  if (p->accessDescCount) share_with_peers();
  hipError_t error = allocate_memory(&p->dptr, p->bytesize, hipMemoryTypeDevice, p->poolProps.location.id, 0);
  if (error != hipSuccess) return error;
  *o = operation(DO_ALLOCATE);
  o->memory = p->dptr;
  return hipSuccess;
}
// A graph may run again, and its allocations with it: their memory stays until the program ends.
static hipError_t free_operation(void* memory, Operation* o) {
  if (!memory) return hipErrorInvalidValue;
  *o = operation(DO_FREE);
  o->memory = memory;
  return hipSuccess;
}
static hipError_t any_operation(hipGraphNodeParams* p, Operation* o) {
  if (!p) return hipErrorInvalidValue;
  switch (p->type) {
    case hipGraphNodeTypeKernel: return kernel_operation(&p->kernel, o);
    case hipGraphNodeTypeMemcpy: return copy3d_operation(&p->memcpy.copyParams, o);
    case hipGraphNodeTypeMemset: return memset_operation(&p->memset, o);
    case hipGraphNodeTypeHost: return host_operation(&p->host, o);
    case hipGraphNodeTypeGraph: return child_operation(p->graph.graph, o);
    case hipGraphNodeTypeWaitEvent: return event_operation(DO_WAIT, p->eventWait.event, o);
    case hipGraphNodeTypeEventRecord: return event_operation(DO_RECORD, p->eventRecord.event, o);
    case hipGraphNodeTypeMemAlloc: return allocation_operation(&p->alloc, o);
    case hipGraphNodeTypeMemFree: return free_operation(p->free.dptr, o);
    case hipGraphNodeTypeExtSemaphoreSignal:
    case hipGraphNodeTypeExtSemaphoreWait: return hipErrorNotSupported;
    case hipGraphNodeTypeEmpty: *o = operation(DO_NOTHING); return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}
static hipError_t changed_operation(hipGraphNodeParams* p, Operation* o) {  // memory nodes stay as they are
  bool changes = p && p->type != hipGraphNodeTypeMemAlloc && p->type != hipGraphNodeTypeMemFree;
  return changes ? any_operation(p, o) : hipErrorInvalidValue;
}

extern "C" {
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
// A call about a node of a kind, as `node`, that gives something as OUT.
#define READING(KIND, OUT) \
  ENTER;                   \
  if (!node || !OUT || node->operation.kind != KIND) return done(hipErrorInvalidValue)
#define CHANGING_IN(MAKE)  \
  ENTER;                   \
  Operation o;             \
  hipError_t error = MAKE; \
  return done(error == hipSuccess ? replace_in(e, node, o) : error)

// The three calls that make a node of parameters: a new one, or one of a graph, or of what an executable made of it.
#define NODE_CALLS(ADD, SET, SET_IN, PARAMETERS, MAKE)                   \
  hipError_t ADD(NEEDS, OF PARAMETERS) { ADDING(MAKE); }                 \
  hipError_t SET(hipGraphNode_t node, OF PARAMETERS) { CHANGING(MAKE); } \
  hipError_t SET_IN(hipGraphExec_t e, hipGraphNode_t node, OF PARAMETERS) { CHANGING_IN(MAKE); }

hipError_t hipGraphAddNode(NEEDS, hipGraphNodeParams* p) { ADDING(any_operation(p, &o)); }
hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams* p) { CHANGING(changed_operation(p, &o)); }
hipError_t hipGraphExecNodeSetParams(hipGraphExec_t e, hipGraphNode_t node, hipGraphNodeParams* p) {
  CHANGING_IN(changed_operation(p, &o));
}

NODE_CALLS(hipGraphAddKernelNode, hipGraphKernelNodeSetParams, hipGraphExecKernelNodeSetParams,
           (const hipKernelNodeParams* p), kernel_operation(p, &o))
hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams* p) {
  READING(DO_KERNEL, p);
  const KernelCall& c = node->operation.kernel;
  *p = {c.block, nullptr,     (void*)(c.function->host ? c.function->host : c.function),
        c.grid,  c.arguments, c.dynamic_lds_bytes};
  return done(hipSuccess);
}
hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, hipKernelNodeAttrID which,
                                          const hipKernelNodeAttrValue* value) {
  READING(DO_KERNEL, value);
  if (which != hipKernelNodeAttributeCooperative) return done(set_attribute(node->attributes, which, *value));
  node->operation.kernel.cooperative = value->cooperative;
  return done(hipSuccess);
}
hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, hipKernelNodeAttrID which,
                                          hipKernelNodeAttrValue* value) {
  READING(DO_KERNEL, value);
  if (which != hipKernelNodeAttributeCooperative) return done(get_attribute(node->attributes, which, value));
  value->cooperative = node->operation.kernel.cooperative;
  return done(hipSuccess);
}
hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t from, hipGraphNode_t to) {
  ENTER;
  if (!from || !to || from->operation.kind != DO_KERNEL || to->operation.kind != DO_KERNEL)
    return done(hipErrorInvalidValue);
  to->attributes = from->attributes;
  to->operation.kernel.cooperative = from->operation.kernel.cooperative;
  return done(hipSuccess);
}

NODE_CALLS(hipGraphAddMemsetNode, hipGraphMemsetNodeSetParams, hipGraphExecMemsetNodeSetParams,
           (const hipMemsetParams* p), memset_operation(p, &o))
hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams* p) {
  READING(DO_FILL, p);
  const FillCall& f = node->operation.fill;
  *p = {f.to, f.value_bytes, f.height, f.pitch, f.value, f.width / f.value_bytes};
  return done(hipSuccess);
}
hipError_t hipDrvGraphAddMemsetNode(NEEDS, const hipMemsetParams* p, hipCtx_t) { ADDING(memset_operation(p, &o)); }

hipError_t hipGraphAddMemcpyNode(NEEDS, const hipMemcpy3DParms* p) { ADDING(copy3d_operation(p, &o)); }
hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms* p) {
  CHANGING(copy3d_operation(p, &o));
}
hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t e, hipGraphNode_t node, hipMemcpy3DParms* p) {
  CHANGING_IN(copy3d_operation(p, &o));
}
// As the whole of what is copied, whatever it was said to be a part of.
hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms* p) {
  READING(DO_COPY, p);
  const CopyCall& c = node->operation.copy;
  memset((void*)p, 0, sizeof *p);
  p->dstPtr = {c.to, c.to_pitch, c.width, c.to_slice / c.to_pitch};
  p->srcPtr = {(void*)c.from, c.from_pitch, c.width, c.from_slice / c.from_pitch};
  p->extent = {c.width, c.height, c.depth};
  p->kind = hipMemcpyDefault;
  return done(hipSuccess);
}
hipError_t hipDrvGraphAddMemcpyNode(NEEDS, const HIP_MEMCPY3D* p, hipCtx_t) { ADDING(copy3d_operation(p, &o)); }
NODE_CALLS(hipGraphAddMemcpyNode1D, hipGraphMemcpyNodeSetParams1D, hipGraphExecMemcpyNodeSetParams1D,
           (void* to, const void* from, size_t bytes, hipMemcpyKind), memcpy1d_operation(to, from, bytes, &o))
NODE_CALLS(hipGraphAddMemcpyNodeToSymbol, hipGraphMemcpyNodeSetParamsToSymbol, hipGraphExecMemcpyNodeSetParamsToSymbol,
           (const void* symbol, const void* from, size_t bytes, size_t offset, hipMemcpyKind),
           symbol_operation(symbol, true, (void*)from, bytes, offset, &o))
NODE_CALLS(hipGraphAddMemcpyNodeFromSymbol, hipGraphMemcpyNodeSetParamsFromSymbol,
           hipGraphExecMemcpyNodeSetParamsFromSymbol,
           (void* to, const void* symbol, size_t bytes, size_t offset, hipMemcpyKind),
           symbol_operation(symbol, false, to, bytes, offset, &o))
NODE_CALLS(hipGraphAddHostNode, hipGraphHostNodeSetParams, hipGraphExecHostNodeSetParams, (const hipHostNodeParams* p),
           host_operation(p, &o))
hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams* p) {
  READING(DO_HOST, p);
  *p = {node->operation.host.function, node->operation.host.data};
  return done(hipSuccess);
}
hipError_t hipGraphAddEmptyNode(NEEDS) { CALL(add(out, g, needs, n, operation(DO_NOTHING))); }
NODE_CALLS(hipGraphAddEventRecordNode, hipGraphEventRecordNodeSetEvent, hipGraphExecEventRecordNodeSetEvent,
           (hipEvent_t event), event_operation(DO_RECORD, event, &o))
NODE_CALLS(hipGraphAddEventWaitNode, hipGraphEventWaitNodeSetEvent, hipGraphExecEventWaitNodeSetEvent,
           (hipEvent_t event), event_operation(DO_WAIT, event, &o))
hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t* out) {
  READING(DO_RECORD, out);
  GIVE(out, node->operation.record.event);
}
hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t* out) {
  READING(DO_WAIT, out);
  GIVE(out, node->operation.record.event);
}
hipError_t hipGraphAddChildGraphNode(NEEDS, hipGraph_t child) { ADDING(child_operation(child, &o)); }
hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t e, hipGraphNode_t node, hipGraph_t child) {
  ENTER;
  if (!node || node->operation.kind != DO_GRAPH || !known(child) ||
      node->operation.graph->nodes.count != child->nodes.count)
    return done(hipErrorInvalidValue);
  CHANGING_IN(child_operation(child, &o));
}
hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* out) {
  READING(DO_GRAPH, out);
  GIVE(out, node->operation.graph);
}
hipError_t hipGraphAddMemAllocNode(NEEDS, hipMemAllocNodeParams* p) { ADDING(allocation_operation(p, &o)); }
hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams* p) {
  READING(DO_ALLOCATE, p);
  memset((void*)p, 0, sizeof *p);
  Guard guard;
  Allocation* a = find_allocation(node->operation.memory);
  p->poolProps.allocType = hipMemAllocationTypePinned;
  p->poolProps.location = {hipMemLocationTypeDevice, a ? a->device : 0};
  p->bytesize = a ? a->bytes : 0;
  p->dptr = node->operation.memory;
  return done(hipSuccess);
}
hipError_t hipGraphAddMemFreeNode(NEEDS, void* p) { ADDING(free_operation(p, &o)); }
hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void* out) {
  READING(DO_FREE, out);
  *(void**)out = node->operation.memory;
  return done(hipSuccess);
}
hipError_t hipDeviceGraphMemTrim(int device) { return done(valid_device(device) ? hipSuccess : hipErrorInvalidDevice); }
}
