// Happens-before between waves that signal each other by flags in global memory.
//
// A wave that writes a flag hands on what it had released: its own accesses up to its last fence, those of its workgroup's
// other waves up to the barrier before that fence, and what it had acquired itself; and what those waves' own fences
// before the last barrier had released. A wave that reads the flag acquires
// that at its next fence, its workgroup's other waves at the next barrier. Within a workgroup flags need no fence: its
// waves share a cache. A read-modify-write hands on what earlier writers of the flag did, a plain store does not. Who
// writes the value that is there hands on nothing: whoever reads it may have done so before. So a flag that nobody has given
// another value in this launch is a stale one.
//
// What is handed on are stamps: a wave's accesses before a count of the launch's clock. Of stores by many lanes, which are
// data more than flags, where stamps become too many, and where other processes share the memory, only the old rule is
// asked: any release before any acquire.
#include "happens_before.h"
#include "memory/registry.h"
#include "memory/table.h"
#include "isa/lock.h"
#include <stdlib.h>

namespace {
constexpr u32 ALL_WAVES = 16, NEAR = 32;  // parts of a stamp's key, beside the waves: see key_of
constexpr u32 MOST_STAMPS = 1 << 14, MOST_FLAGS = 1 << 17, LOOKS = 256, LOOKS_OF_WAVE = 16;

u64 spread(u64 key) { return key * 0x9e3779b97f4a7c15ull >> 40; }
struct Stamp {
  u64 key;  // 0: none
  u32 time, epoch;
  bool used() const { return key; }
  bool same(const Stamp& other) const { return key == other.key; }
  u64 hash() const { return spread(key); }
};
typedef Table<Stamp> Stamps;  // the latest of each key
}  // namespace

// Of a workgroup: one wave's accesses, those of all its waves before the epoch, or one wave's for its own workgroup.
static u64 key_of(u32 group, u32 part) { return (u64)(group + 1) << 6 | part; }

static bool has(const Stamps& s, const Stamp& x) {
  const Stamp* found = s.find(x);
  return found && found->time >= x.time;
}
static void put(Stamps& s, const Stamp& x) {
  Stamp& kept = s.add(x);
  if (kept.time < x.time) kept = x;
}
static void join(Stamps& s, const Stamps& other) {
  for (const Stamp& x : other)
    if (x.used()) put(s, x);
}

namespace {
struct Flag {
  u64 address;  // 0: none
  Stamps stamps;
  bool used() const { return address; }
  bool same(const Flag& other) const { return address == other.address; }
  u64 hash() const { return spread(address); }
};
// When flags were looked at of late, in counts of the clock, and the time before that; by address.
template <u32 N> struct Looks {
  struct Look {
    u64 address;
    u32 clock, before;
  } at[N];
  Look more;  // at any of the others, no later than then
};
struct WaveOrder {
  Looks<LOOKS_OF_WAVE> looks;
  Stamps fresh;        // acquired since the last barrier
  Stamps read;         // of flags that were read since the last fence
  Stamps released;     // acquired before the last fence
  u32 time, epoch;     // of the last fence; 0: there was none
  bool no_flag_since;  // that releases; none has been read or written since
};
}  // namespace
struct Orders {
  pthread_mutex_t lock;
  Table<Flag> flags;
  volatile bool coarse;  // only the old rule
  // Per workgroup, in counts of the clock: when it last released anything, stored with many lanes, acquired.
  u32 *released, *stored, *acquired;
};
struct GroupOrder {
  Looks<LOOKS> looks;
  Stamps settled;   // acquired before the last barrier, by any wave
  Stamps released;  // by fences before the last barrier, of any wave
  Stamps read;      // of flags before it, by any wave
  WaveOrder waves[16];
  bool used;
};

