"""Changing the rules of a fleet: what is refused before it is stored, what is recorded, and what failures leave."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rlctl.errors import AccessDenied, Declined, NotFound, Refused, RlctlError, Unreachable
from rlctl.execute import fleet_records
from rlctl.execute.locking import LockedFleet
from rlctl.limits.rule import HISTORY_KEY, POINTER_KEY, Revision, RuleSet, revision_key
from rlctl.observe.model import Observed, Presence
from rlctl.rules.change import ChangeRequest, ChangeResult, NotReadBack, RampStep, _change, make_plan
from rlctl.rules.edits import replace_rules
from rlctl.rules.in_force import RulesStatus, read_rules_in_force, rules_status
from rlctl.rules.store import Pointer
from rlctl.system.redis import Closed, CommandFailed
from rlctl.topology.model import Topology
from tests.unit.fleets import changed, fresh, healthy, killed, watched
from tests.unit.rules.documents import EVERY, EXAMPLE, revision, rule_set
from tests.unit.rules.fleets import HISTORIAN, KEEPER, REPLICA, WIDE, Fleet, pointer_fields
from tests.unit.servers import Server

ONE, TWO = revision(EXAMPLE, 1), revision(EVERY, 2, 1)
AT = "2026-01-02T03:04:05.678+00:00"


def apply(
    fleet: Fleet,
    made: RuleSet | Revision,
    journal: Path,
    agree: Callable[[Any], None] | None = None,
    **more: Any,
) -> tuple[ChangeResult, list[str]]:
    """The outcome, and what was noted and checked on the way."""
    notes: list[str] = []
    fleet.journal = journal
    held = SimpleNamespace(
        fleet=fleet.as_fleet(), take_key=lambda _observed: notes.append("take"), check=lambda: notes.append("check")
    )
    request = ChangeRequest(
        by="ada",
        verb="apply",
        why="apply --now",
        agree=agree,
        progress=cast("Any", SimpleNamespace(note=notes.append)),
        **more,
    )
    return _change(cast("LockedFleet", held), request, replace_rules(made)), notes


def events(journal: Path) -> list[tuple[str, str | None]]:
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [(line["event"], line.get("outcome") or line.get("command")) for line in lines]


def test_the_rules_in_force() -> None:
    now = Fleet(ONE, TWO).in_force()
    assert (now.revision, now.trouble, now.version, now.number, now.rules) == (TWO, None, TWO.version, 2, TWO.rules)
    assert now.required() == TWO


def test_no_rules_are_in_force() -> None:
    now = Fleet().in_force()
    assert (now.pointer, now.revision, now.version, now.number, now.rules) == (None, None, None, None, None)
    with pytest.raises(NotFound, match="no rules are in force"):
        now.required()


@pytest.mark.parametrize(
    ("damage", "error", "number"),
    [
        (lambda server: server.texts.clear(), NotFound, 2),
        (lambda server: server.texts.update({revision_key(2): "{"}), Refused, 2),
        (lambda server: server.hashes[POINTER_KEY].update(revision="x"), Refused, None),
    ],
)
def test_rules_in_force_that_cannot_be_read(
    damage: Callable[[Server], None], error: type[RlctlError], number: int | None
) -> None:
    fleet = Fleet(ONE, TWO)
    damage(fleet.admin[KEEPER])
    now = fleet.in_force()
    assert (now.revision, now.rules, now.number) == (None, None, number)
    with pytest.raises(error):
        now.required()


LOST = killed(healthy(WIDE), KEEPER)


@pytest.mark.parametrize(
    ("observed", "error", "text"),
    [
        (fresh(WIDE), NotFound, "fleet limiter is not deployed"),
        (
            LOST,
            Unreachable,
            "the primary that stores the rules does not answer; services keep deciding by the rules they have",
        ),
        (
            changed(LOST, "node-0", presence=Presence.DENIED, evidence="WRONGPASS"),
            AccessDenied,
            "node-0 refuses the password (WRONGPASS)",
        ),
    ],
)
def test_rules_that_cannot_be_asked_for(observed: Observed, error: type[RlctlError], text: str) -> None:
    with pytest.raises(error) as caught:
        Fleet(observed=observed).in_force()
    assert (caught.value.message, bool(caught.value.hint)) == (text, True)


def test_what_was_observed_is_not_observed_again() -> None:
    fleet = Fleet(ONE)
    seen = fleet.observed
    fleet.observed = fresh(WIDE)
    assert read_rules_in_force(fleet.as_fleet(), seen).observed is seen


@pytest.mark.parametrize("topology", [WIDE, watched()], ids=["cluster", "sentinel"])
def test_the_first_rules(topology: Topology, tmp_path: Path) -> None:
    fleet = Fleet(topology=topology)
    outcome, notes = apply(fleet, TWO.rules, tmp_path / "journal")
    assert outcome.changed
    assert outcome.before is None
    assert outcome.revision == replace(TWO, number=1, parent=None, by="ada", at=AT, why="apply --now")
    assert {node.version for node in outcome.nodes} == {outcome.revision.version}
    assert notes == ["take", "check"]
    assert events(tmp_path / "journal") == [("begin", "rules apply"), ("step", "done"), ("end", "done")]
    document = outcome.to_json("apply")
    assert (document["schema"], document["changed"]) == ("rlctl.rules-apply/1", True)
    assert (document["revision"], document["before"]) == (1, None)
    assert [node["current"] for node in cast("list[dict[str, object]]", document["nodes"])] == [True] * len(
        outcome.nodes
    )


def test_later_rules_are_recorded(tmp_path: Path) -> None:
    fleet = Fleet(ONE, TWO)
    fleet.admin[KEEPER].hashes[POINTER_KEY]["last"] = "7"
    outcome, _notes = apply(fleet, ONE.rules, tmp_path / "journal")
    assert outcome.revision is not None
    assert (outcome.revision.number, outcome.revision.parent, outcome.before) == (8, 2, 2)
    [values] = fleet.moved
    assert values[:3] == ("2", TWO.version.digest, 8)
    entry = {"revision": 8, "before": 2, "why": "apply --now", "by": "ada", "at": AT}
    assert json.loads(values[5]) == entry
    [summary] = map(json.loads, fleet.admin[HISTORIAN].lists[fleet_records.HISTORY_KEY])
    changed_rules = [rule.id for rule in (*ONE.rules.rules, *TWO.rules.rules)]
    assert sorted(summary.pop("rules")) == sorted(changed_rules)
    assert summary == {"kind": "rules", **entry}


def test_going_back_moves_only_the_pointer(tmp_path: Path) -> None:
    fleet = Fleet(ONE, TWO)
    outcome, _notes = apply(fleet, ONE, tmp_path / "journal")
    assert (outcome.revision, outcome.before) == (ONE, 2)
    assert fleet.moved[0][2:5] == (1, ONE.version.digest, "")


def test_going_back_to_the_same_rules_moves_the_pointer_too(tmp_path: Path) -> None:
    same = replace(ONE, number=3, parent=1)
    fleet = Fleet(ONE, same)
    outcome, _notes = apply(fleet, ONE, tmp_path / "journal")
    assert (outcome.changed, outcome.plan.changes, fleet.moved[0][2]) == (True, (), 1)


@pytest.mark.parametrize("made", [TWO, TWO.rules], ids=["the revision", "its rules"])
def test_what_is_in_force_is_not_stored_again(made: RuleSet | Revision, tmp_path: Path) -> None:
    fleet = Fleet(ONE, TWO)
    outcome, notes = apply(fleet, made, tmp_path / "journal")
    assert (outcome.changed, outcome.nodes, outcome.revision, outcome.before) == (False, (), TWO, 2)
    assert (fleet.moved, notes, (tmp_path / "journal").exists()) == ([], ["take"], False)
    assert outcome.to_json("apply")["nodes"] == []


def test_a_ramp_is_recorded_with_the_revision_before_it(tmp_path: Path) -> None:
    fleet = Fleet(ONE)
    ramp = RampStep(last=lambda _now: TWO.rules, before=5)
    outcome, _notes = apply(fleet, TWO.rules, tmp_path / "journal", ramp=ramp)
    assert outcome.revision is not None
    assert outcome.revision.before_ramp == 5


def test_of_a_ramp_enforcement_that_ends_at_its_last_step_is_said() -> None:
    now = Fleet(TWO).in_force()
    without = rule_set(EXAMPLE)
    assert make_plan(now, TWO.rules).ends == ()
    ends = make_plan(now, TWO.rules, RampStep(last=lambda _now: without)).ends
    assert [one.definition.id for one in ends] == [one.definition.id for one in make_plan(now, without).ends]
    assert ends


def test_a_plan_that_is_declined_changes_nothing(tmp_path: Path) -> None:
    def decline(plan: Any) -> None:
        assert plan.to_json()["revision"] == 1
        raise Declined("no")

    fleet = Fleet(ONE)
    with pytest.raises(Declined):
        apply(fleet, TWO.rules, tmp_path / "journal", decline)
    assert fleet.moved == []


def test_rules_whose_scripts_a_node_lacks_are_refused(tmp_path: Path) -> None:
    fleet = Fleet(ONE)
    fleet.lacking["node-9"] = [1, 0, 1, 1, 1, 1, 0]
    with pytest.raises(Refused) as caught:
        apply(fleet, TWO.rules, tmp_path / "journal")
    names = [f"{rule.definition.algorithm} {rule.script.version}" for rule in TWO.rules.rules]
    assert caught.value.message == f"node-9 lacks {names[1]}, {names[6]}; the rules are unchanged"
    assert fleet.moved == []


def test_a_node_that_is_down_is_not_asked_for_scripts(tmp_path: Path) -> None:
    fleet = Fleet(ONE, observed=killed(healthy(WIDE), "node-9"))
    fleet.lacking["node-9"] = [0] * 7
    assert apply(fleet, TWO.rules, tmp_path / "journal")[0].changed


@pytest.mark.parametrize("failure", [Closed("gone"), CommandFailed("NOPERM")])
def test_a_node_that_cannot_be_asked_for_scripts(failure: Exception, tmp_path: Path) -> None:
    def fail(_command: object) -> object:
        raise failure

    fleet = Fleet(ONE)
    fleet.admin["node-9"].answer = fail
    with pytest.raises(Unreachable, match=f"node-9: {failure}"):
        apply(fleet, TWO.rules, tmp_path / "journal")


def test_another_operator_was_quicker(tmp_path: Path) -> None:
    fleet = Fleet(ONE)
    fleet.is_quick = False
    with pytest.raises(Refused, match="another operator changed"):
        apply(fleet, TWO.rules, tmp_path / "journal")
    assert events(tmp_path / "journal") == [("begin", "rules apply"), ("end", "refused")]


def test_a_replica_that_does_not_follow_in_time(tmp_path: Path) -> None:
    fleet = Fleet(ONE)
    fleet.follows = False
    with pytest.raises(NotReadBack) as caught:
        apply(fleet, TWO.rules, tmp_path / "journal", read_back_s=1.5)
    text = "revision 2 is in force, but node-8 did not confirm it within 1.5 s: has another revision"
    assert (caught.value.message, caught.value.exit_code) == (text, NotReadBack.exit_code)
    assert caught.value.outcome.changed
    assert events(tmp_path / "journal")[-1] == ("end", "not-read-back")


def test_a_replica_that_says_why_it_does_not_follow(tmp_path: Path) -> None:
    fleet = Fleet(ONE)
    lacks = fleet.admin[REPLICA].answer
    fleet.admin[REPLICA].answer = lambda command: CommandFailed("LOADING") if command[0] == "HMGET" else lacks(command)
    with pytest.raises(NotReadBack, match=r"node-8 did not confirm it within 5 s: LOADING$"):
        apply(fleet, TWO.rules, tmp_path / "journal")


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_history_that_cannot_be_written_undoes_nothing(tmp_path: Path, *, is_gone: bool) -> None:
    fleet = Fleet(ONE, observed=killed(healthy(WIDE), HISTORIAN) if is_gone else None)
    ours = fleet.admin[HISTORIAN].answer
    fleet.admin[HISTORIAN].answer = lambda command: CommandFailed("OOM") if command[0] == "LPUSH" else ours(command)
    outcome, notes = apply(fleet, TWO.rules, tmp_path / "journal")
    assert outcome.changed
    why = "its primary does not answer" if is_gone else "127.0.0.1:7000 refuses to store the registry: OOM"
    assert notes[-1] == f"the fleet's history could not be written: {why}"


def test_the_status_of_the_rules() -> None:
    fleet = Fleet(ONE, TWO)
    fleet.admin[KEEPER].lists[HISTORY_KEY] = ['{"why": "apply"}']
    found = rules_status(fleet.as_fleet())
    assert found.lagging_nodes == ()
    document = found.to_json()
    assert document["schema"] == "rlctl.rules-status/1"
    assert {key: document[key] for key in ("name", "revision", "digest", "trouble", "parent", "release")} == {
        "name": "limiter",
        "revision": 2,
        "digest": TWO.version.digest,
        "trouble": None,
        "parent": 1,
        "release": TWO.rules.release,
    }
    assert {key: document[key] for key in ("by", "at", "why", "history")} == {
        "by": TWO.by,
        "at": TWO.at,
        "why": TWO.why,
        "history": [{"why": "apply"}],
    }
    assert len(cast("list[object]", document["rules"])) == 7
    assert [node["current"] for node in cast("list[dict[str, object]]", document["nodes"])] == [True, True]


def test_the_status_without_rules() -> None:
    document = rules_status(Fleet().as_fleet()).to_json()
    nothing = ("revision", "digest", "trouble", "parent", "release", "by", "at", "why")
    assert {key: document[key] for key in nothing} == dict.fromkeys(nothing)
    assert (document["rules"], document["history"]) == ([], [])


def test_the_status_of_rules_that_cannot_be_read() -> None:
    fleet = Fleet(ONE)
    fleet.admin[KEEPER].texts.clear()
    document = rules_status(fleet.as_fleet()).to_json()
    assert (document["revision"], document["by"], document["rules"]) == (1, None, [])
    assert str(document["trouble"]).startswith("the fleet has no revision 1")


def test_stragglers_say_something_else_or_nothing() -> None:
    fleet = Fleet(ONE, TWO)
    fleet.admin[REPLICA].hashes[POINTER_KEY] = pointer_fields(ONE)
    found = rules_status(fleet.as_fleet())
    assert [node.name for node in found.lagging_nodes] == [REPLICA]
    silent = replace(found.nodes[1], version=TWO.version, evidence="LOADING")
    now = replace(found.in_force, pointer=Pointer(version=TWO.version, last=2, held=("2", "")))
    assert RulesStatus(in_force=now, nodes=(found.nodes[0], silent), entries=()).lagging_nodes == (silent,)
