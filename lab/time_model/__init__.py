"""Holds the time model against published times of kernels whose machine code is public. See lab/validation.md."""
