"""HIP sources to machine code: one value (source.py) goes in, a library or program (build.py) comes out."""
