"""torch.cuda.CUDAGraph: what is launched during a capture is written down, not run; a replay runs it.

Three kinds of work are recorded, in the order in which they come: torch's operations (a dispatch mode sees each),
Triton launches, and what HIP extensions put on the capturing queue (the HIP runtime captures those; between two
operations of another kind its capture is cut into graphs). Outputs get their memory at the capture and their values at
the replay.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode, UnsupportedFakeTensorException
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from cdna.errors import NotEmulated
from forge.device.fake_rocm import capturing, hip, streams, tags
from forge.device.fake_rocm.capturing import refuse
from forge.device.fake_rocm.host_reads import look

# Make memory without writing it: done at the capture.
_EMPTY = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split())
_memory = torch.ops.aten.empty_strided.default  # the factory in torch would claim a device
_READ_BY_HOST = frozenset({"_local_scalar_dense", "equal", "is_nonzero"})
_pools = itertools.count(1)


def moves(tensor: torch.Tensor, tag: int) -> Any:
    """Around a copy between host and GPU: refused in a capture unless the host's memory is pinned."""
    capture = capturing.current.capture
    if capture is None or tags.tag_of(tensor) == tag:
        return tags.quiet()
    if tag == tags.CPU:
        refuse("a copy to host memory that is waited for")
    if tags.tag_of(tensor) == tags.CPU and not tags.is_pinned(tensor):
        refuse("a copy from host memory that is not pinned")
    return _OnGpu(capture)


class _OnGpu:
    """Operations within count as the GPU's, whatever tensors they read."""

    def __init__(self, capture: capturing.Capture) -> None:
        self.capture, self.quiet = capture, tags.quiet()

    def __enter__(self) -> None:
        self.capture.on_gpu += 1
        self.quiet.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self.quiet.__exit__(*exception)
        self.capture.on_gpu -= 1


