"""What torch itself did in a call: its operations, the FLOPs of its products and sums, and on an emulated device what
these cannot take less than. Runs in the worker."""

import contextlib
import functools
import math
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from forge.device.pages import fresh
from forge.device.report import Kind, TorchOperation
from forge.device.roofline import Roofline
from forge.judge.results import LIBRARY, TorchWork

SUBMISSION = "submission.py"
NAMED = 5  # operations that a report names
# Of a sample: an operation of as many FLOPs, or bytes read and written, is not carried out.
LEFT_OUT_FLOPS, LEFT_OUT_BYTES = 1e9, 1 << 24
PAGES_BYTES = 1 << 20  # a larger tensor takes no memory before it is written: what is left out may not fit into any

# A product's FLOPs from its operands, by operation: (which of the arguments, the sum's length among their sizes).
PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "_scaled_mm": (0, 1), "_int_mm": (0, 1)}
PRODUCTS |= {"dot": (0, 1), "mv": (0, 1), "addmv": (1, 2), "_grouped_mm": (0, 1), "_scaled_grouped_mm": (0, 1)}

# Words in the names of others that multiply matrices: of those FLOPs their operands' sizes allow.
HEAVY = re.compile("mm|dist|linear|conv|matmul|sparse|einsum|solve|bilinear|attention|lstm|gru|rnn|transformer")
# And of others that make them of one matrix: as many as its elements meet its rows.
DENSE = re.compile("^_?linalg_(?!vector_norm)|inverse|inv_ex|cholesky|matrix_exp|_lu|lu_|qr|svd|eig|det$|householder")
FUSED = re.compile("addc|addr|lerp|index_add|rsub|norm|softmax|loss|var|std|backward")  # more than one for each number
# Words in the names of operations that only move or compare numbers.
MOVES = re.compile(
    "^(?!.*(backward|accumulate|_norm(?!al)))(.*("
    "copy|clone|(?<!s)cat|stack|index(?!_add|_reduce)|gather|scatter(?!_add|_reduce)|fill|(?<!count_non)zero|ones|full|empty|"
    "arange|sort|topk|where|repeat|roll|flip|tri[lu](_|$)|pad|rand|normal_|uniform|bernoulli|is(nan|inf|finite)|view|resize|"
    "set_|detach|(?<!soft)max|min|embedding$|item|scalar|lift|alias|one_hot|equal)|(eq|ne|l[te]|g[te])_?$)"
)

FREE_PASSES = 2  # over as many numbers as an input has bytes: honest scales, norms and activations are fewer
SPREAD = 4  # times as many elements as any operand holds: from there on a multiplication makes a product's terms


