"""HIP on the emulated device: compiling programs and kernels, and what runs them."""
