# The commands of a checkout. Each sets up what it needs first; what is set up stays.
.PHONY: help setup programs demo unit coverage test java check sim crash mutants bench-smoke docs release platform-wheel attach audit nightly versions clean
.DEFAULT_GOAL := help

# Where it is set, every process compiles what it imports: a start of the tests some 4,000 lines of
# them for each of its processes, and each command and worker that a test starts our modules.
unexport PYTHONDONTWRITEBYTECODE

# Any of these that is new enough; make PYTHON=... names another.
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in $(PYTHONS); do \
	if $$python -c "$(IS_NEW_ENOUGH)" 2>/dev/null; then echo $$python; break; fi; done)

help:
	@echo "make setup   prepare .venv"
	@echo "make programs  fetch Prometheus and Chromium, without which some tests skip"
	@echo "make demo    run the main job on real input and audit it"
	@echo "make unit    run the tests that need neither Kafka nor Spark: seconds"
	@echo "make coverage  report the branch coverage of state, protocol and sinks, and hold it"
	@echo "make test    run the tests"
	@echo "make java    build the client for Java and test it: needs a JDK and Maven"
	@echo "make check   run linters, type checkers and import contracts"
	@echo "make sim     simulate producers, faults and replays from a seed: make sim SEED=n"
	@echo "make crash   kill processes of the pipeline at 200 points from a seed: make crash SEED=n"
	@echo "make mutants change the rules and the marker protocol bit by bit; tests must notice: half an hour"
	@echo "make bench-smoke   see whether the benchmarks work; nothing is said of times"
	@echo "make docs    build the documents as a site, build/docs/site, and check it"
	@echo "make release build what is released into dist: sdist, pure wheel, zip, jars, SBOM"
	@echo "make nightly run the tests that make test leaves out: minutes each: make nightly SEED=n"
	@echo "make versions run tests with other versions of Kafka, Java and Python: make versions OF=kafka=3.9"
	@echo "make audit   look for known vulnerabilities of the pinned packages"
	@echo "make clean   remove .venv and what tools left behind"

setup: .venv/.ready

NEEDED := pyproject.toml requirements/build.txt deploy/ivy.xml deploy/jars.lock tools/prepare.py \
	setup.py sinks/native/forward.c
define PREPARE
@python=$(PYTHON); "$${python:-false}" -c "$(IS_NEW_ENOUGH)" 2>/dev/null || { \
	echo "checkback: No Python 3.11 or later was found. Install one," \
		"or name it: make PYTHON=/path/to/python3" >&2; exit 3; }
@$(PYTHON) tools/prepare.py
endef

.venv/.ready: $(NEEDED) requirements/development.txt
	$(PREPARE)
	@touch .venv/.runs $@

# The demo does not wait for what only developers need.
.venv/.runs: $(NEEDED) requirements/extras.txt
	$(PREPARE) --to-run
	@touch $@

# Where .ci/programs unpacks what tests look for on the path.
export PATH := $(CURDIR)/build/debian/usr/bin:$(PATH)
programs:
	@.ci/programs

demo: .venv/.runs
	@.venv/bin/checkback demo

# Kinds of tests that start no broker keep a core busy each. Over a broker a process waits for
# brokers, JVMs and timeouts for much of its time, so four keep two cores busy; each has a Spark of
# its own, some 2 GB, so where memory is short there are fewer. A file's tests stay in one process.
# The files that take longest come first (tests/conftest.py), so that no process is left waiting at
# the end for another one's long file.
MEASURED := tests/property tests/unit tests/tidy
WITHOUT_BROKER ?= tests/simulation tests/spark $(MEASURED)
WITH_BROKER := tests/integration tests/crash tests/fuzz
TEST_PROCESSES ?= $(shell awk '/^MemAvailable/ {gb = $$2 / 1000000} \
	END {print (gb > 16 ? 4 : gb > 12 ? 3 : 2)}' /proc/meminfo 2>/dev/null || echo 2)
# pytest-timeout needs Python's lock, which a process that stands still in native code may hold for
# ever. So a thread without it ends such a process; the others go on, and the test has failed.
ENDS_WITHOUT_LOCK := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
BY_DAY := .venv/bin/pytest -m "not nightly" --dist loadfile --no-loadscope-reorder $(ENDS_WITHOUT_LOCK)
test: setup
	@$(BY_DAY) -n auto $(WITHOUT_BROKER)
	@$(BY_DAY) -n $(TEST_PROCESSES) --one-broker $(WITH_BROKER)

# One start of Maven: tests of each module, and the jars. Where Maven is missing, nothing is built.
MAVEN := mvn --batch-mode --quiet --file java/pom.xml -Dcheckback=$(CURDIR)/.venv/bin/checkback
java: setup
	@if command -v mvn >/dev/null; then $(MAVEN) package; \
	else echo "checkback: Maven was not found; the client for Java is not built" >&2; fi

# Minutes each; the workflow of that name runs them. Make hands a SEED that it is given on to them;
# without one each takes its own and prints it.
TESTS ?= tests
nightly: setup
	@CHECKBACK_AUDIT=10000 .venv/bin/pytest -m nightly $(TESTS)