Orders* orders_create(u32 n_groups) {
  Orders* o = (Orders*)calloc(1, sizeof(Orders));
  o->coarse = memory_is_lent();  // then what one workgroup tells another may go by way of other processes
  pthread_mutex_init(&o->lock, nullptr);
  o->released = (u32*)calloc(n_groups + 1, 4);
  o->stored = (u32*)calloc(n_groups + 1, 4);
  o->acquired = (u32*)calloc(n_groups + 1, 4);
  return o;
}
void orders_destroy(Orders* o) {
  if (!o) return;
  for (Flag& flag : o->flags) flag.stamps.release();
  o->flags.release();
  free(o->released);
  free(o->stored);
  free(o->acquired);
  pthread_mutex_destroy(&o->lock);
  free(o);
}
GroupOrder* group_order_create() { return (GroupOrder*)calloc(1, sizeof(GroupOrder)); }
void group_order_destroy(GroupOrder* g) {
  if (!g) return;
  g->settled.release();
  g->released.release();
  g->read.release();
  for (WaveOrder& w : g->waves) {
    w.fresh.release();
    w.read.release();
    w.released.release();
  }
  free(g);
}
void group_order_start(GroupOrder& g) {
  if (!g.used) return;
  memset((void*)&g.looks, 0, sizeof g.looks);
  g.settled.clear();
  g.released.clear();
  g.read.clear();
  for (WaveOrder& w : g.waves) {
    memset((void*)&w.looks, 0, sizeof w.looks);
    w.fresh.clear();
    w.read.clear();
    w.released.clear();
    w.time = w.epoch = 0;
    w.no_flag_since = false;
  }
  g.used = false;
}

static GroupOrder& group_order(Wave& w) { return *w.wg->check->order; }
static Orders& orders(Wave& w) { return *w.wg->check->checks->orders; }
static u32 tick(Wave& w) { return __atomic_add_fetch(&w.wg->check->checks->clock, 1, __ATOMIC_RELAXED); }
static u32 clock_of(const Wave& w) { return __atomic_load_n(&w.wg->check->checks->clock, __ATOMIC_RELAXED); }
static u32 epoch_of(const Wave& w) { return w.wg->check->epoch & 0xfff; }

void order_releases(Wave& w) {
  GroupOrder& g = group_order(w);
  WaveOrder& me = g.waves[w.id];
  g.used = true;
  me.time = tick(w);
  me.epoch = epoch_of(w);
  me.released.clear();
  join(me.released, g.settled);
  join(me.released, me.fresh);
  me.no_flag_since = true;
  orders(w).released[w.wg->linear_id] = me.time;
}

void order_acquires(Wave& w) {
  GroupOrder& g = group_order(w);
  WaveOrder& me = g.waves[w.id];
  g.used = true;
  // Of one fence that releases and acquires: what flags have told before it is handed on behind it.
  if (me.no_flag_since) {
    join(me.released, me.read);
    join(me.released, g.read);
  }
  join(me.fresh, me.read);
  join(me.fresh, g.read);
  me.read.clear();
  orders(w).acquired[w.wg->linear_id] = clock_of(w);
}

// What a wave's last fence has released.
static void hand_on(Stamps& to, const WaveOrder& wave, u32 group, u32 id) {
  if (!wave.time) return;
  put(to, {key_of(group, id), wave.time, wave.epoch});
  put(to, {key_of(group, ALL_WAVES), wave.time, wave.epoch});
  join(to, wave.released);
}

// Of an access's lanes, each dword that is not the one before it, until `visit` says no.
template <class Visit> static void each_dword(const u64* address, u64 lanes, Visit visit) {
  u64 last = 0;
  for (; lanes; lanes &= lanes - 1) {
    const u64 at = address[__builtin_ctzll(lanes)] & ~3ull;
    if (at != last && !visit(at)) return;
    last = at;
  }
}

template <class Look> static void note_look(Look& look, u32 now) {
  if (look.clock == now) return;
  look.before = look.clock;
  look.clock = now;
}

template <u32 N> static void note_looks(Looks<N>& looks, const u64* address, u64 lanes, u32 now) {
  u32 n = 0;
  each_dword(address, lanes, [&](u64 at) {
    if (++n > MOST_FLAG_LANES) {
      note_look(looks.more, now);
      return false;
    }
    auto& look = looks.at[spread(at) & (N - 1)];
    if (look.address != at) {
      if (look.clock > looks.more.clock) note_look(looks.more, look.clock);
      look = {at, 0, 0};
    }
    note_look(look, now);
    return true;
  });
}

static void note_looks(Wave& w, const u64* address, u64 lanes, u32 now) {
  GroupOrder& g = group_order(w);
  g.used = true;
  note_looks(g.looks, address, lanes, now);
  note_looks(g.waves[w.id].looks, address, lanes, now);
}

template <u32 N> static bool looked(const Looks<N>& looks, u64 address, u32 clock, bool before) {
  const auto& look = looks.at[spread(address) & (N - 1)];
  const u32 any = before ? looks.more.before : looks.more.clock, there = before ? look.before : look.clock;
  return (any && any >= clock) || (look.address == address && there >= clock && (there || !before));
}

