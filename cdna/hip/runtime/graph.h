// What the parts of graphs share.
#pragma once
#include "runtime.h"

struct ihipGraph {
  List<hipGraphNode_t> nodes;
};

bool known(hipGraph_t);
bool known(hipGraphExec_t);
hipGraph_t clone(hipGraph_t);
bool in_order(hipGraph_t, List<hipGraphNode_t>& order);     // each node behind what it needs; false: there is a cycle
hipGraphNode_t node_of(hipGraph_t, hipGraphNode_t origin);  // null: none was made of it
// These take over the operation: a new node; a node's new parameters, in a graph or in what an executable made of it.
hipError_t add(hipGraphNode_t* out, hipGraph_t, const hipGraphNode_t* needs, size_t n, const Operation&);
hipError_t replace(hipGraphNode_t, const Operation&);
hipError_t replace_in(hipGraphExec_t, hipGraphNode_t, const Operation&);
