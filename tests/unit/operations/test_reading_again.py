"""What rlctl believes only after it has read it again, with fleets that answer without a server."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rlctl.errors import CheckFailed, RlctlError, TimedOut, Unreachable
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.observe.model import NodeFacts, Observed, Presence, Role
from rlctl.operations import failover, fence, resize
from rlctl.operations.failover import FailoverOptions
from rlctl.operations.resize import Resize, make_resize
from rlctl.plan.failover import FailoverMode, SyncStats
from rlctl.plan.failover_choice import choose
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE
from rlctl.plan.planner import Plan
from rlctl.system.host_facts import HostFacts
from rlctl.topology.model import TargetName
from rlctl.topology.nodes import NodeName
from tests.unit.fleets import changed, cluster, desired_of, healthy, killed, name

SPECS = desired_of(cluster()).specs


def answering(state: Observed, **more: object) -> Any:
    return SimpleNamespace(topology=cluster(), observe=lambda: state, **more)


def node(value: str, **facts: object) -> Observed:
    settings = {**healthy(cluster()).nodes[0].settings, FENCE_SETTING: value}
    return changed(healthy(cluster()), "node-0", settings=settings, **facts)


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        pytest.param(node(FENCED_VALUE, good_replicas=1), True, id="fenced"),
        pytest.param(node("0"), False, id="free"),
        pytest.param(node(FENCED_VALUE, role=Role.REPLICA), True, id="a fenced replica refuses nothing yet"),
    ],
)
def test_a_fence_that_stands_as_wanted(state: Observed, *, wanted: bool) -> None:
    fence._check(answering(state), SPECS[name("node-0")], wanted=wanted)


@pytest.mark.parametrize(
    ("state", "wanted", "says"),
    [
        pytest.param(node("0", role=Role.REPLICA), True, "is not fenced afterwards", id="the setting did not take"),
        pytest.param(node("0", good_replicas=-1), True, "is not fenced afterwards", id="it refuses for another reason"),
        pytest.param(node(FENCED_VALUE), False, "is not unfenced afterwards", id="it did not go"),
        pytest.param(node(FENCED_VALUE, good_replicas=10**6), True, "is not fenced afterwards", id="it takes writes"),
        pytest.param(killed(node(FENCED_VALUE), "node-0"), False, "connection refused", id="it has died"),
    ],
)
def test_a_fence_that_does_not(state: Observed, says: str, *, wanted: bool) -> None:
    with pytest.raises(CheckFailed, match=says):
        fence._check(answering(state), SPECS[name("node-0")], wanted=wanted)


class Ordered(failover._Failover):
    """A move whose order was carried out, and whose old primary is as it is told."""

    def __init__(self, old: NodeFacts) -> None:
        state = healthy(cluster())
        order = replace(choose(desired_of(cluster()), state, 0, FailoverMode.PLANNED), old_run_id="before")
        fleet = answering(state, clock=SimpleNamespace(monotonic=lambda: 0.0))
        options = FailoverOptions(shard=0, mode=FailoverMode.PLANNED, argv=(), timeout_s=None)
        held = cast("LockedFleet", SimpleNamespace(fleet=fleet))
        super().__init__(held, order, options, cast("Progress", None), cast("StopFlag", None))
        self.old = old

    def _start(self) -> int | None:
        return None

    def _syncs(self, *_names: object) -> Mapping[NodeName, SyncStats]:
        return {}

    def _kept_all_writes(self, *_told: object) -> bool:
        return True

    def _prove(self, *_started: float) -> tuple[NodeFacts, NodeFacts]:
        return healthy(cluster()).node(name("node-3")), self.old


@pytest.mark.parametrize(
    ("facts", "lost_bytes"),
    [
        pytest.param({"run_id": "before"}, 0, id="the same process"),
        pytest.param({"run_id": "after"}, None, id="started anew, it may have forgotten what it acknowledged"),
        pytest.param({"run_id": "before", "presence": Presence.HUNG}, None, id="it does not answer"),
    ],
)
def test_nothing_is_lost_only_where_the_old_primary_lives_on(facts: dict[str, Any], lost_bytes: int | None) -> None:
    old = replace(healthy(cluster()).node(name("node-0")), **facts)
    report = Ordered(old).carry_out()
    assert (report.lost_bytes, report.new, report.is_old_back) == (lost_bytes, "node-3", old.is_up)


FILE = b"version: 1\nname: limiter\nkind: cluster\ntarget: local\nmemory: {maxmemory: 256mb}\n"
PLAN = Plan(fleet="limiter", topology="", observed="", steps=())


def resizing(folder: Path) -> Resize:
    file = folder / "topology.yaml"
    file.write_bytes(FILE)
    return make_resize(file, FILE, None)


def run_resize(monkeypatch: pytest.MonkeyPatch, change: Resize, *, is_written: bool) -> None:
    def deploy(_held: object, _options: object, _progress: object, _stop: object, agree: Any) -> None:
        if is_written:
            agree(PLAN)
        raise TimedOut("node-1 is still loading", hint="wait")

    monkeypatch.setattr(resize, "_check_ready", lambda *_told: None)
    monkeypatch.setattr(resize, "run_deploy", deploy)
    fleet = answering(healthy(cluster()), check_deployable=lambda: None)
    held, stop = SimpleNamespace(fleet=fleet, take_key=lambda _observed: None), SimpleNamespace(check=None)
    progress: Any = SimpleNamespace(note=None)
    resize.run_resize(
        cast("LockedFleet", held), change, cast("Any", None), progress, cast("Any", stop), lambda _plan: None
    )


def test_a_failure_before_the_file_was_written_does_not_send_people_to_deploy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = resizing(tmp_path)
    with pytest.raises(TimedOut) as failure:
        run_resize(monkeypatch, change, is_written=False)
    assert (failure.value.message, failure.value.hint) == ("node-1 is still loading", "wait")
    assert change.file.read_bytes() == FILE


def test_a_failure_after_it_says_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = resizing(tmp_path)
    with pytest.raises(TimedOut) as failure:
        run_resize(monkeypatch, change, is_written=True)
    assert failure.value.message == f"node-1 is still loading; {change.file} now says maxmemory 512mb"
    assert failure.value.hint == "`rlctl deploy` continues; wait"
    assert b"maxmemory: 512mb" in change.file.read_bytes()


def machines(found: Mapping[str, HostFacts | RlctlError]) -> Mapping[str | None, HostFacts]:
    topology = replace(cluster(), target=TargetName.HOSTS)
    target = SimpleNamespace(machines=lambda: found)
    return resize._machines(cast("FleetSession", SimpleNamespace(topology=topology, target=target)))


def test_a_host_that_cannot_be_read_has_no_room() -> None:
    facts = cast("HostFacts", object())
    assert machines({"10.0.0.1": facts}) == {"10.0.0.1": facts}
    with pytest.raises(Unreachable, match=r"10.0.0.2 does not answer"):
        machines({"10.0.0.1": facts, "10.0.0.2": Unreachable("10.0.0.2 does not answer", hint="ssh")})
