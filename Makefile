# The commands of a checkout. Each sets up what it needs first; what is set up stays.
.PHONY: help setup demo test check sim crash bench-smoke clean
.DEFAULT_GOAL := help

# Any of these that is new enough; make PYTHON=... names another.
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in $(PYTHONS); do \
	if $$python -c "$(IS_NEW_ENOUGH)" 2>/dev/null; then echo $$python; break; fi; done)

help:
	@echo "make setup   prepare .venv"
	@echo "make demo    run the main job on real input and audit it"
	@echo "make test    run the tests"
	@echo "make check   run linters, type checkers and import contracts"
	@echo "make sim     simulate producers, faults and replays from a seed: make sim SEED=n"
	@echo "make crash   kill processes of the pipeline at 200 points from a seed: make crash SEED=n"
	@echo "make bench-smoke   see whether the benchmarks work; nothing is said of times"
	@echo "make clean   remove .venv and what tools left behind"

setup: .venv/.ready

.venv/.ready: pyproject.toml requirements/build.txt requirements/development.txt \
		deploy/ivy.xml deploy/jars.lock deploy/prepare.py setup.py sinks/forward.c
	@python=$(PYTHON); "$${python:-false}" -c "$(IS_NEW_ENOUGH)" 2>/dev/null || { \
		echo "checkback: No Python 3.11 or later was found. Install one," \
			"or name it: make PYTHON=/path/to/python3" >&2; exit 3; }
	@$(PYTHON) deploy/prepare.py
	@touch $@

demo: setup
	@.venv/bin/checkback demo

# Each process has a broker and a Spark of its own, some 3 GB; a file's tests stay in one of them.
TEST_PROCESSES ?= 2
test: setup
	@.venv/bin/pytest -m "not nightly" -n $(TEST_PROCESSES) --dist loadfile

# Pyright's own look for a newer version would need the network.
check: setup
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright
	.venv/bin/lint-imports --no-logo

SEED ?= 1
sim: setup
	@.venv/bin/python -m tests.simulation $(SEED)

CRASHES ?= 200
crash: setup
	@.venv/bin/python -m tests.crash $(SEED) --crashes $(CRASHES)

bench-smoke: setup
	@.venv/bin/python -m checkback.bench.smoke

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache
