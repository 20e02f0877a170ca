"""The names of reasons, as people read them."""

_WORDS = {  # for counters.REASONS, where the name alone does not say it
    "issue": "its own instructions",
    "operands": "waits for results",
    "vector": "vector unit taken",
    "matrix": "matrix unit taken",
    "L1": "L1's queue full",
    "memory": "waits for memory",
    "LDS": "waits for LDS",
    "scalar": "waits for scalar loads",
    "code": "instruction fetch",
}


def reason_text(reason: str) -> str:
    return _WORDS.get(reason, reason)
