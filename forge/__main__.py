"""The command `forge`: one name for all that this package does. `forge eval ...` is eval.py, `forge generate ...` is
gen_submission.py; what each prints and how it ends is the same."""

import importlib
import sys
from collections.abc import Sequence

from forge.console import EXIT_BAD_INPUT, EXIT_PASS
from forge.interpreter import have_needed, hold_signals

KEPT = ("history", "compare", "report", "import")  # of one module, which is told which
USAGE = """\
usage: forge COMMAND ...

  forge eval MODE [PROBLEM]    judge a submission (eval.py): test, benchmark, leaderboard, profile
  forge judge FILES            judge many submissions: a line of JSON each, warm, several at a time
  forge rank FILE              would the leaderboard rank it? rules, KernelGuard, tests, benchmarks, a secret run
  forge generate PROBLEM       make a submission from kernels/, or --new: one to begin from (gen_submission.py)
  forge serve                  judge what comes over HTTP
  forge mcp                    tools for agents, over the Model Context Protocol
  forge tune PROBLEM           find the best configuration (python -m forge.tune)
  forge history [PROBLEM|RUN]  the runs that were kept
  forge compare A B            two runs beside each other
  forge report [RUN|PROBLEM]   a run as one HTML page
  forge import FILE            what popcorn-cli printed of a submission
  forge completion SHELL       completions for bash, zsh or fish

examples:
  forge generate --new amd-fp8-mm --variant triton -o mine.py
  forge eval test amd-fp8-mm --submission mine.py --cases smoke
  forge compare last-1 last
  source <(forge completion bash)

forge COMMAND --help says more, forge --version which this is; exit codes are in docs/exit-codes.md.
"""


def _completion(words: list[str]) -> int:
    from forge.bulk.command import parser as of_judge
    from forge.bulk.rank import parser as of_rank
    from forge.commands.completion import main, options_of
    from forge.serve.command import parser as of_serve
    from forge.serve.mcp_command import parser as of_mcp
    from forge.tune.command import parser as of_tune

    parsers = {"tune": of_tune(), "judge": of_judge(), "rank": of_rank(), "serve": of_serve(), "mcp": of_mcp()}
    return main(words, {name: options_of(one) for name, one in parsers.items()})


# Of which module each is the `main`; no other is imported.
COMMANDS = {
    "eval": "forge.commands.eval",
    "judge": "forge.bulk.command",
    "rank": "forge.bulk.rank",
    "serve": "forge.serve.command",
    "mcp": "forge.serve.mcp_command",
    "generate": "forge.commands.generate",
    "tune": "forge.tune.command",
    **dict.fromkeys(KEPT, "forge.commands.history"),
    "completion": "forge.commands.completion",
}


def run(name: str, words: list[str]) -> int:
    if name == "completion":
        return _completion(words)
    if name == "eval":
        hold_signals()
    code: int = importlib.import_module(COMMANDS[name]).main([name, *words] if name in KEPT else words)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(USAGE, end="")
        return EXIT_PASS
    if words[:1] == ["--version"]:
        from forge.device.release import model, release

        print(f"forge {release()}, model {model()}")
        return EXIT_PASS
    if not words or words[0] not in COMMANDS:
        what = f"unknown command {words[0]!r}" if words else "which command?"
        print(f"forge: {what}: {', '.join(COMMANDS)} (forge --help says more)", file=sys.stderr)
        return EXIT_BAD_INPUT
    have_needed("forge")
    return run(words[0], words[1:])


if __name__ == "__main__":
    sys.exit(main())
