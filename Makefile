# The commands for people and for CI. Every target first runs the set-up (scripts/bootstrap).
.DEFAULT_GOAL := help
.PHONY: help setup demo check test format lint types coverage mutants test-unit test-local test-versions test-newest-python test-runbooks test-browser test-interop \
	test-docker test-hosts test-fleets bench bench-formation bench-limiters bench-saturation bench-worst soak soak-drills wheel lock \
	audit clean

BIN := .venv/bin
SOAK_RUNS ?= 20
COUNT ?= 40
SEED ?= 1
MINUTES ?= 5
# The tests start rlctl thousands of times; without compiled files each start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
# Tests of real fleets mostly wait, so several workers help. A test file runs on one worker, which keeps its fleet.
WORKERS ?= 2
PYTEST_FLEETS = $(BIN)/python -m pytest -v -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=60 --durations-min=1
PYTHON_SOURCES := rlctl tests benchmarks playbooks examples
PYTHON_SCRIPTS := scripts/coverage-gate scripts/audit scripts/mutants scripts/sample-language
SHELL_SCRIPTS := $(wildcard scripts/bootstrap scripts/check-wheel scripts/check-newest-python scripts/lock scripts/minutes .ci/run playbooks/roles/*/files/* inventories/*/hosts)
# ansible-lint checks roles without their playbooks, so it needs the paths of our modules.
ANSIBLE_LINT := ANSIBLE_LIBRARY=playbooks/library ANSIBLE_ACTION_PLUGINS=playbooks/action_plugins ansible-lint

# Runs the linter if it is installed; in CI a missing linter is a failure.
if_there = command -v $(1) >/dev/null || { echo 'SKIPPED: $(1) is not installed'; test -z "$$CI"; exit; };

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS='	' read -r name text; do \
		printf '  make %-16s %s\n' "$$name" "$$text"; done

setup:  ## install Python, a Redis server and .venv if they are missing
	@scripts/bootstrap

demo: setup  ## deploy a throw-away 3+3 fleet, make decisions, destroy it; then run two failover drills
	@$(BIN)/rlctl demo

check: format lint types test-unit  ## run format, lint, types and unit tests

# ALSO names more targets to run and to show in the table of minutes.
test: setup  ## run the checks, the coverage gate and all layers of tests, and show the minutes of each
	@+scripts/minutes format lint types coverage test-fleets+test-newest-python+test-versions $(ALSO)

format: setup
	$(BIN)/ruff format --check $(PYTHON_SOURCES) $(PYTHON_SCRIPTS)

