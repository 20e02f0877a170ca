"""forge mcp: the tools of agent_tools.py over the Model Context Protocol (docs/mcp.md)."""

import argparse
import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from forge.bulk.command import options_of, pass_on
from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest
from forge.console import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_PASS, Parser, UsageError, end_on_signals
from forge.device import NAMES as DEVICE_NAMES
from forge.serve.agent_tools import ERRORS, NAMES, Tools

INSTRUCTIONS = (
    "Kernels for AMD MI300X and MI355X, judged as GPU MODE's leaderboards do, on an emulated card where there is none. "
    "Begin with new_submission, then test, benchmark, advise, compare. Modelled times are a model's, no measurement."
)
EXAMPLES = """\
examples:
  forge mcp --problem amd-fp8-mm           # on standard input and output, for a client that starts it
  claude mcp add forge -- forge mcp        # in whose configuration it stands as this command
"""


def parser() -> Parser:
    p = Parser(
        prog="forge mcp",
        description="A server of tools for agents, on standard input and output (docs/mcp.md).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    p.add_argument("--problem", default="", help="a leaderboard name, or a folder: where a call names none")
    p.add_argument("--device", default="auto", choices=DEVICE_NAMES, help="default: %(default)s")
    pass_on(p)
    return p


def server(tools: Tools) -> Any:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    made = MCPServer("cdna-forge", instructions=INSTRUCTIONS, log_level="WARNING")

    def answering(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def answer(*args: Any, **named: Any) -> str:
            try:
                return function(*args, **named)
            except ERRORS as error:
                raise ToolError(str(error)) from None

        answer.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return answer

    for name in NAMES:
        function = getattr(tools, name)
        made.tool(name=name, description=inspect.getdoc(function), structured_output=False)(answering(function))
    return made


def main(argv: Sequence[str]) -> int:
    end_on_signals()
    try:
        args = parser().parse_args(argv)
        if importlib.util.find_spec("mcp") is None:
            raise UsageError("needs mcp: pip install 'cdna-forge[mcp]'")
        with Judge(1, problem=args.problem, device=args.device, options=options_of(args)) as judge:
            server(Tools(judge, args.problem)).run("stdio")
        return EXIT_PASS
    except (UsageError, BadRequest) as error:
        print(f"forge mcp: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
