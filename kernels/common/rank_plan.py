"""Plans of a kernel between ranks: what is worked out once for a shape, and when it has to be worked out anew."""

SMALLEST_PLACE_BYTES = 1 << 20


def place_bytes_for(n_bytes):
    """The size class of what peers write in a call. Shapes of one class share a region, whose epoch counts the calls of
    all of them."""
    size = SMALLEST_PLACE_BYTES
    while size < n_bytes:
        size *= 2
    return size


class RankPlan:
    """What is the same in all calls of one shape, in one process group, by one row of the tuning table."""

    def __init__(self, heap, table_key=None, table_row=None):
        """table_row: TUNING's own object for the key, None where it has none."""
        self.heap, self.table_key, self.table_row = heap, table_key, table_row

    def __call__(self, *inputs):
        """run(*inputs), which a kernel's own class defines. HeapError names the peer where the launch only returned
        when the kernel had ended, and it gave up on one."""
        try:
            return self.run(*inputs)
        except RuntimeError:
            if self.region.raised.value:
                self.region.alarm.refuse()
            raise

    def run(self, *inputs):
        raise NotImplementedError

    def take_region(self, name, flag_bytes, place_bytes, waits):
        """Get a region: flag_bytes of flags, then a place that peers write to in even calls and one for odd calls.
        Collective. waits: {what: text} of the kernel's waits."""
        self.region = self.heap.region((name, place_bytes), flag_bytes + 2 * place_bytes)
        self.heap.name_waits(waits)
        self.places = (flag_bytes, flag_bytes + place_bytes)

    def meet(self, purpose):
        """Collective, and the last that a plan does, for peers would spin in their kernels while this rank compiles.

        HeapError on every rank unless all have come for the very same `purpose`: shapes share regions, so one that is
        there already says nothing of what the peers call for.
        """
        self.heap.agree(f"to be ready for {purpose}")


def plan_for(plans, key, heap, tuning, make):
    """The plan of `plans` that serves a call: make()'s where there is none, or one for another process group or another
    row. tuning: the variant's TUNING as it is now, for a tuner exchanges the dict itself."""
    plan = plans.get(key)
    if plan is None or plan.heap is not heap or tuning.get(plan.table_key) is not plan.table_row:
        for old in [old for old, other in plans.items() if other.heap is not heap]:
            del plans[old]
        plan = plans[key] = make()
    return plan
