import json
from typing import Any

import pytest

from rlctl.system.playbook_events import End, PlaybookRun, TaskResult, parse_events


def result(host: str, status: str, task: str = "Install", **more: Any) -> TaskResult:
    return TaskResult(host=host, task=task, status=status, **more)


def run(*results: TaskResult, **failures: int) -> PlaybookRun:
    return PlaybookRun(results=results, failures=failures)


@pytest.mark.parametrize(
    ("document", "event"),
    [
        pytest.param(
            {"event": "result", "host": "h1", "task": "redis_host : Install", "item": None, "status": "changed"},
            result("h1", "changed"),
            id="the role is left out",
        ),
        pytest.param(
            {"event": "result", "host": "h1", "task": "Install", "item": "a", "status": "failed", "message": "no room"},
            result("h1", "failed", "Install (a)", message="no room"),
            id="item",
        ),
        pytest.param(
            {"event": "result", "host": "h1", "task": "Start", "status": "failed", "node": "node-0"},
            result("h1", "failed", "Start", node="node-0"),
            id="node",
        ),
        pytest.param(
            {"event": "result", "host": "h1", "task": "Try", "status": "failed", "refused": {"hz": "no number"}},
            result("h1", "failed", "Try", refused={"hz": "no number"}),
            id="refused directives",
        ),
        pytest.param(
            {"event": "end", "stats": {"h1": {"failures": 0, "unreachable": 1}}}, End(failures={"h1": 1}), id="end"
        ),
        pytest.param({"event": "other", "name": "x"}, None, id="of another kind"),
        pytest.param({"event": "result", "host": "h1"}, None, id="torn"),
        pytest.param({"event": "end", "stats": [1]}, None, id="damaged"),
        pytest.param(["event"], None, id="a list"),
    ],
)
def test_events_are_read_and_all_else_is_passed_over(document: object, event: object) -> None:
    assert list(parse_events([json.dumps(document), "no json"])) == ([event] if event else [])


def test_changes_are_named_once_by_host() -> None:
    done = run(result("h1", "changed"), result("h1", "changed"), result("h2", "changed"), result("h1", "ok", "x"))
    assert done.changes("h1") == ("Install",)
    assert done.changes("h3") == ()


@pytest.mark.parametrize(
    ("done", "said"),
    [
        pytest.param(run(result("h1", "ok"), h1=0), None, id="well"),
        pytest.param(run(result("h1", "failed", message="tried"), h1=0), None, id="rescued"),
        pytest.param(run(result("h1", "failed", message="no room"), h1=1), "Install: no room", id="failed"),
        pytest.param(
            run(result("h1", "unreachable", message="timed out"), h1=1),
            "cannot be reached: timed out",
            id="unreachable",
        ),
        pytest.param(
            run(result("h1", "failed"), h1=1),
            "Install: failed; its message may contain secrets and is not shown",
            id="secret",
        ),
        pytest.param(run(h1=1), "it failed, and no task reported why", id="silent"),
        pytest.param(run(h2=0), "the playbook did not run on it", id="never reached"),
    ],
)
def test_a_host_is_judged_by_the_end_and_told_by_its_last_failure(done: PlaybookRun, said: str | None) -> None:
    assert done.problem("h1") == said


def test_a_node_fails_alone_or_with_its_host() -> None:
    done = run(
        result("h1", "failed", "Start", node="node-0", message="no memory"),
        result("h1", "changed", "Start", node="node-1"),
        result("h2", "unreachable", message="off"),
        h1=1,
        h2=1,
    )
    assert done.node_problem("h1", "node-0") == "Start: no memory"
    assert done.node_problem("h1", "node-1") is None
    assert done.node_problem("h1", "node-2") == "Start: no memory"
    assert done.node_problem("h2", "node-3") == "cannot be reached: off"
    assert done.node_problem("h3", "node-4") == "the playbook did not run on it"


def test_what_a_host_refuses_is_its_own() -> None:
    done = run(
        result("h1", "failed", "Try", refused={"hz": "no number"}),
        result("h2", "ok", "Try"),
        result("h2", "failed", "Start"),
        h1=1,
        h2=1,
    )
    assert (done.refused("h1"), done.refused("h2")) == ({"hz": "no number"}, {})