# Into docs/compatibility.json and the table of docs/compatibility.md.
OF ?=
versions: setup
	@.venv/bin/python -m tools.versions $(OF)

unit: setup
	@.venv/bin/pytest tests/tidy tests/unit -n $(TEST_PROCESSES)

# Where the branch coverage of the core stands; it may only rise. What the sink does with a broker is
# tested on one and not counted here.
COVERAGE := .venv/bin/coverage
coverage: setup
	@$(COVERAGE) run -m pytest -q -m "not nightly" $(MEASURED)
	@$(COVERAGE) report --include 'state/**' --fail-under 99
	@$(COVERAGE) report --include 'protocol/**' --fail-under 98
	@$(COVERAGE) report --include 'sinks/**' --fail-under 80

# Pyright's own look for a newer version would need the network.
check: setup
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright
	.venv/bin/lint-imports --no-logo

SEED ?= 1
sim: setup
	@.venv/bin/python -m tests.simulation.exactly_once $(SEED)
	@.venv/bin/python -m tests.simulation.relay_world $(SEED)00000 --crashes 10000
	@.venv/bin/python -m tests.simulation.session_world $(SEED)00000 --crashes 10000

CRASHES ?= 200
crash: setup
	@.venv/bin/python -m tests.crash $(SEED) --crashes $(CRASHES)

# Of the changes, with *: make mutants NAMES=checkback.sinks.*
NAMES ?=
mutants: setup
	@.venv/bin/pip install --quiet --require-hashes --requirement requirements/mutants.txt
	@.venv/bin/python -m tests.mutants $(NAMES)

bench-smoke: setup
	@.venv/bin/python -m bench pipeline --smoke
	@.venv/bin/python -m bench latency --smoke

# The site's tools have an environment of their own: nothing else needs them.
DOCS := build/docs/environment
$(DOCS)/.ready: requirements/docs.txt
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/pip install --quiet --require-hashes --requirement $<
	@touch $@

# Documents link to each other from the top folder down; MkDocs reads a copy, in the same places.
PAGES := '*.md' docs/site.css demo/orders.py LICENSE NOTICE ':!tests/data'
docs: $(DOCS)/.ready
	@rm -rf build/docs/source && mkdir -p build/docs/source
	@git ls-files -z -- $(PAGES) | tar --null -T - -cf - | tar -xf - -C build/docs/source
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict

# The tools have an environment of their own. The wheel with the compiled part is built by
# cibuildwheel, in .github/workflows/release.yml.
RELEASE := build/release/environment
$(RELEASE)/.ready: requirements/release.txt
	@$(PYTHON) -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/pip install --quiet --require-hashes --requirement $<
	@touch $@

PACKAGE_ZIP := from pathlib import Path; from checkback.commands.version import known_commit; \
	from checkback.streaming.spark.shipped_package import package_zip; package_zip(Path('dist'), known_commit())
VERSION := import checkback; print(checkback.__version__)
release: setup $(RELEASE)/.ready
	@rm -rf dist && mkdir dist
	@.venv/bin/python -c "from setuptools import build_meta; build_meta.build_sdist('dist')" >/dev/null
	@CHECKBACK_PURE=1 .venv/bin/pip wheel --quiet --no-deps --no-build-isolation \
		--wheel-dir dist dist/checkback-*.tar.gz
	@.venv/bin/python -c "$(PACKAGE_ZIP)"
	@$(MAVEN) -DskipTests package source:jar-no-fork
	@cp java/client/target/checkback-client-*.jar java/spring/target/checkback-spring-*.jar dist
	@rm dist/*-tests.jar
	@sed "s/^dynamic = .*/version = \"$$(.venv/bin/python -c '$(VERSION)')\"/" pyproject.toml \
		> $(RELEASE)/pyproject.toml
	@$(RELEASE)/bin/cyclonedx-py requirements requirements/extras.txt --pyproject $(RELEASE)/pyproject.toml \
		--output-reproducible --output-file dist/checkback.cdx.json
	@PYTHONPATH=src $(RELEASE)/bin/python -m tools.sbom dist/checkback.cdx.json
	@ls dist

# Needs a container engine, in which the wheel is built for manylinux and tried: from the source
# archive, for cibuildwheel would copy a whole checkout with .venv and build into the container.
TRY_NATIVE := python -c 'from checkback.sinks.native.library import native; assert native()'
platform-wheel: $(RELEASE)/.ready
	@CIBW_BUILD=cp311-manylinux_x86_64 CIBW_TEST_COMMAND="$(TRY_NATIVE)" \
		$(RELEASE)/bin/cibuildwheel --platform linux --output-dir dist dist/checkback-*.tar.gz

# Attaches dist to a tag's release on GitHub.
attach:
	@cd dist && sha256sum * > SHA256SUMS
	@gh release create "$$TAG" --verify-tag --notes "See CHANGELOG.md." dist/*

audit: $(RELEASE)/.ready
	@$(RELEASE)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/extras.txt

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache
