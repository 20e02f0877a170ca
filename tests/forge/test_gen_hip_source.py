"""HIP inside a Python variant: hip_source() becomes the file's text, and load_extension builds it."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forge.generate.pysource import GenerationError
from forge.generate.render import Submission, variants_of
from forge.task.problem import ProblemEntry
from tests.support.limits import ENDS_S
from tests.support.toy_check import generated

ROOT = Path(__file__).resolve().parents[2]
VARIANT = '''"""A toy."""

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source

# The kernels.
HIP_SOURCE = hip_source("kernel.hip")
MODULE = load_extension("toy", HIP_SOURCE, ["scale", "fail"])


def custom_kernel(x):
    y = torch.empty_like(x)
    MODULE.scale(x.data_ptr(), y.data_ptr(), 1.5, x.numel(), True)
    return y
'''
KERNEL = r"""#include <hip/hip_runtime.h>
#include <stdexcept>
#include "factor.h"
#include "beside.h"

__global__ void scale_kernel(const float* x, float* y, float by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * by * x[i] + OFFSET;
}

int64_t scale(int64_t x, int64_t y, double by,
              int n, bool launch) {
    if (launch) scale_kernel<<<(n + 255) / 256, 256>>>((const float*)x, (float*)y, by, n);
    return int64_t(n) << 33;
}

void fail() { throw std::runtime_error("it failed:\n\tsaid the kernel"); }
"""
Make = Callable[..., Submission]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(variant: str = VARIANT, kernel: str = KERNEL) -> Submission:
        files = {
            "toy/hip.py": variant,
            "toy/kernel.hip": kernel,
            "toy/beside.h": "#define OFFSET 0\n",
            "common/factor.h": "#define FACTOR 2\n",
            "common/second.hip": '#include "factor.h"\nint second;\n',
        }
        taken = ("common/hip_source.py", "common/hip_extension.py")
        files |= {name: (ROOT / "kernels" / name).read_text() for name in taken}
        return generated(tmp_path, {f"kernels/{name}": text for name, text in files.items()})

    return made


def literals(submission: Submission) -> dict[str, str]:
    assigned = [node for node in ast.parse(submission.text).body if isinstance(node, ast.Assign)]
    found = {ast.unparse(node.targets[0]): node.value for node in assigned}
    return {k: v.value for k, v in found.items() if isinstance(v, ast.Constant) and isinstance(v.value, str)}


def test_the_call_becomes_the_flattened_text(make: Make) -> None:
    submission = make()
    assert literals(submission)["HIP_SOURCE"] == (
        '\n#line 1 "kernels/toy/kernel.hip"\n#include <hip/hip_runtime.h>\n#include <stdexcept>\n'
        '#line 1 "kernels/common/factor.h"\n#define FACTOR 2\n#line 4 "kernels/toy/kernel.hip"\n'
        '#line 1 "kernels/toy/beside.h"\n#define OFFSET 0\n#line 5 "kernels/toy/kernel.hip"\n'
        + KERNEL.partition('beside.h"\n')[2]
    )
    assert "# The kernels.\nHIP_SOURCE = r" in submission.text
    assert "hip_source(" not in submission.text and "import hip_source" not in submission.text
    assert [s.path for s in submission.sources] == [
        "kernels/common/hip_extension.py",
        "kernels/toy/hip.py",
        "kernels/toy/kernel.hip",
        "kernels/common/factor.h",
        "kernels/toy/beside.h",
    ]
    assert submission.text == make().text


def test_several_texts_each_with_its_own_includes(make: Make) -> None:
    more = 'HIP_SOURCE = hip_source("kernel.hip")\nSECOND: str = source_of("second.hip")'
    variant = VARIANT.replace('HIP_SOURCE = hip_source("kernel.hip")', more).replace(
        "import hip_source\n", "import hip_source\nfrom kernels.common.hip_source import hip_source as source_of\n"
    )
    submission = make(variant)
    assert submission.text.count("#define FACTOR 2") == 2
    assert "SECOND: str = r" in submission.text and "source_of" not in submission.text
    assert [s.path for s in submission.sources].count("kernels/common/factor.h") == 1


def test_a_hip_file_that_is_taken_in_is_no_variant(make: Make, tmp_path: Path) -> None:
    make()
    entry = ProblemEntry("toy-problem", "toy", tmp_path, ("MI300",), "gfx942", None, "hip")
    assert list(variants_of(entry, tmp_path)) == ["hip"]
    (tmp_path / "kernels/toy/other.hip").write_text(KERNEL)
    assert list(variants_of(entry, tmp_path)) == ["hip", "other"]


CALL = 'HIP_SOURCE = hip_source("kernel.hip")'


@pytest.mark.parametrize(
    ("new", "place", "words"),
    [
        (CALL.replace("kernel", "absent"), "hip.py:9: ", 'hip_source("absent.hip"): no such file in kernels/toy/ or'),
        ('HIP_SOURCE = hip_source("kernel" + ".hip")', "hip.py:9: ", "stands alone at top level"),
        (f"def f():\n    {CALL}\n    return HIP_SOURCE", "hip.py:10: ", "stands alone at top level"),
        ('HIP_SOURCE = [hip_source("kernel.hip")]', "hip.py:9: ", "stands alone at top level"),
        (f"{CALL}; B = 1", "hip.py:9: ", "stands alone at top level"),
        ('HIP_SOURCE = hip_source(\n    "kernel.hip"\n)', "hip.py:9: ", "in one line"),
        (f"{CALL}\nPYTHON_BINDING = 1", "hip.py:10: ", "defines 'PYTHON_BINDING', which kernels/common/hip_"),
    ],
)
def test_refusals_name_the_place(make: Make, new: str, place: str, words: str) -> None:
    with pytest.raises(GenerationError) as error:
        make(VARIANT.replace(CALL, new))
    assert str(error.value).startswith(f"kernels/toy/{place}") and words in str(error.value)


def test_taking_it_through_the_module_is_refused(make: Make) -> None:
    by_name = "from kernels.common.hip_source import hip_source"
    variant = VARIANT.replace(by_name, "import kernels.common.hip_source as h")
    with pytest.raises(GenerationError, match=r"^kernels/toy/hip.py:9: import hip_source by its name"):
        make(variant.replace("hip_source(", "h.hip_source("))


def test_rules_name_the_hip_file(make: Make) -> None:
    with pytest.raises(GenerationError, match=r"^kernels/toy/kernel\.hip:5: 'Stream'"):
        make(kernel=KERNEL.replace('beside.h"\n', 'beside.h"\n// Stream\n'))
    with pytest.raises(GenerationError, match=r"^kernels/toy/kernel\.hip: holds both"):
        make(kernel=KERNEL + "// \"\"\" '''\n")


def test_outside_the_generated_file_it_says_what_to_do() -> None:
    from kernels.common.hip_source import hip_source

    with pytest.raises(RuntimeError, match="gen_submission.py"):
        hip_source("kernel.hip")


DRIVER = """
import sys