bool order_looked(Wave& w, u64 address, u32 clock, bool near, bool before) {
  const GroupOrder& g = group_order(w);
  return near ? looked(g.waves[w.id].looks, address, clock, before) : looked(g.looks, address, clock, before);
}

// What a flag tells the wave. Under the lock.
static void hear(Wave& w, GroupOrder& g, const Flag& flag) {
  WaveOrder& me = g.waves[w.id];
  const u32 group = w.wg->linear_id;
  for (const Stamp& x : flag.stamps) {
    if (!x.used()) continue;
    bool near = x.key & NEAR;
    if (!near) {
      check_of(w).told |= x.key >> 6 != group + 1 && !has(me.read, x) && !has(me.fresh, x) && !has(g.settled, x);
      put(me.read, x);
    } else if (x.key >> 6 == group + 1) {
      put(me.fresh, x);
      u32 other = x.key & 15;
      check_of(w).seen[other] = w.wg->check->waves[other].lgkm.issued;
    }
  }
}

void order_looks(Wave& w, const u64* address, u64 lanes) { note_looks(w, address, lanes, clock_of(w)); }

void order_flag(Wave& w, const Access& x, const u64* address, u64 lanes, u64 kept) {
  // What nobody gets tells nobody anything, though what others have said before stays said.
  const bool reads = x.kind != VM_STORE && x.returns, writes = x.kind != VM_LOAD;
  Orders& o = orders(w);
  GroupOrder& g = group_order(w);
  WaveOrder& me = g.waves[w.id];
  u32 group = w.wg->linear_id, now = writes ? tick(w) : clock_of(w);
  bool wide = writes && __builtin_popcountll(lanes) > MOST_FLAG_LANES;
  if (writes) (wide ? o.stored : o.released)[group] = o.released[group] = now;
  if (reads) o.acquired[group] = now;
  if (reads) note_looks(w, address, lanes, now);
  me.no_flag_since = false;
  if (o.coarse || wide) return;
  g.used = true;
  const Lock locked(o.lock);
  each_dword(address, reads ? lanes : 0, [&](u64 at) {
    if (const Flag* flag = o.flags.find({at, {}})) hear(w, g, *flag);
    return true;
  });
  each_dword(address, writes ? lanes & ~kept : 0, [&](u64 at) {
    Flag& flag = o.flags.add({at, {}});
    if (x.kind == VM_STORE) flag.stamps.clear();
    put(flag.stamps, {key_of(group, NEAR + w.id), now, 0});
    hand_on(flag.stamps, me, group, w.id);
    join(flag.stamps, g.released);
    o.coarse |= flag.stamps.count > MOST_STAMPS || o.flags.count > MOST_FLAGS;
    return !o.coarse;
  });
}

void order_within_group(Wave& w, u32 other_wave) {
  GroupOrder& g = group_order(w);
  g.used = true;
  put(g.waves[w.id].fresh, {key_of(w.wg->linear_id, NEAR + other_wave), tick(w), 0});
  join(g.waves[w.id].fresh, g.waves[other_wave].fresh);
}

void order_barrier(Workgroup& g, bool acquires) {
  GroupOrder& order = *g.check->order;
  if (!order.used) return;
  for (u32 i = 0; i < g.n_waves; i++) {
    WaveOrder& wave = order.waves[i];
    hand_on(order.released, wave, g.linear_id, i);
    join(order.settled, wave.fresh);
    join(acquires ? order.settled : order.read, wave.read);
    wave.fresh.clear();
    wave.read.clear();
  }
}

static bool covered(const Stamps& s, u32 group, u32 wave, u32 epoch, u32 clock, bool same_group) {
  const Stamp* x = s.find({key_of(group, wave), 0, 0});
  if (x && x->time > clock) return true;
  x = s.find({key_of(group, ALL_WAVES), 0, 0});
  if (x && x->time > clock && x->epoch != epoch) return true;
  x = same_group ? s.find({key_of(group, NEAR + wave), 0, 0}) : nullptr;
  return x && x->time > clock;
}

bool happened_before(Wave& w, u32 group, u32 wave, u32 epoch, u32 clock) {
  const Orders& o = orders(w);
  const GroupOrder& g = group_order(w);
  u32 me = w.wg->linear_id;
  if (covered(g.waves[w.id].fresh, group, wave, epoch, clock, group == me)) return true;
  if (covered(g.settled, group, wave, epoch, clock, group == me)) return true;
  return (o.coarse ? o.released : o.stored)[group] > clock && o.acquired[me] > clock;
}
