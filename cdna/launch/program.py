"""Programs and kernels on the emulated device: assembly text in, launches out.

`Program(asm_text)` decodes a whole assembly file for its arch; `Program.kernels[name].launch(...)` runs one.
"""

import ctypes
from collections.abc import Callable

from .. import checks
from ..binary.asm import AsmFile, source_line
from ..binary.compiler_notes import warn_of
from ..binary.hazards import Hazard, find_hazards, message
from ..binary.image import ImageBuilder
from ..binary.kernel_names import demangled
from ..cards import get_card
from ..checks.launch_checks import LaunchChecks
from ..engine import abi
from ..engine.library import Launch, engine, let_interrupts_end_launches
from ..engine.settings import emulated_card, n_threads, order_seed
from ..errors import CdnaError, KernelFault, LaunchCancelled, LaunchError
from ..observe import counters, watching
from ..observe.launch_log import executed_fields
from ..observe.records import LaunchRecord, keep
from ..results import Finding

_FAULTED, _CANCELLED, _REFUSED = map(abi.constant, ("LAUNCH_FAULTED", "LAUNCH_CANCELLED", "LAUNCH_REFUSED"))


class Program:
    """A decoded assembly file, loaded."""

    def __init__(self, source: str | AsmFile) -> None:
        """source: assembly text, or what a code object was read into."""
        builder = ImageBuilder(source, engine().ops)
        image = builder.build()
        self.asm, self.arch, self.n_vgpr = builder.asm, builder.arch, builder.decoder.n_vgpr
        message = ctypes.create_string_buffer(256)
        self._handle = engine().lib.cdna_image_load(image, len(image), message)
        if not self._handle:
            raise CdnaError(message.value.decode())
        self._hazards: list[Hazard] | None = None  # those not told yet; None: not looked for
        self.kernels = {name: Kernel(self, name, number) for number, name in enumerate(self.asm.descriptors)}

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            engine().lib.cdna_program_destroy(self._handle)

    def where(self, index: int) -> str:
        """Instruction text and source line of a statement."""
        if index >= len(self.asm.statements):
            return "the end of the code"
        statement = self.asm.statements[index]
        return f"`{statement}` ({source_line(self.asm, statement)})"

    def place(self, index: int) -> tuple[str, str]:
        """(text, source line) of a statement."""
        statement = self.asm.statements[index]
        return str(statement), source_line(self.asm, statement)

    def take_hazards(self, kernel: str) -> list[Finding]:
        """Hazards in the kernel's code and in functions that it may call; each is told once. Doubts are warned of."""
        if self._hazards is None:
            self._hazards = find_hazards(self.asm, get_card(self.arch))
        mine = [hazard for hazard in self._hazards if hazard.kernel in (kernel, "")]
        self._hazards = [hazard for hazard in self._hazards if hazard not in mine]
        found = []
        for hazard in mine:
            text, other = message(hazard, self.where), self.where(hazard.first)
            if hazard.doubt:
                warn_of(demangled(kernel), self.arch, [f"{self.where(hazard.index)} {text}"])
                continue
            found.append(
                Finding(
                    "hazard", demangled(kernel), self.arch, text, *self.place(hazard.index), other_instruction=other
                )
            )
        return found


class Kernel:
    """One kernel of a program: its arguments, and how to launch it."""

    def __init__(self, program: Program, name: str, number: int) -> None:
        self.program, self.name, self._number = program, name, number
        self.readable = demangled(name)  # for messages
        self.metadata = program.asm.metadata.get(name, {})
        self.arguments: list[dict] = self.metadata.get(".args", [])
        explicit = [a for a in self.arguments if not a[".value_kind"].startswith("hidden_")]
        # Triton's launcher sets them: its code objects have no names of arguments.
        self.argument_names = [a.get(".name", "") for a in explicit]
        self.static_lds_bytes: int = self.metadata.get(".group_segment_fixed_size", 0)
        self.kernarg_bytes: int = self.metadata.get(".kernarg_segment_size", 0)

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernarg: bytes,
        dynamic_lds_bytes: int = 0,
        memory: checks.Memory | Callable[[], checks.Memory] = checks.UNKNOWN_MEMORY,
        trial: bool = False,
    ) -> LaunchRecord:
        """Run the kernel to its end.

        grid: workgroups per dimension. block: work-items of a workgroup. kernarg: the explicit arguments, laid out as
        the kernel's metadata says; hidden ones are filled in. Pointers in it are host addresses. memory: what the
        launch may touch, or a function that says so, asked only where checks want to know. trial: one of an
        autotuner's.
        KernelFault names kernel, instruction, source line, workgroup and wave; LaunchError tells what does not fit.
        """
        card = emulated_card(self.program.arch)
        executed = (ctypes.c_uint64 * len(self.program.asm.statements))()
        launch = Launch(
            groups=grid,
            block=block,
            dynamic_lds_bytes=dynamic_lds_bytes,
            n_threads=n_threads(),
            kernarg=ctypes.cast(ctypes.c_char_p(kernarg), ctypes.c_void_p),
            kernarg_bytes=len(kernarg),
            executed=executed,
            order_seed=order_seed(),
            card=engine().lib.cdna_card(card.model.encode()),
        )
        chosen = checks.settings()
        checked = None
        if chosen.kinds:
            if "hazard" in chosen.kinds:
                checks.note(self.program.take_hazards(self.name), chosen.raises)
            memory = memory() if callable(memory) else memory
            checked = LaunchChecks(engine().lib, chosen.kinds, chosen.raises, memory)
            launch.checks = checked.handle.value
        counted = counters.begin(self.name)
        if counted is not None:
            launch.observers, launch.order_seed = counted.source, 0  # a time is one of the card's order
        let_interrupts_end_launches()
        try:
            engine().lib.cdna_written_trial(trial)
            with watching.Launching(self.argument_names):
                engine().lib.cdna_launch(self.program._handle, self._number, ctypes.byref(launch))
            totals = None
            if counted is not None and not launch.status:
                totals = counted.result(
                    card.model, self.program.where, block, self.static_lds_bytes + dynamic_lds_bytes, executed
                )
        finally:
            if counted is not None:
                counted.close()
        if checked is not None:
            checked.finish(self.readable, self.program.arch, self.program.place, self.program.where)
        message = launch.message.decode(errors="replace")
        kind, _, what = message.partition(": ")
        if launch.status == _FAULTED and kind == "bounds":  # what a launch is held to without checks, too
            place, where = self.program.place(launch.fault_pc), (tuple(launch.fault_group), launch.fault_wave)
            checks.note([Finding(kind, self.readable, self.program.arch, what, *place, *where)], True)
        if launch.status == _FAULTED:
            raise KernelFault(
                f"{self.readable} on {self.program.arch}: {message}\n"
                f"  at {self.program.where(launch.fault_pc)}, workgroup {tuple(launch.fault_group)}, "
                f"wave {launch.fault_wave}"
            )
        if launch.status == _CANCELLED:
            raise LaunchCancelled(f"{self.readable} on {self.program.arch}: ended from outside")
        if launch.status == _REFUSED:
            raise LaunchError(f"{self.readable}: {message}")
        sums = abi.structure("Executed")()
        engine().lib.cdna_executed(self.program._handle, card.model.encode(), executed, ctypes.byref(sums))
        did = {**executed_fields(sums), "counters": totals, "trial": trial}
        return keep(LaunchRecord(self.name, grid, block, self.static_lds_bytes + dynamic_lds_bytes, **did))