sys.path.insert(0, ROOT)
from forge.device import resolve

resolve("gfx942", "gfx942").prepare()
sys.path.remove(ROOT)
import torch
import submission

x = torch.arange(1000.0, device="cuda")
assert torch.equal(submission.custom_kernel(x), 3 * x)
module = submission.MODULE
assert module.scale(0, 0, 1, 3, False) == 3 << 33
for given in ((1,), ("a", 0, 1.0, 1, False), (0, 0, 1.0, 1 << 40, False)):
    try:
        module.scale(*given)
    except (TypeError, OverflowError) as error:
        print(type(error).__name__, error)
try:
    module.fail()
except RuntimeError as error:
    print(repr(str(error)))
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's libraries need g++'s")
def test_it_builds_and_runs_while_a_killed_builds_lock_lies_there(make: Make, tmp_path: Path) -> None:
    """By two processes at once, as ranks do; torch's own lock, left by a killed build, keeps nobody waiting."""
    (tmp_path / "submission.py").write_text(make().text)
    (tmp_path / "driver.py").write_text(f"ROOT = {str(ROOT)!r}\n{DRIVER}")
    environment = {**os.environ, "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "driver.py"], cwd=tmp_path, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT
        )

    both = [start(), start()]
    for process in both:
        said = process.communicate(timeout=ENDS_S)[0]
        assert process.returncode == 0, said
        assert "TypeError scale takes 5 arguments, got 1" in said and "OverflowError 1099511627776" in said
        assert "'it failed:\\n\\tsaid the kernel'" in said
    (folder,) = (tmp_path / "extensions").iterdir()
    (folder / "lock").touch()
    again = start()
    said = again.communicate(timeout=ENDS_S)[0]
    assert again.returncode == 0 and not (folder / "lock").exists(), said


def test_a_function_that_the_source_lacks_is_named() -> None:
    from kernels.common.hip_extension import load_extension

    with pytest.raises(ValueError, match="no function `void absent"):
        load_extension("toy", KERNEL, ["scale", "absent"])
