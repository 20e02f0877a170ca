#!/usr/bin/env python3
"""Judges a submission.py as the leaderboard does: eval.py test|benchmark|leaderboard|profile PROBLEM."""

import sys

from forge.commands.eval import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
