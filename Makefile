# One door for people and for CI. Every target first sees to its own set-up (see scripts/bootstrap).
.DEFAULT_GOAL := help
.PHONY: help setup demo check test format lint types coverage mutants test-unit test-local test-versions test-newest-python test-runbooks test-browser test-interop \
	test-docker test-hosts test-fleets bench bench-formation bench-limiters bench-saturation bench-worst soak soak-drills wheel lock \
	audit clean

BIN := .venv/bin
SOAK_RUNS ?= 20
COUNT ?= 40
SEED ?= 1
MINUTES ?= 5
# The tests start rlctl thousands of times; where Python may not keep what it compiled, each start compiles it again.
unexport PYTHONDONTWRITEBYTECODE
# Tests of real fleets mostly wait; several at once share the waiting. Files stay whole, and with them their fleets.
WORKERS ?= 2
PYTEST_FLEETS = $(BIN)/python -m pytest -v -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=60 --durations-min=1
PYTHON_SOURCES := rlctl tests benchmarks playbooks examples
PYTHON_SCRIPTS := scripts/coverage-gate scripts/audit scripts/mutants scripts/sample-language
SHELL_SCRIPTS := $(wildcard scripts/bootstrap scripts/check-wheel scripts/check-newest-python scripts/lock scripts/minutes .ci/run playbooks/roles/*/files/* inventories/*/hosts)
# ansible-lint looks at roles by themselves, away from the playbooks that bring the modules along.
ANSIBLE_LINT := ANSIBLE_LIBRARY=playbooks/library ANSIBLE_ACTION_PLUGINS=playbooks/action_plugins ansible-lint

# Runs what follows where the linter of another package is installed; CI has to have it.
if_there = command -v $(1) >/dev/null || { echo 'SKIPPED: no $(1) here'; test -z "$$CI"; exit; };

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS='	' read -r name text; do \
		printf '  make %-16s %s\n' "$$name" "$$text"; done

setup:  ## Python, a Redis server and .venv, where they are missing
	@scripts/bootstrap

demo: setup  ## a throw-away 3+3 fleet: deploy, status, a few decisions, destroy; then both flagship drills
	@$(BIN)/rlctl demo

check: format lint types test-unit  ## format, lint, types, unit tests

# ALSO names further targets, which the table of minutes then shows too.
test: setup  ## everything check does, the coverage gate, all layers of tests; which took how long
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

test-unit: setup  ## tests without sockets and processes
	$(BIN)/python -m pytest tests/unit

coverage: setup
	@rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -n $(WORKERS) --durations=10 tests/unit
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python scripts/coverage-gate

mutants: setup  ## COUNT mutants of PACKAGE=plan that its unit tests should notice, drawn by SEED, within MINUTES
	@$(BIN)/python scripts/mutants $(PACKAGE) --count $(COUNT) --seed $(SEED) --minutes $(MINUTES)

# One session over all layers with servers: no worker idles while the longest file of another layer ends.
test-fleets: setup  ## tests on real servers: of this machine, in containers, on hosts; and reports in a browser
	$(PYTEST_FLEETS) --in-turns tests/hosts tests/docker tests/local tests/interop tests/browser

test-local: setup  ## tests on real servers of this machine
	$(PYTEST_FLEETS) tests/local

test-versions: setup  ## the scripts on Redis 8.0 and Valkey 8.1, from Debian's archive, beside the server of this machine
	@for flavor in redis valkey; do \
		program=$$($(BIN)/python -m tests.lab.servers $$flavor) || { \
			[ -n "$$CI" ] && exit 1; echo "SKIPPED: no other $$flavor-server here"; continue; }; \
		"$$program" --version; \
		RLCTL_REDIS_SERVER=$$program $(BIN)/python -m pytest -q -n $(WORKERS) tests/local/limiter || exit 1; done

test-newest-python: setup  ## the unit tests and the wheel on the newest Python here that is newer than the one of .venv
	@scripts/check-newest-python $(WORKERS) || { code=$$?; \
		if [ $$code -eq 8 ] && [ -z "$$CI" ]; then echo 'SKIPPED: no newer Python here'; else exit $$code; fi; }

test-runbooks: setup  ## every runbook from its faults to health on throw-away fleets; needs namespaces
	$(PYTEST_FLEETS) tests/local/test_shipped_runbooks.py

test-browser: setup  ## reports in a headless Chromium, light and dark, wide and narrow
	$(BIN)/python -m pytest tests/browser

test-interop: setup  ## clients in Node and Python decide on real fleets; installs them once, from npm and PyPI
	$(BIN)/python -m pytest tests/interop

test-docker: setup  ## tests on containers; RLCTL_LAB=start lets root start an engine where none answers (tests/lab)
	$(PYTEST_FLEETS) tests/docker

test-hosts: setup  ## tests on hosts that answer ssh, which are containers too
	$(PYTEST_FLEETS) tests/hosts

soak: setup  ## random plans, long walks of faults, RLCTL_SOAK_S seconds of a service, the local tests SOAK_RUNS times, every runbook
	RLCTL_EXAMPLES=5000 $(BIN)/python -m pytest -q tests/unit/plan/test_plan_random.py
	RLCTL_STEPS=$${RLCTL_STEPS:-500} $(BIN)/python -m pytest -q -n 2 tests/local/test_state_machine.py
	RLCTL_SOAK_S=$${RLCTL_SOAK_S:-1200} $(BIN)/python -m pytest -q tests/soak
	@run=1; while [ $$run -le $(SOAK_RUNS) ]; do \
		echo "soak $$run of $(SOAK_RUNS): RLCTL_SEED=$$run"; \
		RLCTL_SEED=$$run $(BIN)/python -m pytest -q -x tests/local || exit 1; run=$$((run + 1)); done
	@$(BIN)/rlctl runbook test -j $$(($(WORKERS) + 2))

soak-drills: setup  ## the flagship drills SOAK_RUNS times on both kinds: how often they keep their promises, in which time
	@$(BIN)/python benchmarks/drills.py -n $(SOAK_RUNS)

bench: bench-formation bench-limiters bench-saturation  ## all benchmarks; ARGS="-n 1" makes fewer runs, ARGS="-o json" is for programs

bench-formation: setup  ## formation and start-up times beside redis-cli's; ARGS="--help" shows the options
	@$(BIN)/python benchmarks/formation.py $(ARGS)
	@test -n '$(ARGS)' || $(BIN)/python benchmarks/capacity.py

bench-worst: setup  ## the longest calls of the scripts, which is how long a service can block a shard
	@$(BIN)/python benchmarks/worst.py $(ARGS)

bench-limiters: setup  ## what a decision costs beside other libraries; ARGS="--help" shows the options
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@$(BIN)/python benchmarks/limiters.py $(ARGS)

bench-saturation: setup  ## which share Redis decides when 64 and 200 callers decide at once
	@$(BIN)/python benchmarks/saturation.py $(if $(findstring json,$(ARGS)),-o json)

wheel: setup  ## build dist/*.whl and try it in an empty environment
	@rm -rf dist
	@scripts/check-wheel dist

lock: setup  ## renew requirements.lock: the newest releases inside pyproject.toml's ranges, with hashes; needs PyPI
	@scripts/lock

audit: setup  ## look up requirements.lock in a vulnerability database; CI_AUDIT=required fails where none answers
	@$(BIN)/python scripts/audit

clean:  ## remove what these targets made in this folder
	rm -rf .venv dist build .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find rlctl tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
