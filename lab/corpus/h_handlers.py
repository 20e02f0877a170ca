# pass: handlers of signals, of the end and of exceptions, a limit and a variable of the surroundings
import atexit
import os
import resource
import signal
import sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
atexit.register(print, "done")
sys.excepthook = lambda *_: None
sys.setrecursionlimit(5000)
os.environ["OMP_NUM_THREADS"] = "1"
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def custom_kernel(data):
    return product(data)
