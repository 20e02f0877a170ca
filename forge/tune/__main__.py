"""python -m forge.tune: see command.py."""

import sys

from forge.tune.command import main

sys.exit(main(sys.argv[1:]))
