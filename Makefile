# One door for people and for CI. Every target first sees to its own set-up (see scripts/bootstrap).
.DEFAULT_GOAL := help
.PHONY: help setup demo check test format lint types coverage test-unit test-local test-runbooks test-browser test-docker test-hosts test-lab bench soak soak-drills wheel clean

BIN := .venv/bin
SOAK_RUNS ?= 20
# The tests start rlctl thousands of times; where Python may not keep what it compiled, each start compiles it again.
unexport PYTHONDONTWRITEBYTECODE
# Tests of real fleets mostly wait; several at once share the waiting. Files stay whole, and with them their fleets.
WORKERS ?= 2
LAB_WORKERS ?= 0
PYTHON_SOURCES := rlctl tests benchmarks playbooks
PYTHON_SCRIPTS := scripts/coverage-gate
SHELL_SCRIPTS := $(wildcard scripts/bootstrap scripts/check-wheel .ci/run playbooks/roles/*/files/* inventories/*/hosts)
# ansible-lint looks at roles by themselves, away from the playbooks that bring the modules along.
ANSIBLE_LINT := ANSIBLE_LIBRARY=playbooks/library ANSIBLE_ACTION_PLUGINS=playbooks/action_plugins ansible-lint

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS='	' read -r name text; do \
		printf '  make %-16s %s\n' "$$name" "$$text"; done

setup:  ## Python, a Redis server and .venv, where they are missing
	@scripts/bootstrap

demo: setup  ## a throw-away 3+3 fleet: deploy, status, a few decisions, destroy; then both flagship drills
	@$(BIN)/rlctl demo

check: format lint types test-unit  ## format, lint, types, unit tests

test: format lint types coverage test-local test-runbooks test-browser test-lab  ## everything check does, the coverage gate, all layers of tests

format: setup
	$(BIN)/ruff format --check $(PYTHON_SOURCES) $(PYTHON_SCRIPTS)

lint: setup
	$(BIN)/ruff check $(PYTHON_SOURCES) $(PYTHON_SCRIPTS)
	$(BIN)/yamllint --strict playbooks inventories .ansible-lint .yamllint
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(ANSIBLE_LINT) --offline --nocolor playbooks inventories
	@if command -v shellcheck >/dev/null; then shellcheck $(SHELL_SCRIPTS); \
		else echo 'SKIPPED: no shellcheck here, the shell scripts are not linted'; fi

types: setup
	$(BIN)/mypy
	@MYPYPATH=benchmarks $(BIN)/mypy --explicit-package-bases benchmarks/*.py
	@$(BIN)/mypy --ignore-missing-imports --explicit-package-bases playbooks/library/*.py

test-unit: setup  ## tests without sockets and processes
	$(BIN)/python -m pytest tests/unit

coverage: setup
	$(BIN)/python -m coverage run -m pytest tests/unit
	@$(BIN)/python scripts/coverage-gate

test-local: setup  ## tests on real servers of this machine
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/local

test-runbooks: setup  ## every runbook from its faults to health on throw-away fleets; needs namespaces
	@$(BIN)/rlctl runbook test -j $(WORKERS) || { code=$$?; \
		if [ $$code -eq 8 ] && [ -z "$$CI" ]; then echo 'SKIPPED: the runbooks are not tried here'; else exit $$code; fi; }

test-browser: setup  ## reports in a headless Chromium, light and dark, wide and narrow
	$(BIN)/python -m pytest tests/browser

test-docker: setup  ## tests on containers; RLCTL_LAB=start lets root start an engine where none answers (tests/lab)
	$(BIN)/python -m pytest -n $(LAB_WORKERS) --dist loadfile tests/docker

test-hosts: setup  ## tests on hosts that answer ssh, which are containers too
	$(BIN)/python -m pytest -n $(LAB_WORKERS) --dist loadfile tests/hosts

# In one run nobody's processor is idle while the longest file of the other layer ends.
test-lab: setup  ## both layers on containers in one run
	$(BIN)/python -m pytest -n $(LAB_WORKERS) --dist loadfile --no-loadscope-reorder tests/hosts tests/docker

soak: setup  ## the local tests SOAK_RUNS times, each with another RLCTL_SEED; stops at the first failure
	@run=1; while [ $$run -le $(SOAK_RUNS) ]; do \
		echo "soak $$run of $(SOAK_RUNS): RLCTL_SEED=$$run"; \
		RLCTL_SEED=$$run $(BIN)/python -m pytest -q -x tests/local || exit 1; run=$$((run + 1)); done

soak-drills: setup  ## the flagship drills SOAK_RUNS times on both kinds: how often they keep their promises, in which time
	@$(BIN)/python benchmarks/drills.py -n $(SOAK_RUNS)

bench: bench-formation bench-limiters  ## both benchmarks; ARGS="-n 1" makes fewer runs, ARGS="-o json" is for programs

bench-formation: setup  ## formation and start-up times beside redis-cli's; ARGS="--help" shows the options
	@$(BIN)/python benchmarks/formation.py $(ARGS)
	@test -n '$(ARGS)' || $(BIN)/python benchmarks/capacity.py

bench-limiters: setup  ## what a decision costs beside other libraries; ARGS="--help" shows the options
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@$(BIN)/python benchmarks/limiters.py $(ARGS)

wheel: setup  ## build dist/*.whl and try it in an empty environment
	@rm -rf dist
	@scripts/check-wheel dist

clean:  ## remove what these targets made in this folder
	rm -rf .venv dist build .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find rlctl tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
