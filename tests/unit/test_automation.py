"""Workflows and hooks call existing make targets and scripts, with read access only."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
# Commands that prepare a runner, in addition to those of the project.
OTHERS = {"sudo", "apt-get", "git"}


@cache
def load(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in load(workflow)["jobs"].values():
        yield from job["steps"]


def hooks() -> Iterator[dict[str, Any]]:
    for repository in load(ROOT / ".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local", "a hook from elsewhere needs the network"
        yield from repository["hooks"]


def mistake_in(command: str) -> str | None:
    """What is wrong with a command of a workflow or hook; empty if it is allowed."""
    program, *words = command.split()
    if program == "make":
        unknown = set(words) - TARGETS
        return f"no such target: {', '.join(sorted(unknown))}" if unknown else None
    if program in OTHERS:
        return None
    return None if os.access(ROOT / program, os.X_OK) else f"no such program: {program}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_exists(workflow: Path) -> None:
    commands = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    assert commands
    assert [found for command in commands if (found := mistake_in(command))] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read(workflow: Path) -> None:
    document = load(workflow)
    assert document["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in document["jobs"].values())
    assert all("timeout-minutes" in job for job in document["jobs"].values())
    # YAML 1.1 reads the key `on` as true.
    assert "pull_request_target" not in document[True]  # type: ignore[index]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_the_platforms_own_by_major_version(workflow: Path) -> None:
    used = [step for step in steps(workflow) if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v[0-9]+", step["uses"]) for step in used)
    checkouts = [step for step in used if step["uses"].startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_hooks_call_make() -> None:
    found = list(hooks())
    assert {hook["id"] for hook in found} == {"format", "lint", "types", "test-unit"}
    assert all((hook["entry"], hook["language"]) == (f"make {hook['id']}", "system") for hook in found)
    assert [found for hook in hooks() if (found := mistake_in(hook["entry"]))] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_asks_something(form: Path) -> None:
    document = load(form)
    assert document["name"]
    assert document["description"]
    ids = [part["id"] for part in document["body"] if part["type"] != "markdown"]
    assert ids
    assert len(set(ids)) == len(ids)
    assert all(part["attributes"].get("label") or part["type"] == "markdown" for part in document["body"])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("make format lint", None),
        ("make frmat lint", "no such target: frmat"),
        ("scripts/bootstrap", None),
        ("scripts/bootstrp", "no such program: scripts/bootstrp"),
        ("curl example", "no such program: curl"),
    ],
)
def test_mistakes(command: str, says: str | None) -> None:
    assert mistake_in(command) == says