def term_flops(name: str, args: tuple[Any, ...], result: Any) -> int:
    """Of multiplications and sums, where a product is made of these; 0 of all other work on elements."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if name in ("mul", "mul_", "addcmul", "addcmul_") and tensors:
        adds = name.startswith("addcmul")
        spread = result.numel() > SPREAD * max(map(_held, tensors[adds:]))
        return (1 + adds) * int(result.numel()) if spread else 0
    if name in ("index", "_unsafe_index"):  # where each number meets each: what is looked up may be a product
        places = [x for x in args[1] if x is not None and x.dtype is not torch.bool]
        looked_up = math.prod(torch.broadcast_shapes(*(x.shape for x in places)))
        return looked_up if looked_up > SPREAD * max(map(_held, places), default=looked_up) else 0
    return tensors[0].numel() if name == "sum" and tensors else 0


def _held(tensor: torch.Tensor) -> int:
    """Its elements, those that it only repeats left out."""
    return math.prod(size for size, stride in zip(tensor.shape, tensor.stride()) if stride)


def product_flops(name: str, args: tuple[Any, ...]) -> int:
    """Of one operation; 0 of one that is no product."""
    if name in PRODUCTS and len(args) > PRODUCTS[name][1]:
        left, right = (args[place] for place in PRODUCTS[name])
        rows = math.prod(left.shape)  # all of a's elements meet each column of b
        return 2 * rows * (right.shape[-1] if right.dim() > 1 else 1)
    if "scaled_dot_product" in name and "backward" not in name and len(args) > 2:
        query, key, value = (tensor.shape for tensor in args[:3])
        return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    if name == "convolution" and len(args) > 1:
        return 2 * math.prod(args[0].shape) * math.prod(args[1].shape) // max(1, args[1].shape[1])
    if "embedding_bag" in name and len(args) > 1:
        return 2 * math.prod(args[1].shape) * args[0].shape[-1]
    if DENSE.search(name):
        return max((2 * x.numel() * x.shape[-1] for x in tensors(args) if x.dim() > 1), default=0)
    operands = [x for x in tensors(args) if x.dim() > 1] if HEAVY.search(name) else []
    if len(operands) > 1:
        rows = max(math.prod(x.shape[:-1]) for x in operands)
        return 2 * rows * min(math.prod(x.shape) for x in operands)
    return 0


def width(result: Any) -> int:
    """How many products of narrow numbers one of these holds: of eight bytes two, of complex ones four."""
    kinds = [(x.is_complex(), x.itemsize >> x.is_complex()) for x in tensors(result)]
    return max((4**complex_ * (1 + (size == 8)) for complex_, size in kinds), default=1)


def arithmetic(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """How much an operation that is no product does: as many numbers as it makes, or reads of a tensor; twice as many
    where what it makes of them is fewer, or where it multiplies and sums."""
    read = list(tensors(args))
    adds_up = "reduce" in kwargs or "index_put" in name and kwargs.get("accumulate", args[3:4] == (True,))
    if MOVES.search(name) and not adds_up or not read:
        return 0
    if name.startswith("_foreach"):
        return (1 + bool(FUSED.search(name))) * sum(x.numel() for x in tensors(args[0]))
    made, most = sum(x.numel() for x in tensors(result)), max(map(_held, read))
    twice = made < most or FUSED.search(name) or name[:3] in ("add", "sub") and "alpha" in kwargs
    return max(made, most) * (2 if twice else 1)


# Whose operations are torch's own; those of collectives; and those that read nothing of what they write to.
COLLECTIVE = ("c10d", "_c10d_functional")
OWN = ("aten", "prims", "mkldnn", "onednn", "quantized", *COLLECTIVE)
OVERWRITES = ("copy_", "zero_", "fill_", "normal_", "uniform_", "random_")
# Operations that move nothing, beside views.
EMPTY = ("empty", "new_empty")
FREE = (*EMPTY, "detach", "_local_scalar", "_unsafe_view")
# Of collectives: sums that each rank gets whole cross the links twice.
PASSES = {"allreduce": 2}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Those in an operation's arguments or its result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def bytes_of(value: Any) -> int:
    return sum(x.itemsize * _held(x) for x in tensors(value))


def kind_of(args: tuple[Any, ...]) -> str:
    """Of a product's operands, as a card's peaks have it: the widest decides."""
    widths = [x.itemsize for x in tensors(args) if x.dim() > 1]
    if any("float4" in str(x.dtype) for x in tensors(args)):
        return "fp4"
    return {1: "fp8", 2: "f16"}.get(max(widths, default=4), "f32")


def estimated_us(
    func: Any, args: tuple[Any, ...], kwargs: Any, result: Any, card: Roofline, warm: bool = False
) -> float:
    """What one operation cannot take less than; 0 of a view, and of what moves nothing."""
    namespace, _, name = func._schema.name.partition("::")
    moved = bytes_of((args, kwargs)), bytes_of(result)
    if namespace == "c10d":
        ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        whole = max(moved[1], *(bytes_of(one) for one in args), 0)
        return card.collective_us(whole, ranks, PASSES.get(name.rstrip("_"), 1))
    if flops := product_flops(name, args):
        kind = kind_of(args)
        return card.operation_us(moved, flops * (2 if kind == "fp4" else 1), kind, warm)
    return 0.0 if func.is_view or name.startswith(FREE) else card.operation_us(moved, warm=warm)


_EMPTY = torch.ops.aten.empty_strided.default  # torch.empty_strided is the emulated device's own


def unmade(like: torch.Tensor) -> torch.Tensor:
    """A tensor of a meta tensor's size, all zeros: what decides by it decides the same each time. Of a large one only
    what is written takes memory."""
    n_bytes = like.untyped_storage().nbytes()
    if n_bytes < PAGES_BYTES:
        return _EMPTY(like.size(), like.stride(), dtype=like.dtype, device="cpu").zero_()
    return torch.frombuffer(fresh(n_bytes), dtype=torch.uint8).view(like.dtype).as_strided(like.size(), like.stride())


def left_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """(Whether a sample leaves the operation out, a result like its own of which nothing is computed)."""
    namespace, _, name = func._schema.name.partition("::")
    if namespace != "aten" or func.is_view or name.startswith(FREE):
        return False, None
    own: dict[int, torch.Tensor] = {}

    def shape_of(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        meta = _EMPTY(value.size(), value.stride(), dtype=value.dtype, device="meta")
        own[id(meta)] = value
        return meta

    def like(value: Any) -> Any:  # an operation in place gives back what it was given
        if not isinstance(value, torch.Tensor):
            return value
        return own[id(value)] if id(value) in own else unmade(value)

    try:
        shapes = tree_map(shape_of, (args, kwargs))
        if shapes[1].get("device") is not None:
            shapes[1]["device"] = "meta"
        result = func(*shapes[0], **shapes[1])
        moved = bytes_of((args, kwargs)) + bytes_of(result)
        if product_flops(name, args) < LEFT_OUT_FLOPS and moved < LEFT_OUT_BYTES:
            return False, None
        return True, tree_map(like, result)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, OSError):  # its shape depends on what is computed
        return False, None


def calling_line() -> str:
    """The submission's, of the frames above: submission.py:12."""
    frame = sys._getframe(1)
    while frame is not None:
        if os.path.basename(frame.f_code.co_filename) == SUBMISSION:
            return f"{SUBMISSION}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


