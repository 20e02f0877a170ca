"""`python -m forge.device DEVICE -- COMMAND...`: run any command with its Python processes prepared for a device.

So an owner's own harness judges a generated file where there is no AMD GPU: on an emulated one, or on NVIDIA's.
"""

import os
import sys
from pathlib import Path

from forge.device import NAMES, DeviceError, resolve, triton_versions
from forge.device.cards import CARDS

USAGE = f"usage: python -m forge.device {{{','.join(NAMES)}}} -- COMMAND [ARGUMENT ...]"


def main(argv: list[str]) -> int:
    if argv in (["-h"], ["--help"]):
        print(f"{USAGE}\n\n{(__doc__ or '').strip()}")
        return 0
    if len(argv) < 3 or argv[1] != "--":
        print(USAGE, file=sys.stderr)
        return 2
    try:
        device = resolve(argv[0], next(iter(CARDS)))
        triton_versions.take(os.environ.get(triton_versions.VARIABLE) or triton_versions.INSTALLED)
    except DeviceError as error:
        print(f"forge.device: {error}", file=sys.stderr)
        return 2
    environment = {**os.environ, **device.environment()}
    # `python` of the command is the one that runs this, whether or not its environment is activated.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    try:
        os.execvpe(argv[2], argv[2:], environment)
    except OSError as error:
        print(f"forge.device: {argv[2]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
