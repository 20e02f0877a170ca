#!/usr/bin/env python3
"""Generates submission.py for a problem from its kernel sources: gen_submission.py PROBLEM."""

import sys

from forge.commands.generate import main

if __name__ == "__main__":
    sys.exit(main())