class Accounting(contextlib.suppress):
    """Around what counts and tells who wrote what: a call does not fail where that does, and `failed` says so."""

    failed = ""

    def __init__(self) -> None:
        super().__init__(Exception)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.failed = self.failed or (f"{kind.__name__}: {error}" if kind else "")
        return super().__exit__(kind, error, trace)


@dataclass
class Work:
    flops: int = 0
    free: float = math.inf  # numbers that arithmetic on elements may be done on: what it does on more are FLOPs
    left_out: int = 0  # operations
    left_out_flops: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    by_name: Counter[str] = field(default_factory=Counter)  # FLOPs
    places: dict[tuple[str, str], TorchOperation] = field(default_factory=dict)  # by the submission's line and name
    read: set[int] = field(default_factory=set)  # memory of the call's input, that operations have read
    made: set[int] = field(default_factory=set)  # and of what operations have made
    entered_reference: bool = False
    accounting: Accounting = field(default_factory=Accounting)

    def told(self) -> TorchWork:
        return TorchWork(
            self.flops,
            self.left_out,
            self.left_out_flops,
            dict(self.by_name.most_common(NAMED)),
            dict(self.calls.most_common(NAMED)),
            self.entered_reference,
        )

    def add_us(self, name: str, us: Callable[[bool], float], kind: Kind) -> TorchOperation | None:
        """us: of warm caches or not. None where nothing is spent."""
        cold_us, warm_us = us(False), us(True)
        if not (cold_us or warm_us):
            return None
        place = calling_line()
        one = self.places.setdefault((place, name), TorchOperation(place, name, kind))
        one.calls += 1
        one.us.cold += cold_us
        one.us.warm += warm_us
        return one

    def add_product(self, us: float, flops: int) -> None:
        """Of a library that the submission's own code calls."""
        self.calls[LIBRARY] += 1
        self.flops += flops
        self.by_name[LIBRARY] += flops
        self.add_us(LIBRARY, lambda warm: us, "products")

    def add_bytes(self, one: TorchOperation, args: Any, result: Any) -> None:
        one.read_bytes += bytes_of(args)
        one.written_bytes += bytes_of(result)
        memory = {tensor.untyped_storage().data_ptr(): bytes_of(tensor) for tensor in tensors(args)}
        given = {address: n for address, n in memory.items() if address not in self.made}
        one.again_bytes += sum(n for address, n in given.items() if address in self.read)
        self.read |= given.keys()
        self.made |= {tensor.untyped_storage().data_ptr() for tensor in tensors(result)} - self.read

    @property
    def estimates(self) -> list[TorchOperation]:
        """Of what a call's operations take: for a report, most first."""
        return sorted(self.places.values(), key=lambda one: -one.us.cold)


