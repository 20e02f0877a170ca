#!/usr/bin/env python3
"""Generates submission.py for a problem from its kernel sources: gen_submission.py PROBLEM."""

import sys

from forge.interpreter import have_needed

if __name__ == "__main__":
    have_needed("gen_submission.py")
    from forge.commands.generate import main

    sys.exit(main())