class _Capture(TorchDispatchMode):
    """Records the operations of torch."""

    def __init__(self, queue: int) -> None:
        super().__init__()
        self.queue = queue
        self.work: list[Callable[[], Any]] = []
        self.kept: list[Any] = []  # memory of the graph
        self.on_gpu = 0
        self.fake = FakeTensorMode(static_shapes=True)

    def add(self, run: Callable[[], Any]) -> None:
        self.cut()
        self.work.append(run)

    def cut(self, last: bool = False) -> None:
        """Take what the HIP runtime has captured so far as one piece of work."""
        launch = hip.end_capture(self.queue)
        if launch is not None:
            self.work.append(lambda: launch(streams.current_stream().cuda_stream))
        if not last:
            hip.begin_capture(self.queue)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:  # in inference mode operations made of others come whole, those too that copy or give a view
            made_of_others = func.decompose(*args, **kwargs)
        if made_of_others is not NotImplemented:
            return made_of_others
        tensors: list[torch.Tensor] = []
        tree_map_only(torch.Tensor, tensors.append, (args, kwargs))
        name = func._schema.name.partition("::")[2]
        claims = [tags.tag_of(t) for t in tensors]
        if name == "copy_":
            self._check_copy(args, kwargs)
        elif tensors and not self.on_gpu and all(claim == tags.CPU for claim in claims):
            return func(*args, **kwargs)  # the host's own
        if name in _READ_BY_HOST:
            refuse(f"{name}: the host reads a value")
        if func.is_view:
            return func(*args, **kwargs)
        if name in _EMPTY:
            made = func(*args, **kwargs)
            self.kept.append(made)
            return made
        # A scalar of the host's goes to the GPU by value.
        args, kwargs = tree_map_only(torch.Tensor, _by_value, (args, kwargs))
        if func._schema.is_mutable:
            return self._mutate(func, args, kwargs)
        if not tensors:
            return self._make(func, args, kwargs)
        return self._compute(func, name, args, kwargs)

    @staticmethod
    def _check_copy(args: Any, kwargs: Any) -> None:
        to, source = args[:2]
        waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        claims = tags.tag_of(to), tags.tag_of(source)
        if tags.CPU not in claims or claims[0] == claims[1]:
            return
        host = to if claims[0] == tags.CPU else source
        if not tags.is_pinned(host) and not (host is source and source.dim() == 0):
            refuse("a copy from or to host memory that is not pinned")
        if host is to and waits:
            refuse("a copy to host memory that is waited for")

    def _mutate(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operation that writes to its arguments: left to the replay. It returns those arguments, or new tensors."""
        self.kept.append((args, kwargs))
        written: dict[str, Any] = {}
        for position, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = kwargs.get(argument.name, args[position] if position < len(args) else None)
                for name in argument.alias_info.before_set:
                    written[name] = value
        results = []
        for returned in func._schema.returns:
            if returned.alias_info is None:
                raise NotEmulated(f"{func}: an emulated GPU's graphs cannot capture it; run it outside of them")
            results.append(written[next(iter(returned.alias_info.before_set))])
        self.add(functools.partial(func, *args, **kwargs))
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _make(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A tensor made of numbers. Whether it is the GPU's, and so made anew by a replay, shows once it is tagged."""
        made = func(*args, **kwargs)
        self.kept.append(made)
        if isinstance(made, torch.Tensor):

            def again() -> None:
                if tags.tag_of(made) != tags.CPU:
                    made.copy_(func(*args, **kwargs))

            self.add(again)
        return made

    def _compute(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        try:
            with self.fake:
                plain, named = tree_map_only(torch.Tensor, _shape_of, (args, kwargs))
                shapes = func(*plain, **named)
        except (DynamicOutputShapeException, torch._subclasses.fake_tensor.DataDependentOutputException):
            refuse(f"{name}: the shape of its result depends on values")
        except UnsupportedFakeTensorException as error:
            raise NotEmulated(f"{name}: an emulated GPU's graphs cannot capture it: {error}") from None
        outputs: list[torch.Tensor] = []

        def memory(shape: torch.Tensor) -> torch.Tensor:
            outputs.append(_memory(shape.shape, shape.stride(), dtype=shape.dtype))
            return outputs[-1]

        result = tree_map_only(torch.Tensor, memory, shapes)
        self.kept.append((args, kwargs, outputs))

        def again() -> None:
            computed: list[torch.Tensor] = []
            tree_map_only(torch.Tensor, computed.append, func(*args, **kwargs))
            for output, value in zip(outputs, computed):
                output.copy_(value)

        self.add(again)
        return result


def _shape_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without values, in a FakeTensorMode."""
    return _memory(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tags.CPU_DEVICE)


def _by_value(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tags.tag_of(tensor) == tags.CPU and tensor.dim() == 0 else tensor


class CUDAGraph:
    """torch.cuda.CUDAGraph."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._capture: _Capture | None = None
        self._work: list[Callable[[], Any]] | None = None
        self._kept: list[Any] = []
        self._pool = (next(_pools), 0)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **options: Any) -> None:
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        if self._work is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        refuse("capture_begin")
        queue = streams.current_stream()
        if queue.stream_id == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok "
                "to replay them on the default stream.)"
            )
        self._pool = pool if pool is not None else self._pool
        self._capture = capturing.current.capture = _Capture(queue.cuda_stream)
        hip.begin_capture(self._capture.queue)
        self._capture.__enter__()

    def capture_end(self) -> None:
        capture = self._capture
        if capture is None:
            raise RuntimeError("capture_end() without capture_begin()")
        capture.__exit__(None, None, None)
        self._capture = capturing.current.capture = None
        capture.cut(last=True)
        self._work, self._kept = capture.work, capture.kept

    def instantiate(self) -> None:
        self._captured()

    def replay(self) -> None:
        work = self._captured()
        refuse("the replay of another graph")
        with torch.no_grad(), tags.quiet():
            for run in work:
                run()

    def reset(self) -> None:
        self._work, self._kept = None, []

    def pool(self) -> tuple[int, int]:
        return self._pool

    def enable_debug_mode(self) -> None:
        pass

    def debug_dump(self, debug_path: str) -> None:
        raise NotEmulated("CUDAGraph.debug_dump: an emulated GPU's graphs are not written to files")

    def raw_cuda_graph(self) -> int:
        raise NotEmulated("CUDAGraph.raw_cuda_graph: an emulated GPU's graphs are none of the HIP runtime's")

    def _captured(self) -> list[Callable[[], Any]]:
        if self._work is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        return self._work


def _waits(original: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(*args: Any, **kwargs: Any) -> Any:
        refuse(what)
        return original(*args, **kwargs)

    return wait


def apply() -> None:
    cuda = torch.cuda
    cuda.CUDAGraph = cuda.graphs.CUDAGraph = CUDAGraph
    cuda.is_current_stream_capturing = cuda.graphs.is_current_stream_capturing = capturing.active
    cuda.graph_pool_handle = cuda.graphs.graph_pool_handle = lambda: (0, next(_pools))
    cuda.graphs.graph.default_capture_stream = None
    torch._C._host_emptyCache = lambda: None
    torch._C._cuda_synchronize = _waits(torch._C._cuda_synchronize, "torch.cuda.synchronize")
    torch.Tensor.tolist = _tolist


_to_list = torch.Tensor.tolist


@functools.wraps(_to_list)
def _tolist(self: torch.Tensor) -> Any:
    if tags.tag_of(self) != tags.CPU:
        refuse("tolist: the host reads values")
        look(self, "tolist")
    with tags.quiet():
        return _to_list(self)
