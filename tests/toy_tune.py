"""`python -m forge.tune arguments` for the problems in another folder: python tests/toy_tune.py FOLDER arguments"""

import sys
from pathlib import Path

from forge.tune import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], Path(sys.argv[1])))
