"""What `gen_submission.py toy-problem --check` prints and returns for a folder with task.yml, reference/ and kernels/.

As a script: python tests/support/toy_check.py FOLDER
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from forge.compile_report.check import check_submission
from forge.generate.pysource import GenerationError
from forge.generate.render import Submission, generate
from forge.task.problem import ProblemEntry, find_problem
from tests.support.prepared import run_check

TASKS = """
sets:
  - name: toys
    description: toys
    problems:
      - {name: toy-problem, directory: reference/toy, gpus: [GPUS], arch: ARCH, harness: amd, variant: plain}
"""
Checked = tuple[int, list[str], str]  # exit code, lines of the table, error output


def tasks(gpus: str, arch: str = "gfx942") -> str:
    """The root's task.yml."""
    return TASKS.replace("GPUS", gpus).replace("ARCH", arch)


def write_files(root: Path, files: dict[str, str]) -> None:
    """files: texts by their paths from the root."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def generated(root: Path, files: dict[str, str], variant: str = "hip", also: str | None = None) -> Submission:
    """The submission of toy-problem, of these files."""
    write_files(root, files)
    return generate(ProblemEntry("toy-problem", "toy", root, ("MI300",), "gfx942", None, variant), None, root, also)


def check_toy(folder: Path, imports: Sequence[str] = (), **environment: str) -> Checked:
    """imports: what prepared.py shall have imported before."""
    done = run_check("tests/support/toy_check.py", str(folder), imports=imports, environment=environment)
    return done.returncode, done.stdout.splitlines(), done.stderr


def check_toy_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> Checked:
    """With a worker as users have it, which imports torch itself."""
    code = main(folder)
    printed = capsys.readouterr()
    return code, printed.out.splitlines(), printed.err


def main(folder: Path) -> int:
    problem = find_problem("toy-problem", folder)
    try:
        return check_submission(generate(problem, None, folder).text, problem, sys.stdout)
    except GenerationError as error:
        print(f"gen_submission.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
