"""Kernels on the device: from code and arguments to the end of the launch."""
