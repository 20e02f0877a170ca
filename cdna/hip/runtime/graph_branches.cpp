// Executes graphs, and says to the check of races (stream_order.cpp) which of their nodes come before which. Nodes of which
// each comes behind the one before, by whatever way, are a branch, and a branch is as a stream of its own.
#include "graph.h"

constexpr u32 MOST_NODES = 4096;  // of a graph whose branches are told apart

namespace {
struct Step {
  u32 branch, step;           // its branch's number in the graph, and its place there
  u32 behind[MOST_BRANCHES];  // by branch: how many of its steps have ended when this one has
};
}  // namespace

// A node goes on with a branch of which it waits for every step, so that forks one behind the other take the same
// branches again. What is beyond MOST_BRANCHES is not looked for, so each node is one there.
static u32 n_branches(List<hipGraphNode_t>& order, Step* steps) {
  u32 n = 0, n_steps[MOST_BRANCHES] = {};
  for (u32 i = 0; i < order.count; i++) {
    Step& step = steps[i];
    for (hipGraphNode_t need : order[i]->needs)
      for (u32 k = 0; k < MOST_BRANCHES; k++)
        if (steps[need->at].behind[k] > step.behind[k]) step.behind[k] = steps[need->at].behind[k];
    u32 branch = 0;
    while (branch < n && branch < MOST_BRANCHES && step.behind[branch] < n_steps[branch]) branch++;
    step.branch = branch < MOST_BRANCHES ? branch : n;
    n += step.branch == n;
    if (branch == MOST_BRANCHES) continue;
    step.step = n_steps[branch];
    step.behind[branch] = ++n_steps[branch];
  }
  return n;
}

u32 branches_of(hipGraph_t g) {
  List<hipGraphNode_t> order;
  u32 n = 0, inside = 0;
  if (in_order(g, order) && order.count <= MOST_NODES) {
    Step* steps = (Step*)calloc(order.count + 1, sizeof(Step));
    n = n_branches(order, steps);
    free(steps);
    for (hipGraphNode_t node : order)
      if (node->operation.kind == DO_GRAPH) inside += branches_of(node->operation.graph);
  }
  order.release();
  return n > 1 || inside ? n + inside : 0;
}

static void join(u64* known, const u64* other) {
  for (u32 i = 0; i < MOST_STREAMS; i++)
    if (other[i] > known[i]) known[i] = other[i];
}

// A node's own work, of which the check knows as `order_of_work` meanwhile.
static hipError_t run_node(hipGraphNode_t node, hipStream_t stream, WorkOrder* order) {
  if (node->disabled || node->operation.kind == DO_FREE) return hipSuccess;  // see hipGraphAddMemFreeNode
  hipError_t error = order ? check_moves(node->operation, *order) : hipSuccess;
  return error == hipSuccess ? run_counted(stream, node->operation) : error;
}

// What comes behind a node follows what it has waited for; who waits for an event that it has recorded follows it.
static void hand_on(const Operation& o, hipStream_t stream, u64* known) {
  if (o.kind != DO_RECORD && o.kind != DO_WAIT) return;
  StreamOrder& event = o.record.event->order;
  if (o.kind == DO_RECORD) return (void)memcpy(event.known, known, sizeof event.known);
  join(known, event.known);
  if (ihipStream_t* s = resolve(stream)) order_after(*s, event);
}

static thread_local u32 taken;   // of the stream's branches, by graphs around the one that runs and in it
static thread_local u64* outer;  // what the node that is a graph knows of

hipError_t run_graph(hipGraph_t g, hipStream_t stream) {
  List<hipGraphNode_t> order;
  if (!in_order(g, order)) {
    order.release();
    return hipErrorInvalidValue;
  }
  const WorkOrder* around = order_of_work;
  const u32 first = outer ? taken : 0;
  u64* const behind = outer;
  const bool told_apart = around && around->branches && branches_of(g);
  Step* steps = told_apart ? (Step*)calloc(order.count + 1, sizeof(Step)) : nullptr;
  u64(*ends)[MOST_STREAMS] = told_apart ? (u64(*)[MOST_STREAMS])calloc(order.count + 1, sizeof *ends) : nullptr;
  taken = first + (told_apart ? n_branches(order, steps) : 0);
  WorkOrder mine = {};
  u64 all[MOST_STREAMS] = {};
  if (around) mine = *around;
  hipError_t error = hipSuccess;
  for (u32 i = 0; i < order.count && error == hipSuccess; i++) {
    hipGraphNode_t node = order[i];
    if (told_apart) {
      mine = *around;
      for (hipGraphNode_t need : node->needs) join(mine.known, ends[need->at]);
      mine.work = order_step(mine, first + steps[i].branch, steps[i].step, mine.known);
    }
    order_of_work = around ? &mine : nullptr;
    outer = mine.known;
    error = run_node(node, stream, around ? &mine : nullptr);
    if (around) hand_on(node->operation, stream, mine.known);
    if (told_apart) memcpy(ends[i], mine.known, sizeof *ends);
    join(all, mine.known);
  }
  if (behind) join(behind, all);
  outer = behind;
  order_of_work = around;
  free(steps);
  free(ends);
  order.release();
  return error;
}
