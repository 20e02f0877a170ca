"""Code objects (ELF): reading, decoding, launching."""
