"""For tests: kernels from a few lines of assembly, the pytest plugin, which instructions are tested."""
