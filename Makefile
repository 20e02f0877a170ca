# demo: generate submission.py for amd-fp8-mm and run its tests on an emulated MI300X; needs no GPU.
# test: run the tests.    lint: ruff, mypy and the import rule.
# Each makes .venv on first use. PYTHON chooses the interpreter: make demo PYTHON=python3.12
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
# Two more than the cores there are: tests wait a quarter of their time. Each takes a GB of memory or so.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 4 ? cores + 2 : 6)))

.PHONY: demo test lint
demo: $(READY)
	$(PY) gen_submission.py amd-fp8-mm --variant triton -o submission.py
	$(PY) eval.py test amd-fp8-mm --submission submission.py --device gfx942

# Hundreds of processes are started, and each would compile the sources where Python may not keep what it has compiled.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	git ls-files | grep -E "\.(c|cpp|h|hpp|hip)$$" | xargs $(VENV)/bin/clang-format --dry-run -Werror
	$(PY) -m mypy cdna forge kernels reference tests lab conftest.py eval.py gen_submission.py
	$(PY) -m pytest -q tests/forge/test_import_rule.py tests/forge/test_lint_rules.py

$(READY): pyproject.toml cdna/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found: install Python 3.11 or later, or name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: $(PYTHON) is Python %d.%d, and 3.11 or later is needed: name one with PYTHON=..." % sys.version_info[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) lacks the venv module: install it (Debian, Ubuntu: python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet -c constraints.txt setuptools
	$(PY) -m pip install -c constraints.txt --no-build-isolation -e ./cdna -e '.[dev]'
	@touch $@
