"""`python -m cdna`: HIP programs and kernels on an emulated MI300X or MI355X, without a GPU."""

import os
import signal
import sys
from collections.abc import Callable

from .cards import ARCHS
from .commands.parser import build_parser, choose_checks, choose_schedule, source_of
from .errors import CdnaError


def until_closed(command: Callable[[], int]) -> int:
    """The exit code of a command; 141, without a word, once nobody reads what it prints (`... | head`)."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        return 128 + signal.SIGPIPE


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; its exit code."""
    return until_closed(lambda: run(argv))


def run(argv: list[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    own = words.index("--") if words[:1] in (["run"], ["profile"]) and "--" in words else len(words)
    try:
        arguments = build_parser().parse_args(words[:own])
        if arguments.command == "run":
            from .hip.orders import parse_orders, run_orders
            from .hip.run import run_program

            choose_checks(arguments.checks)
            choose_schedule(arguments.schedule)
            sources = [source_of(arguments, file) for file in arguments.files]
            if arguments.orders is not None:
                if arguments.counters or arguments.schedule or arguments.sarif or arguments.output:
                    raise CdnaError("--orders: not with --counters, --schedule, --sarif or -o")
                return run_orders(sources, words[own + 1 :], *parse_orders(arguments.orders))
            at_end = None
            if arguments.sarif is not None:
                from .commands.check import seen_to

                at_end = seen_to(arguments.sarif, str(arguments.files[0]))
            return run_program(sources, words[own + 1 :], arguments.counters, arguments.output, at_end)
        if arguments.command == "profile":
            from .commands.profile import profile

            return profile(arguments, words[own + 1 :], source_of, sys.stdout)
        if arguments.command == "check":
            from .commands.check import check

            return check(arguments, source_of, sys.stdout)
        if arguments.command == "debug":
            from .commands.debugger import debug

            return debug(arguments)
        if arguments.command == "compile":
            from .hip.run import compile_code_object

            compile_code_object(source_of(arguments, arguments.file), arguments.output)
            return 0
        if arguments.command == "report":
            from .commands.report import assembly_of, report

            if arguments.threads < 0 or arguments.threads > 1024:
                raise CdnaError(f"--threads {arguments.threads}: a workgroup has 1 to 1024 threads")
            arch, text = assembly_of(source_of(arguments, arguments.file))
            wrong = report(text, arch, sys.stdout, arguments.threads, arguments.dynamic_lds)
            for line in wrong:
                print(f"cdna: {line}", file=sys.stderr)
            return 1 if wrong else 0
        if arguments.command == "dump":
            from .commands.code_objects import dump

            return dump(arguments.file, arguments.arch, sys.stdout)
        if arguments.command == "launch":
            from .commands.code_objects import launch

            return launch(arguments, sys.stdout)
        if arguments.command == "coverage":
            from .commands.coverage import report as coverage_report

            return coverage_report(
                [arguments.arch] if arguments.arch else ARCHS, sys.stdout, arguments.missing, arguments.json
            )
        from .commands.doctor import doctor

        return doctor(sys.stdout)
    except CdnaError as error:
        print(f"cdna: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cdna: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
