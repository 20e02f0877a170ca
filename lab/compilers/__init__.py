"""Reproducers of miscompilations, run with every compiler that can be had: `python -m lab.compilers`."""