def _traced_by_none(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """As torch has its compiler keep off every mode's function, but for importing the compiler, which takes longer than
    importing torch: where a submission has not imported it, nothing is traced."""
    kept_off = torch._disable_dynamo(dispatch)

    @functools.wraps(dispatch)
    def dispatched(*args: Any) -> Any:
        return (kept_off if "_dynamo" in vars(torch) else dispatch)(*args)

    return dispatched


_real_device = torch._C.TensorBase.device.__get__  # not the one that an emulated GPU's tensor claims to be on


def memory_of(value: Any, writers: Any) -> list[tuple[int, int]]:
    """Addresses and bytes of the tensors in it that lie in the host's memory, as an emulated device's do."""
    with torch._C.DisableTorchFunction():
        return [
            place
            for x in tensors(value)
            if x.layout == torch.strided and _real_device(x).type == "cpu"
            for place in writers.rows(x.data_ptr(), x.itemsize, tuple(x.shape), x.stride())
        ]


class _Counting(TorchDispatchMode):
    """card: whose times are estimated; None: none. sample: large operations are not carried out. writers: who hears
    what operations read and write."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # or torch wraps the function below in its own way
        return False

    def __init__(self, work: Work, card: Roofline | None, sample: bool, writers: Any, notes: Any) -> None:
        super().__init__()
        self.work, self.card, self.sample, self.writers, self.notes = work, card, sample, writers, notes

    @_traced_by_none
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.writers is not None and (parts := _parts(func)) is not None:
            with self:  # so that what it consists of comes here
                return parts(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        with torch._C.DisableTorchFunction():  # an emulated device would take what is made here for the host's
            is_left_out, result = left_out(func, args, kwargs or {}) if self.sample else (False, None)
        if is_left_out:
            self.work.left_out += 1
            self.work.left_out_flops += product_flops(name, args)
        else:
            result = self.carry_out(func, args, kwargs or {})
        with self.work.accounting:
            self.work.calls[name] += 1
            flops = width(result) * (product_flops(name, args) or term_flops(name, args, result))
            if not flops and not func.is_view and (numbers := arithmetic(name, args, kwargs or {}, result)):
                flops = max(0, numbers - int(min(self.work.free, numbers)))
                self.work.free -= numbers - flops
            if flops:
                self.work.flops += flops
                self.work.by_name[name] += flops
            if (card := self.card) is not None:
                kind: Kind = "links" if name.startswith("c10d::") else "memory"
                kind = "products" if product_flops(name, args) else kind
                spent = self.work.add_us(name, lambda warm: estimated_us(func, args, kwargs, result, card, warm), kind)
                if spent is not None:
                    spent.flops += flops
                    self.work.add_bytes(spent, (args, kwargs), result)
        return result

    def carry_out(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Tells what an operation reads and writes."""
        namespace, _, name = func._schema.name.partition("::")
        if self.writers is None or func.is_view or name.startswith(FREE):
            result = func(*args, **kwargs)
            if self.writers is not None and name.startswith(EMPTY):
                with self.work.accounting:
                    self.writers.fresh(memory_of(result, self.writers))
            return result
        changed = changed_by(func, args, kwargs)
        with self.work.accounting:
            overwrites = name in OVERWRITES or func._overloadname == "out"
            kept = {id(x) for x in tensors(changed)} if overwrites else ()
            self.writers.read(memory_of([x for x in tensors((args, kwargs)) if id(x) not in kept], self.writers))
        result = func(*args, **kwargs)
        if self.notes is not None:
            with self.work.accounting:
                self.notes.add(func, args, kwargs, result)
        with self.work.accounting:
            # What other ranks send is there when somebody has waited for it.
            tell = self.writers.known if namespace in COLLECTIVE else self.writers.wrote
            tell(memory_of([changed, result], self.writers))
        return result


@functools.cache
def _parts(func: Any) -> Callable[..., Any] | None:
    """What carries out an operation by others: torch's own that have no kernel, and a program's."""
    keys = torch._C.DispatchKey
    if func.has_kernel_for_dispatch_key(keys.CompositeImplicitAutograd):
        return functools.partial(func._op_dk, keys.CompositeImplicitAutograd)
    if func._schema.name.partition("::")[0] in OWN:
        return None
    kernels = (key for key in (keys.CPU, keys.CompositeExplicitAutograd) if func.has_kernel_for_dispatch_key(key))
    key = next(kernels, None)
    return None if key is None else functools.partial(func._op_dk, key)


def changed_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an operation writes to."""
    named = {argument.name: value for argument, value in zip(func._schema.arguments, args)} | kwargs
    return [named.get(one.name) for one in func._schema.arguments if one.alias_info and one.alias_info.is_write]


class _Here(threading.local):
    counting: tuple[Any, ...] = ()  # of this thread: what each of its _Counting is made of


_here = _Here()


def is_submissions() -> bool:
    """Whether this thread is in a watched block, or one that no thread outside of these has started."""
    thread = threading.current_thread()
    return bool(_here.counting) or not getattr(thread, "outside", thread is threading.main_thread())


@functools.cache
def follow_threads() -> None:
    """From now on a thread counts where the one that starts it does."""
    start = threading.Thread.start

    @functools.wraps(start)
    def started(thread: Any) -> None:
        counting, begin = _here.counting, thread._bootstrap_inner
        thread.outside = not is_submissions() and not calling_line()

        def counted() -> None:
            _here.counting = counting
            with contextlib.ExitStack() as stack:
                for one in counting:
                    stack.enter_context(_Counting(*one))
                begin()

        if counting:
            thread._bootstrap_inner = counted
        start(thread)

    threading.Thread.start = started  # type: ignore[assignment, method-assign]


@contextlib.contextmanager
def watch(
    on: bool,
    card: Roofline | None = None,
    sample: bool = False,
    writers: Any = None,
    notes: Any = None,
    free: float = math.inf,
) -> Iterator[Work]:
    """Counts what torch does within the block, in this thread and in those that it starts. card: whose times are
    estimated as well. sample: its large operations are not carried out, so that what it computes is of no use. writers:
    who hears what they read and write, as cdna.memory.written does; notes: of what they were. free: see Work."""
    work = Work(free=free)
    if not on:
        yield work
        return
    follow_threads()
    before, one = _here.counting, (work, card, sample, writers, notes)
    _here.counting = (*before, one)
    try:
        with _Counting(*one):
            yield work
    finally:
        _here.counting = before


# Events of Python's that tell of work on the host, and how it is called.
HOST_WORK = {"os.fork": "a child process", "os.posix_spawn": "a child process", "subprocess.Popen": "a child process"}
HOST_WORK |= {"os.system": "a child process", "cpython.PyInterpreterState_New": "another interpreter"}
HOST_WORK |= {"ctypes.dlopen": "a library by ctypes", "ctypes.dlsym": "a library by ctypes"}


def host_work() -> Callable[[], tuple[str, ...]]:
    """What has been done on the host since the function that this returns was last called, in words."""
    seen: set[str] = set()
    sys.addaudithook(lambda event, arguments: seen.add(HOST_WORK[event]) if event in HOST_WORK else None)

    def taken() -> tuple[str, ...]:
        words = tuple(sorted(seen))
        seen.clear()
        return words

    return taken


def count_entries(module: Any, name: str, counts: Callable[[], bool] = lambda: True) -> Callable[[], int]:
    """How often a function of a module has been entered, by whatever name; counts: whether by this thread matters."""
    entered = [0]
    function = getattr(module, name, None)
    if isinstance(function, FunctionType):

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            entered[0] += counts()
            return function(*args, **kwargs)

        setattr(module, name, counted)
    return lambda: entered[0]
