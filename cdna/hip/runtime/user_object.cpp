// User objects: what a program wants to keep as long as somebody, a graph for one, holds a reference to it.
#include "graph.h"

struct hipUserObject {
  void* data;
  hipHostFn_t destroy;
  u64 count;
};
static List<hipUserObject_t> objects;

// Programs release objects that are gone, and more references than there are: HIP lets them.
static void change(hipUserObject_t object, i64 by) {
  {
    Guard guard;
    if (!objects.contains(object)) return;
    if (by > 0 || object->count > (u64)-by) {
      object->count += by;
      return;
    }
    objects.drop(object);
  }
  object->destroy(object->data);
  free(object);
}

void retain_objects_of(ihipGraph& from, ihipGraph& copy) {
  for (ObjectReferences& r : from.objects) {
    change(r.object, r.count);
    copy.objects.push(r);
  }
}
void release_objects(ihipGraph& g) {
  for (ObjectReferences& r : g.objects) change(r.object, -(i64)r.count);
  g.objects.release();
}

extern "C" {
hipError_t hipUserObjectCreate(hipUserObject_t* out, void* data, hipHostFn_t destroy, unsigned count, unsigned flags) {
  ENTER;
  if (!out || !destroy || !count || count > 0x7fffffff || flags != hipUserObjectNoDestructorSync)
    return done(hipErrorInvalidValue);
  hipUserObject_t object = make<hipUserObject>();
  *object = {data, destroy, count};
  Guard guard;
  objects.push(object);
  *out = object;
  return done(hipSuccess);
}
static hipError_t changed(hipUserObject_t object, unsigned count, int sign) {
  if (!object || !count || count > 0x7fffffff) return hipErrorInvalidValue;
  change(object, sign * (i64)count);
  return hipSuccess;
}
hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned count) {
  ENTER;
  return done(changed(object, count, 1));
}
hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned count) {
  ENTER;
  return done(changed(object, count, -1));
}
hipError_t hipGraphRetainUserObject(hipGraph_t g, hipUserObject_t object, unsigned count, unsigned flags) {
  ENTER;
  if (!known(g) || !object || !count || count > 0x7fffffff || (flags && flags != hipGraphUserObjectMove))
    return done(hipErrorInvalidValue);
  if (!flags) change(object, count);  // else the caller's references become the graph's
  Guard guard;
  g->objects.push({object, count});
  return done(hipSuccess);
}
hipError_t hipGraphReleaseUserObject(hipGraph_t g, hipUserObject_t object, unsigned count) {
  ENTER;
  if (!known(g) || !object || !count || count > 0x7fffffff) return done(hipErrorInvalidValue);
  u32 released = 0;
  {
    Guard guard;
    for (ObjectReferences& r : g->objects) {
      if (r.object != object) continue;
      u32 n = count - released < r.count ? count - released : r.count;
      r.count -= n;
      released += n;
    }
  }
  if (released) change(object, -(i64)released);
  return done(hipSuccess);
}
}
