"""How long a process waits for a peer that is gone, while a stranger works that has the peer's place in the table.

python tests/support/peer_places.py: prints the host's seconds that a wait of 0.2 s of the device's took.
"""

import os
import subprocess
import sys
import time

from tests.support.assembled import program

PLACES = 256  # device_clock.cpp's BEATS
LIMIT_TICKS = 20_000_000  # 0.2 s
ENDS_AT_ONCE = "s_nop 0"
WAITS = f"""
s_memrealtime s[4:5]
s_waitcnt lgkmcnt(0)
again:
s_sleep 10
s_memrealtime s[6:7]
s_waitcnt lgkmcnt(0)
s_sub_u32 s8, s6, s4
s_cmp_lt_u32 s8, {LIMIT_TICKS}
s_cbranch_scc1 again
"""


def launch(body: str) -> None:
    program(body).kernels["k"].launch((1, 1, 1), (64, 1, 1), b"")


def work() -> None:
    kernel = program(ENDS_AT_ONCE).kernels["k"]
    print("works", flush=True)
    while True:
        kernel.launch((1, 1, 1), (64, 1, 1), b"")


def be_a_peer_at(place: int) -> None:
    """A child in that place launches something and ends."""
    for _ in range(20 * PLACES):
        pid = os.fork()
        if pid == 0:
            if os.getpid() % PLACES == place:
                launch(ENDS_AT_ONCE)
            os._exit(0)
        os.waitpid(pid, 0)
        if pid % PLACES == place:
            return
    raise SystemExit("no child got the place")


def main() -> None:
    command = [sys.executable, __file__, "work"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "CDNA_PEERS": "others"}) as stranger:
        try:
            assert stranger.stdout is not None and stranger.stdout.readline() == b"works\n"
            launch(ENDS_AT_ONCE)
            be_a_peer_at(stranger.pid % PLACES)
            start = time.monotonic()
            launch(WAITS)
            print(time.monotonic() - start)
        finally:
            stranger.kill()


if __name__ == "__main__":
    work() if sys.argv[1:] else main()
