"""What can go wrong on the emulated device; each message says what, where and what to do."""


class CdnaError(RuntimeError):
    """Base of every error that the emulated device reports."""


class ToolchainError(CdnaError):
    """No usable C++ compiler, or it failed."""


class NotEmulated(CdnaError, NotImplementedError):
    """Something that a card does and the emulated one does not: nothing is known of the program that asked for it."""


class UnsupportedInstruction(NotEmulated):
    """The assembly holds an instruction or an operand form that the device does not implement."""


class KernelFault(CdnaError):
    """A running kernel did something that the hardware would answer with a fault."""


class LaunchError(CdnaError):
    """A launch asks for more than the arch has, or its arguments do not fit the kernel."""


class ArgumentOverflow(LaunchError, OverflowError):
    """A number that the kernel's argument cannot hold: Triton's own launchers raise an OverflowError."""


class LaunchCancelled(CdnaError):
    """A launch was ended from outside, by `cancel()` of cdna.observe.records."""


class CompileError(ToolchainError):
    """The user's source does not compile; the message has the compiler's, with the user's file and line."""
