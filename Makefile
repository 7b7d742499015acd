# Commands for users and CI. `make run` and `make test` install everything that they need.
#
#   make run            one run with the defaults: CPU, small shape, emulated MXFP8
#   make test           the tests
#   make faults         the whole fault matrix (`make test` runs its quick rows), and a short soak
#   make fuzz           generated input for every reader, for ten minutes
#   make check          lint, format and types, as in CI
#   make benchmarks     the figures of the README's table
#   make lock           resolve the lock files again
#
# PYTHON=...    the interpreter, 3.11 or later (3.11 first: PyTorch's CPU build is easiest to install there)
# PIP_ARGS=...  passed to pip, for instance --index-url https://download.pytorch.org/whl/cpu for torch

VENV ?= .venv
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; break; }; done)
PIP_ARGS ?=
BIN := $(VENV)/bin
ARGS ?=
WORKERS ?= 2
# One thread per test process: the workers share the cores, and waiting threads would spin.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

.PHONY: run test faults fuzz check format benchmarks lock clean
.DEFAULT_GOAL := run

run: $(VENV)/.run
	$(BIN)/python launch.py $(ARGS)

test: $(VENV)/.test
	$(PYTEST) -m "not gpu and not te and not slow_fault" $(ARGS)

faults: $(VENV)/.test
	$(PYTEST) -m "not gpu and not te" tests/faults tests/soak/test_soak.py $(ARGS)

fuzz: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz minutes=10 $(ARGS)

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The GPU figures need a GPU machine: `python -m tools.gpu.rope`, `.harness` and `.results`.
benchmarks: $(VENV)/.test
	$(BIN)/python -m benchmarks.login
	$(BIN)/python -m benchmarks.collect

# A stamp file, because the interpreter exists before pip does: an unfinished venv is created again.
$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or later found; set one: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PYTHON must be 3.11 or later, got $(PYTHON): $$($(PYTHON) --version 2>&1)" >&2; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -f $(BIN)/python*; $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@touch $@

$(VENV)/.run: requirements.lock | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -r requirements.lock
	@touch $@

$(VENV)/.test: requirements-test.lock $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -r requirements.lock -r requirements-test.lock
	@touch $@

# Resolves pyproject.toml. torch is pinned without a local version (+cpu) and without a hash, because
# each machine installs the build that fits it.
lock: $(VENV)/.made
	$(BIN)/python -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check pip-tools
	printf '%s\n' $(LOCK_PINS) > $(VENV)/lock/pins.txt
	cd $(VENV)/lock && bin/pip-compile $(LOCK_FLAGS) -o ../../requirements.lock ../../pyproject.toml
	cd $(VENV)/lock && bin/pip-compile $(LOCK_FLAGS) --extra test -c ../../requirements.lock -o ../../requirements-test.lock ../../pyproject.toml
	sed -i.bak -E 's/^(torch==[0-9.]+)[+][a-z0-9]+/\1/; s/^(triton==.*)$$/\1 ; platform_system == "Linux"/' requirements.lock requirements-test.lock
	rm -f requirements.lock.bak requirements-test.lock.bak

clean:
	rm -rf $(VENV)
