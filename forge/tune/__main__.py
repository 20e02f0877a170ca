"""python -m forge.tune: see command.py."""

import sys

from forge.interpreter import have_needed

have_needed("forge.tune")
from forge.tune.command import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
