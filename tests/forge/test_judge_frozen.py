"""A referee imports nothing after it is ready: a module that a submission has put anywhere never runs in it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from forge.judge.frozen import imports_in
from forge.task.problem import own_entries
from tests.support.evaltools import REFERENCE, RIGHT, ROOT, judge, write_problem
from tests.support.prepared import run_prepared

pytestmark = pytest.mark.long

# Judges outputs of a smoke case: the reference's own, with wrong elements, with none that is finite, of another shape
# and of another type; and prints what was imported meanwhile.
JUDGE = """
import json, os, shutil, socket, sys, tempfile
from pathlib import Path
import torch
from forge.judge import messages
from forge.judge.referee import Referee
from forge.task.problem import find_problem

problem, folder = find_problem(sys.argv[1]), tempfile.mkdtemp()
for file in problem.files:
    if file.source is not None:
        shutil.copy(file.source, Path(folder, file.name))
os.chdir(folder)
sys.path.insert(0, "")
sent = []
setup = messages.Setup(folder, "gfx942", "gfx942", "amd", None, False, {"bias": None}, True)
referee = Referee(setup, sent.append, None, [])
referee.prepare(os.path.realpath(sys.argv[2]), None)
torch, compare, task = referee.measure.torch, referee.compare, referee.task
imported = []
sys.addaudithook(lambda event, told: imported.append(told[0]) if event == "import" else None)
case = (problem.smoke or problem.tests)[0]
args = {**case, "world_size": 1} if "world_size" in case else case
if "world_size" in case:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    referee.join(1, 0, port)

def changed(output, change):
    if isinstance(output, torch.Tensor):
        return change(output.clone())
    return type(output)(changed(part, change) for part in output) if isinstance(output, (tuple, list)) else output

def half_wrong(tensor):
    tensor.view(-1)[tensor.numel() // 2 :] = 200
    return tensor

data = task.generate_input(**referee.ranks.args_of(args))
referee.inputs = {0: data}
right = task.ref_kernel(referee.copy_of(0))
verdicts = []
for change in (
    lambda tensor: tensor, half_wrong, lambda tensor: tensor.fill_(float("nan")), lambda tensor: tensor[:1],
    lambda tensor: tensor.double(),
):
    output = changed(right, change)
    verdicts.append(task.check(referee.copy_of(0), output)[0])
    referee.accuracy_of(0, output, (right, 0.0), False)
    repr(output), str(messages.Judged())
print(json.dumps([verdicts, imported]))
"""


# torch beside a driver that finds a GPU, as far as its first use asks, and what it does then imports a module.
GPU = """
import sys, tempfile, torch
from forge.device.gpu import CudaDevice
from forge.judge.referee import Referee
from forge.judge.worker import Worker
from forge.judge.messages import Setup

torch.cuda._cudart, torch._C._cuda_init, torch._C._cuda_getDeviceCount = object(), lambda: None, lambda: 1
torch.cuda._queued_calls[:] = [(lambda: __import__("this_is_late"), [])]
folder = tempfile.mkdtemp()
open(folder + "/this_is_late.py", "w").close()
sys.path.insert(0, folder)

def prepare(self, root, broken):
    self.device, self.task = CudaDevice.__new__(CudaDevice), None
    sys.modules["reference"] = sys
    return {}

Worker.prepare, Referee.note_reference, CudaDevice.set_checks = prepare, lambda *_: None, lambda *_: None
Referee(Setup(folder, "cuda", "gfx942", "amd", None, False, {}, True), print, None, []).prepare("", None)
torch.cuda.init()
torch.cuda._lazy_init()
assert "this_is_late" in sys.modules
"""


def test_what_torch_imports_with_a_gpus_first_use_is_there() -> None:
    done = subprocess.run([sys.executable, "-c", GPU], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [entry.name for entry in own_entries()])
def test_a_failing_check_imports_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "judge.py").write_text(JUDGE)
    done = run_prepared(str(tmp_path / "judge.py"), name, str(ROOT))
    assert done.returncode == 0, done.stderr
    verdicts, imported = json.loads(done.stdout.splitlines()[-1])
    assert verdicts[:2] == [True, False] and imported == []


def test_a_reference_that_imports_late_says_so(tmp_path: Path) -> None:
    reference = (
        "import torch\ndef generate_input(n, seed):\n    return torch.ones(n)\n"
        "def check_implementation(x, out):\n    name = 'late' + '_module'\n    __import__(name)\n    return True, ''\n"
    )
    done, result = judge(tmp_path, RIGHT, "test", problem=write_problem(tmp_path / "problem", reference=reference))
    assert done.returncode == 1 and "has to import it at its top" in result["cases"][0]["message"]


def test_imports_within_functions_are_found() -> None:
    assert set(imports_in("def f():\n    import a.b\n    from c import d\n")) == {"a.b", "c", "c.d"}


def test_what_torch_imports_for_a_word_is_there(tmp_path: Path) -> None:
    reference = REFERENCE.replace("    return x * 2", "    torch.use_deterministic_algorithms(True)\n    return x * 2")
    problem = write_problem(tmp_path / "problem", reference=reference)
    done, result = judge(tmp_path, RIGHT, "test", "--cases", "0", problem=problem)
    assert done.returncode == 0, result["cases"][0]["message"]