lint: setup
	$(BIN)/ruff check $(PYTHON_SOURCES) $(PYTHON_SCRIPTS)
	$(BIN)/yamllint --strict playbooks inventories examples .github .pre-commit-config.yaml .ansible-lint .yamllint
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(ANSIBLE_LINT) --offline --nocolor playbooks inventories
	@$(call if_there,shellcheck) shellcheck $(SHELL_SCRIPTS)
	@$(call if_there,luacheck) luacheck --quiet lua/*.lua

types: setup
	$(BIN)/mypy
	@$(BIN)/mypy --scripts-are-modules $(PYTHON_SCRIPTS)
	@MYPYPATH=benchmarks $(BIN)/mypy --explicit-package-bases benchmarks/*.py
	@$(BIN)/mypy --explicit-package-bases examples/*.py
	@$(BIN)/mypy --ignore-missing-imports --explicit-package-bases playbooks/library/*.py

test-unit: setup  ## run tests without sockets and processes
	$(BIN)/python -m pytest tests/unit

coverage: setup
	@rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -n $(WORKERS) --durations=10 tests/unit
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python scripts/coverage-gate

mutants: setup  ## test COUNT mutants of PACKAGE=plan, drawn by SEED, for at most MINUTES
	@$(BIN)/python scripts/mutants $(PACKAGE) --count $(COUNT) --seed $(SEED) --minutes $(MINUTES)

# One session for all layers with servers: no worker idles while the longest file of another layer ends.
test-fleets: setup  ## run tests on real servers: on this machine, in containers, on hosts; and reports in a browser
	$(PYTEST_FLEETS) --in-turns tests/hosts tests/docker tests/local tests/interop tests/browser

test-local: setup  ## run tests on real servers of this machine
	$(PYTEST_FLEETS) tests/local

test-versions: setup  ## run the limiter tests on Redis 8.0 and Valkey 8.1 from Debian's archive
	@for flavor in redis valkey; do \
		program=$$($(BIN)/python -m tests.lab.servers $$flavor) || { \
			[ -n "$$CI" ] && exit 1; echo "SKIPPED: no other $$flavor-server was found"; continue; }; \
		"$$program" --version; \
		RLCTL_REDIS_SERVER=$$program $(BIN)/python -m pytest -q -n $(WORKERS) tests/local/limiter || exit 1; done

test-newest-python: setup  ## run the unit tests and check the wheel on a newer Python than that of .venv
	@scripts/check-newest-python $(WORKERS) || { code=$$?; \
		if [ $$code -eq 8 ] && [ -z "$$CI" ]; then echo 'SKIPPED: this machine has no newer Python'; else exit $$code; fi; }

test-runbooks: setup  ## rehearse every runbook on throw-away fleets; needs namespaces
	$(PYTEST_FLEETS) tests/local/test_shipped_runbooks.py

test-browser: setup  ## test reports in a headless Chromium, light and dark, wide and narrow
	$(BIN)/python -m pytest tests/browser

test-interop: setup  ## test Node and Python client libraries on real fleets; installs them from npm and PyPI
	$(BIN)/python -m pytest tests/interop

test-docker: setup  ## run tests on containers; RLCTL_LAB=start lets root start an engine if none answers (tests/lab)
	$(PYTEST_FLEETS) tests/docker

test-hosts: setup  ## run tests on hosts, which are containers with ssh
	$(PYTEST_FLEETS) tests/hosts

soak: setup  ## repeat random plans, walks of faults, a service for RLCTL_SOAK_S seconds, local tests SOAK_RUNS times, runbooks
	RLCTL_EXAMPLES=5000 $(BIN)/python -m pytest -q tests/unit/plan/test_plan_random.py
	RLCTL_STEPS=$${RLCTL_STEPS:-500} $(BIN)/python -m pytest -q -n 2 tests/local/test_state_machine.py
	RLCTL_SOAK_S=$${RLCTL_SOAK_S:-1200} $(BIN)/python -m pytest -q tests/soak
	@run=1; while [ $$run -le $(SOAK_RUNS) ]; do \
		echo "soak $$run of $(SOAK_RUNS): RLCTL_SEED=$$run"; \
		RLCTL_SEED=$$run $(BIN)/python -m pytest -q -x tests/local || exit 1; run=$$((run + 1)); done
	@$(BIN)/rlctl runbook test -j $$(($(WORKERS) + 2))

soak-drills: setup  ## run the default drills SOAK_RUNS times on both kinds, and count how often they pass in time
	@$(BIN)/python benchmarks/drills.py -n $(SOAK_RUNS)

bench: bench-formation bench-limiters bench-saturation  ## run all benchmarks; ARGS="-n 1" for fewer runs, ARGS="-o json" for programs

bench-formation: setup  ## compare formation and start-up times with redis-cli; ARGS="--help" shows the options
	@$(BIN)/python benchmarks/formation.py $(ARGS)
	@test -n '$(ARGS)' || $(BIN)/python benchmarks/capacity.py

bench-worst: setup  ## measure the longest script calls, that is, how long a service can block a shard
	@$(BIN)/python benchmarks/worst.py $(ARGS)

bench-limiters: setup  ## compare the cost of a decision with other libraries; ARGS="--help" shows the options
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@$(BIN)/python benchmarks/limiters.py $(ARGS)

bench-saturation: setup  ## measure the share of decisions that Redis makes with 64 and 200 concurrent callers
	@$(BIN)/python benchmarks/saturation.py $(if $(findstring json,$(ARGS)),-o json)

wheel: setup  ## build dist/*.whl and test it in an empty environment
	@rm -rf dist
	@scripts/check-wheel dist

lock: setup  ## update requirements.lock to the newest releases within pyproject.toml's ranges, with hashes; needs PyPI
	@scripts/lock

audit: setup  ## check requirements.lock against a vulnerability database; CI_AUDIT=required fails if none answers
	@$(BIN)/python scripts/audit

clean:  ## remove the files that these targets made in this folder
	rm -rf .venv dist build .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find rlctl tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
