"""forge completion SHELL: a completion script with every command's options and the problems of this checkout."""

import argparse
import sys
from collections.abc import Callable

from forge.commands import generate, history, planning
from forge.console import EXIT_BAD_INPUT, EXIT_PASS
from forge.device import NAMES as DEVICE_NAMES
from forge.task.problem import MODES, own_entries

SHELLS = ("bash", "zsh", "fish")
PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "eval": planning.eval_parser,
    "generate": generate.parser,
    "history": history.history_parser,
    "compare": history.compare_parser,
    "report": history.report_parser,
    "import": history.import_parser,
}
_BASH = """\
_forge() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
  local command="${{COMP_WORDS[1]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"
  elif [ "$before" = --device ]; then words="{devices}"
  else
    case "$command" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "$word"))
  return 0
}}
complete -F _forge forge
"""


def words_of(command: str) -> list[str]:
    """What may follow a command: its options, and words that it takes."""
    takes = {"eval": [*MODES, *problems()], "import": [], "compare": ["last"]}
    return options_of(PARSERS[command]()) + takes.get(command, problems())


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def problems() -> list[str]:
    return [entry.name for entry in own_entries()]


def script(shell: str, extra: dict[str, list[str]]) -> str:
    """extra: options of commands whose parsers this room may not import."""
    by_command = {command: words_of(command) for command in PARSERS}
    by_command |= {command: words + problems() for command, words in extra.items()}
    commands = " ".join([*by_command, "completion"])
    if shell == "fish":
        lines = [f"complete -c forge -n __fish_use_subcommand -f -a '{commands}'"]
        for command, words in by_command.items():
            lines.append(f"complete -c forge -n '__fish_seen_subcommand_from {command}' -a '{' '.join(words)}'")
        return "\n".join(lines) + "\n"
    cases = "\n".join(f'      {command}) words="{" ".join(words)}" ;;' for command, words in by_command.items())
    text = _BASH.format(commands=commands, devices=" ".join(DEVICE_NAMES), cases=cases)
    return ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "") + text


def main(argv: list[str], extra: dict[str, list[str]]) -> int:
    if len(argv) != 1 or argv[0] not in SHELLS:
        print(f"forge completion: which shell? {', '.join(SHELLS)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    print(script(argv[0], extra), end="")
    return EXIT_PASS
