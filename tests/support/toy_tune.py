"""`python -m forge.tune ARGUMENTS` for the problems in another folder: toy_tune.py FOLDER ARGUMENTS"""

import sys
from pathlib import Path

from forge.tune.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], Path(sys.argv[1])))
