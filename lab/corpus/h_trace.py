# pass: a tracer and a profiler of Python's on while it works
import sys


def custom_kernel(data):
    lines = []
    sys.settrace(lambda frame, event, arg: lines.append(frame.f_lineno))
    sys.setprofile(lambda frame, event, arg: None)
    try:
        return product(data)
    finally:
        sys.settrace(None)
        sys.setprofile(None)
