"""The device in C++, and Python's way to it: its structures, how it is built and loaded, how launches run."""
