#!/usr/bin/env python3
"""Judges a submission.py as the leaderboard does: eval.py test|benchmark|leaderboard|profile PROBLEM."""

import sys

from forge.interpreter import have_needed, hold_signals

if __name__ == "__main__":
    hold_signals()
    try:
        have_needed("eval.py")
        from forge.commands.eval import main

        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("eval.py: interrupted", file=sys.stderr)
        sys.exit(130)
