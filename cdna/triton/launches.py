"""What launches of Triton's kernels do instead, where nothing is to run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction


@contextmanager
def launches_become(launch: Callable[..., Any]) -> Iterator[None]:
    """launch(kernel, JITFunction.run, args, kwargs) in a launch's place; of an autotuned one for each configuration."""
    run, tune = JITFunction.run, Autotuner.run

    def launch_one(kernel: Any, *args: Any, **kwargs: Any) -> None:
        launch(kernel, run, args, kwargs)

    def launch_every_config(tuner: Any, *args: Any, **kwargs: Any) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, args))
        for config in tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs:
            tuner.fn.run(*args, **{**kwargs, **config.all_kwargs()})

    JITFunction.run, Autotuner.run = launch_one, launch_every_config
    try:
        yield
    finally:
        JITFunction.run, Autotuner.run = run, tune
