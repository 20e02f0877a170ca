"""Symmetric heap: GPU memory of every rank of a process group, mapped by all of them.

`symmetric_heap().region(key, size_bytes)` gives the same piece of memory on every rank and the addresses at which this
process reaches all copies. Memory is fine-grained on AMD, so that what a peer writes is seen by a kernel that is
running. Handles travel once per region through the process group's store: nothing touches a GPU's queue for it, and a
rank that does not come is named after a bounded time. docs/symmetric-heap.md has the protocol and the costs.
"""

import atexit
import ctypes
import json
import math
import os
import socket
import sys
import time
import weakref

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

PAGE_BYTES = 4096
# Smaller allocations may share a block with others, and a handle then opens the whole block.
HEAP_GRANULE_BYTES = 2 << 20
HANDLE_BYTES = 64


class HeapError(RuntimeError):
    """What kept the ranks from sharing memory; raised on every rank, naming the rank and the cause."""


def seconds_of(variable, default):
    """What an environment variable sets in seconds. HeapError where it sets nothing that can be waited for."""
    text = os.environ.get(variable, default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise HeapError(f"${variable} must be a number of seconds above 0, got {text!r}")
    return seconds


def heap_timeout_s():
    """Seconds that a kernel waits for a peer before it gives up."""
    return seconds_of("SYMMETRIC_HEAP_TIMEOUT_S", "20")


def creation_timeout_s():
    """Seconds that the host waits for a rank which is to make a region, too: that may still be compiling."""
    return seconds_of("SYMMETRIC_HEAP_CREATION_S", "60")


def process_is_there(pid):
    """Whether a process of this machine runs; one that ended and that nobody has asked about yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


# ---------------------------------------------------------------- the runtime library


class IpcHandle(ctypes.Structure):
    """hipIpcMemHandle_t and cudaIpcMemHandle_t: passed by value."""

    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


def runtime_library_path():
    """Path of the HIP or CUDA runtime that torch has loaded into this process, else names to ask the loader for."""
    stem = "libamdhip64" if torch.version.hip else "libcudart"
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip().partition("/")[2]
            name = path.rpartition("/")[2]
            if name.startswith(stem) and ".so" in name:
                return ["/" + path]
    versions = (".7", ".6", "") if torch.version.hip else (".13", ".12", "")
    return [f"{stem}.so{version}" for version in versions]


class GpuRuntime:
    """What the heap needs of the HIP or CUDA runtime and torch does not offer. Keeps count of what it gave out."""

    def __init__(self):
        self.prefix = "hip" if torch.version.hip else "cuda"
        for path in runtime_library_path():
            try:
                self.library = ctypes.CDLL(path)
                break
            except OSError as error:
                problem = error
        else:
            raise HeapError(f"cannot load the GPU runtime library: {problem}")
        self.function("GetErrorString").restype = ctypes.c_char_p
        self.allocated = {}  # address -> bytes
        self.opened = set()  # addresses of peers' memory

    def function(self, name):
        return getattr(self.library, self.prefix + name)

    def call(self, name, *arguments):
        code = self.function(name)(*arguments)
        if code:
            self.function("GetLastError")()  # or torch would report it at its next call
            text = self.function("GetErrorString")(code).decode(errors="replace")
            raise HeapError(f"{self.prefix}{name}: {text}")

    def allocate(self, size_bytes):
        """Zeroed device memory that peers can open: fine-grained on AMD."""
        address = ctypes.c_void_p()
        size = ctypes.c_size_t(size_bytes)
        if self.prefix == "hip":
            fine_grained = 1  # hipDeviceMallocFinegrained
            self.call("ExtMallocWithFlags", ctypes.byref(address), size, ctypes.c_uint(fine_grained))
        else:
            self.call("Malloc", ctypes.byref(address), size)
        self.allocated[address.value] = size_bytes
        self.call("Memset", address, 0, size)
        self.call("DeviceSynchronize")
        return address.value

    def free(self, address):
        self.call("Free", ctypes.c_void_p(address))
        del self.allocated[address]

    def handle(self, address):
        handle = IpcHandle()
        self.call("IpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(address))
        return ctypes.string_at(ctypes.byref(handle), HANDLE_BYTES)

    def open(self, handle):
        address = ctypes.c_void_p()
        lazy_peer_access = 1
        value = IpcHandle.from_buffer_copy(handle)
        self.call("IpcOpenMemHandle", ctypes.byref(address), value, ctypes.c_uint(lazy_peer_access))
        self.opened.add(address.value)
        return address.value

    def close(self, address):
        self.call("IpcCloseMemHandle", ctypes.c_void_p(address))
        self.opened.discard(address)

    def pinned(self, size_bytes):
        """Host memory that every GPU reaches at the same address."""
        address = ctypes.c_void_p()
        portable_mapped = ctypes.c_uint(1 | 2)
        name = "HostMalloc" if self.prefix == "hip" else "HostAlloc"
        self.call(name, ctypes.byref(address), ctypes.c_size_t(size_bytes), portable_mapped)
        ctypes.memset(address, 0, size_bytes)
        return address.value


# ---------------------------------------------------------------- the alarm


class AlarmBlock:
    """64 bytes of pinned host memory into which a GPU writes which peer it gave up waiting for, before it traps.

    u64 at 0: 0, or epoch << 32 | (peer + 1) << 16 | what, written by one store; peer -1: nobody, `what` says it all.
    u32 at 8 and 12: the kernel's own, so that one lane of all tells of it (raise_alarm), and zero before.

    Nothing watches it. The host looks at the begin of every call, when the group is destroyed and when the process
    ends; where a trap leaves no process that could look, the kernel itself has printed which peer it was.
    """

    BYTES = 64

    def __init__(self, runtime):
        self.address = runtime.pinned(self.BYTES)
        self.raised = ctypes.c_uint64.from_address(self.address)
        self.reset(0, 0.0)

    def reset(self, rank, timeout_s):
        ctypes.memset(self.address, 0, self.BYTES)
        self.rank, self.timeout_s, self.names, self.told = rank, timeout_s, {}, False

    def text(self):
        """What a kernel gave up on."""
        epoch, peer, what = self.raised.value >> 32, (self.raised.value >> 16 & 0xFFFF) - 1, self.raised.value & 0xFFFF
        name = self.names.get(what, f"wait {what}")
        if peer < 0:
            return f"rank {self.rank} gave up: {name} (epoch {epoch})"
        return f"rank {self.rank} waited {self.timeout_s:g} s for rank {peer} ({name}, epoch {epoch}): it never came"

    def refuse(self):
        """Of a call after that."""
        self.told = True
        raise HeapError(self.text())

    def tell(self):
        """On standard error, once, where no call has."""
        if self.raised.value and not self.told:
            self.told = True
            sys.stderr.write(f"symmetric heap: {self.text()}\n")
            sys.stderr.flush()


def keep_no_lines():
    """Have C's standard output keep no whole line, which a process that a trap ends would take with it."""
    library, by_lines = ctypes.CDLL(None), 1
    library.setvbuf(ctypes.c_void_p.in_dll(library, "stdout"), None, by_lines, ctypes.c_size_t(0))


# ---------------------------------------------------------------- regions


class Region:
    """The same piece of memory on every rank. `epoch` counts calls: 1, 2, 3 ..., as a 32-bit signed number."""

    def __init__(self, size_bytes, addresses, device, alarm=None):
        self.size_bytes = size_bytes
        self.alarm, self.raised = alarm, alarm.raised if alarm else ctypes.c_uint64()
        self.addresses = addresses
        self.table = torch.tensor(addresses, dtype=torch.int64, device=device)
        self.table_address = self.table.data_ptr()
        self.epoch = 0

    def next_epoch(self):
        """Number of the call that begins; HeapError where an earlier one gave up on a peer. A Triton kernel takes it
        with do_not_specialize: values such as 1 and multiples of 16 would otherwise be compiled anew, while peers
        wait."""
        if self.raised.value:
            self.alarm.refuse()
        epoch = self.epoch + 1
        self.epoch = epoch if epoch < 1 << 31 else -1 << 31
        return self.epoch


class SymmetricHeap:
    """The regions of one process group. Made by `symmetric_heap()`."""

    def __init__(self, group):
        self.group_reference = weakref.ref(group)  # a strong one would keep the group's store and port alive
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        bound = getattr(group.bound_device_id, "index", None)
        self.device_index = torch.cuda.current_device() if bound is None else bound
        self.device = torch.device("cuda", self.device_index)
        self.alone = dist.get_backend() == "fake"  # a dry run: peers and their memory do not exist
        self.regions = {}
        self.mine, self.peers = {}, {}  # by key: own allocation; peers' mappings
        self.processes = {}  # rank -> process id, of those that can be looked up here
        self.step = 0
        self.timeout_s = heap_timeout_s()
        ticks_per_s = 100_000_000 if torch.version.hip else 1_000_000_000
        self.timeout_ticks = int(self.timeout_s * ticks_per_s)
        self.alarm_address = PAGE_BYTES
        if self.alone:
            return
        # Kernels run on the current device, and a harness may leave that at 0 on every rank.
        torch.cuda.set_device(self.device_index)
        problem = None
        try:
            heap_state.begin()
            heap_state.runtime.call("SetDevice", self.device_index)
        except HeapError as error:
            problem = str(error)
        store = distributed_c10d._get_default_store()
        self.prefix = f"symmetric_heap/{store.add(f'symmetric_heap/made/{self.rank}', 1)}"
        told = {"error": problem, "pid": os.getpid()}
        messages = self.exchange(told, "to make the heap")
        self.refuse(messages, "make the heap")
        self.runtime = heap_state.runtime
        heap_state.alarm.reset(self.rank, self.timeout_s)
        self.alarm_address = heap_state.alarm.address
        here = socket.gethostname()
        self.processes = {
            rank: m["pid"] for rank, m in enumerate(messages) if m["host"] == here and process_is_there(m["pid"])
        }
        # Every rank is here, and so has closed what it had mapped of an earlier group's memory.
        heap_state.free_leftovers()
        weakref.finalize(group, self.leave).atexit = False

    def name_waits(self, names):
        """{what: text} for what is said of a peer that never came."""
        if not self.alone:
            heap_state.alarm.names.update(names)

    def region(self, key, size_bytes):
        """The region of that key, made (or made anew, larger and zeroed, with epoch 0) where needed: then collective.
        Its first address on each rank is a multiple of 4096."""
        region = self.regions.get(key)
        if region is not None and size_bytes <= region.size_bytes:
            return region
        return self.make_region(key, size_bytes)

    # ------------------------------------------------------------ collective

    def exchange(self, message, purpose):
        """Every rank's message, in order. HeapError where a rank does not come, or comes for something else."""
        self.step += 1
        keys = [f"{self.prefix}/{self.step}/{rank}" for rank in range(self.world_size)]
        message = {"host": socket.gethostname(), "purpose": purpose, **message}
        try:
            store = distributed_c10d._get_default_store()
            store.set(keys[self.rank], json.dumps(message))
            self.wait_for_ranks(store, keys, purpose)
            messages = [json.loads(store.get(key)) for key in keys]
        except HeapError:
            raise
        except RuntimeError as error:
            self.give_up(f"rank 0, which holds the process group's store, does not answer ({error})", purpose)
        self.refuse_different(messages, [" ".join(m["purpose"].split()[:2]) for m in messages], "are out of step")
        return messages

    def agree(self, purpose):
        """Collective: wait for all ranks; HeapError on each of them unless all have come for the very same.

        For "to be ready for ...": a region serves several shapes, so who finds it there has not heard of its peers'.
        """
        if not self.alone:
            messages = self.exchange({"error": None}, purpose)
            self.refuse_different(messages, [m["purpose"] for m in messages], "do not call for the same")

    def refuse_different(self, messages, values, problem):
        """Raise, with the same text on every rank, unless all values are one."""
        if len(set(values)) > 1:
            came = "; ".join(f"rank {rank} came {m['purpose']}" for rank, m in enumerate(messages))
            raise HeapError(f"the ranks {problem}: {came}")

    def wait_for_ranks(self, store, keys, purpose):
        limit_s, pause_s = creation_timeout_s(), 0.0002
        start = time.monotonic()
        while not store.check(keys):
            if pause_s >= 0.02:
                absent = [rank for rank, key in enumerate(keys) if not store.check([key])]
                for rank in absent:
                    if rank in self.processes and not process_is_there(self.processes[rank]):
                        self.give_up(f"the process of rank {rank} has ended: it does not come", purpose)
                if absent and time.monotonic() - start > limit_s:
                    self.give_up(f"waited {limit_s:g} s for rank {', '.join(map(str, absent))}", purpose)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)

    def give_up(self, problem, purpose):
        raise HeapError(f"rank {self.rank}: {problem} {purpose}")

    def refuse(self, messages, purpose):
        """Raise what any rank has to complain of."""
        wrong = [f"rank {rank}: {m['error']}" for rank, m in enumerate(messages) if m["error"]]
        if wrong:
            raise HeapError(f"cannot {purpose}: {'; '.join(wrong)}")

    def make_region(self, key, size_bytes):
        name = f"region {key!r} of {size_bytes} bytes"
        if self.alone:
            self.regions[key] = Region(size_bytes, (PAGE_BYTES,) * self.world_size, self.device)
            return self.regions[key]
        if key in self.regions:
            self.drop_region(key)
        used_bytes = max(1, -(-size_bytes // PAGE_BYTES)) * PAGE_BYTES
        granule = PAGE_BYTES if torch.version.hip and used_bytes > HEAP_GRANULE_BYTES else HEAP_GRANULE_BYTES
        total_bytes = -(-used_bytes // granule) * granule
        offset = total_bytes - used_bytes  # at the end: what writes beyond it leaves the allocation
        mine, handle, problem = None, b"", None
        try:
            mine = self.allocate(total_bytes)
            handle = self.runtime.handle(mine)
        except HeapError as error:
            problem = str(error)
        told = {"error": problem, "key": repr(key), "size_bytes": size_bytes, "handle": handle.hex()}
        peers: dict[int, int] = {}
        refused_by_all = False
        try:
            messages = self.exchange(told, f"to make {name}")
            refused_by_all = True  # if now: the same on every rank
            self.refuse(messages, f"make {name}")
            self.refuse_disagreement(messages, name)
            refused_by_all = False
            problem = self.open_peers(messages, peers)
            self.refuse(self.exchange({"error": problem}, f"to open {name}"), f"make {name}")
        except HeapError:
            for address in peers.values():
                self.runtime.close(address)
            if mine is not None:
                heap_state.leftovers.append(mine)  # a peer may have it open, or come late and open it
            if refused_by_all:
                heap_state.free_leftovers()
            raise
        addresses = [mine if rank == self.rank else peers[rank] for rank in range(self.world_size)]
        self.mine[key], self.peers[key] = mine, peers
        where = tuple(address + offset for address in addresses)
        self.regions[key] = Region(size_bytes, where, self.device, heap_state.alarm)
        return self.regions[key]

    def open_peers(self, messages, peers):
        """Map what the messages offer into `peers`, by rank. Returns what went wrong, None if nothing."""
        for rank, message in enumerate(messages):
            try:
                if rank != self.rank:
                    peers[rank] = self.runtime.open(bytes.fromhex(message["handle"]))
            except HeapError as error:
                return f"no access to the memory of rank {rank}: {error}"
        return None

    def allocate(self, size_bytes):
        self.runtime.call("SetDevice", self.device_index)
        try:
            return self.runtime.allocate(size_bytes)
        except HeapError:
            torch.cuda.empty_cache()  # torch may sit on what is missing
            return self.runtime.allocate(size_bytes)

    def refuse_disagreement(self, messages, name):
        """Raise, with the same text on every rank, where they do not ask for the same."""
        for field, what in (("key", "key"), ("size_bytes", "size in bytes"), ("host", "machine")):
            values = [message[field] for message in messages]
            if len(set(values)) > 1:
                listed = ", ".join(f"rank {rank} {value}" for rank, value in enumerate(values))
                raise HeapError(f"cannot make {name}: every rank must have the same {what}, but: {listed}")

    def drop_region(self, key):
        """Collective: close what is mapped, and free once everyone has."""
        self.close_peers(key)
        self.exchange({"error": None}, f"to give up region {key!r}")
        self.runtime.free(self.mine.pop(key))

    def close_peers(self, key):
        torch.cuda.synchronize(self.device)
        self.regions.pop(key, None)
        for address in self.peers.pop(key, {}).values():
            self.runtime.close(address)

    def leave(self):
        """Close peers' memory; own memory is freed when the ranks next meet, for a peer may not be as far."""
        heap_state.alarm.tell()
        for key in list(self.mine):
            try:
                self.close_peers(key)
            except RuntimeError:  # a GPU that trapped answers nothing any more
                pass
            heap_state.leftovers.append(self.mine.pop(key))


# ---------------------------------------------------------------- one heap a process


class HeapState:
    """Of this process: the heap of the current group, and what outlives a group."""

    heap = None

    def __init__(self):
        self.leftovers = []  # own allocations that a peer of an earlier group may still have mapped

    def begin(self):
        if not hasattr(self, "runtime"):
            self.runtime = GpuRuntime()
            self.alarm = AlarmBlock(self.runtime)
            atexit.register(lambda: self.alarm.tell())
            if torch.version.hip:  # where kernels print
                keep_no_lines()

    def free_leftovers(self):
        while self.leftovers:
            try:
                self.runtime.free(self.leftovers.pop())
            except HeapError:
                pass  # of a GPU that trapped

    def new_heap(self, group):
        if group is None:
            raise HeapError("no process group: torch.distributed.init_process_group comes first")
        if self.heap is not None and not self.heap.alone:
            self.heap.leave()
        self.heap = None
        self.heap = SymmetricHeap(group)
        return self.heap


heap_state = HeapState()


def symmetric_heap():
    """The heap of the current default process group; collective on the first call for a group."""
    heap = heap_state.heap
    group = dist.group.WORLD
    if heap is not None and heap.group_reference() is group:
        return heap
    return heap_state.new_heap(group)
