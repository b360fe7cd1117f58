"""Scenario files: what each value may be, every mistake with its line, and the shipped ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlctl.drills.engine.run_files import rerun
from rlctl.drills.engine.run_request import RunRequest
from rlctl.drills.scenario.library import FLAGSHIPS, FOLDER, ORDER, find, flagships, shipped
from rlctl.drills.scenario.load import ScenarioFile, read_scenario
from rlctl.drills.scenario.model import (
    Await,
    AwaitedCondition,
    Budget,
    Burst,
    ClientLoad,
    Cut,
    Expectation,
    Failover,
    FailoverKind,
    Heal,
    Hold,
    Kill,
    LoadDrillScript,
    LoadMode,
    Metric,
    Pause,
    Restart,
    Resume,
    Scenario,
    Side,
)
from rlctl.errors import InvalidFile, NotFound, UsageFault
from rlctl.lab.partition import Flow
from rlctl.lab.roles import LabRole
from rlctl.lab.run_folder import RunFolder
from rlctl.topology.model import Kind

HEAD = "version: 1\nname: x\ntitle: t\nteaches: t\nneeds: t\nbreaks: t\nclaim: t\n"
BODY = "kinds: [cluster]\nsteps: [{hold: 1s}]\nexpect: [{metric: lost, most: 0}]\n"
# The first line behind BODY.
NEXT = 11


def file_of(more: str = "", *, head: str = HEAD, body: str = BODY) -> ScenarioFile:
    return read_scenario(f"{head}{body}{more}".encode(), "x.yaml")


def one(more: str = "", kind: Kind = Kind.CLUSTER, *, body: str = BODY) -> Scenario:
    return file_of(more, body=body).for_kind(kind)[0]


def steps(text: str, more: str = "") -> str:
    return f"kinds: [cluster]\nsteps: {text}\nexpect: [{{metric: lost, most: 0}}]\n{more}"


def expectations(text: str, more: str = "") -> str:
    return f"kinds: [cluster]\nsteps: [{{hold: 1s}}]\nexpect: {text}\n{more}"


def mistakes(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        read_scenario(text.encode(), "x.yaml")
    return str(caught.value.message).splitlines()


def test_what_is_not_said_has_its_default() -> None:
    found = one()
    assert (found.name, found.variant, found.label, found.kind) == ("x", "", "x", Kind.CLUSTER)
    assert (found.load, found.budget, found.settings, found.parameters) == (ClientLoad(), Budget(), {}, {})
    assert found.actions == (Hold(ms=1000),)
    assert found.expectations == (Expectation(metric=Metric.LOST, most=0.0),)


def test_a_full_load() -> None:
    text = """load:
  sides: [majority, minority]
  mode: bits
  connections: 2
  depth: 8
  rate: 1000
  timeout: 300ms
  wait: 1
  wait_timeout: 50ms
  limit: 7
  policy: local
  skew: 30s
  preload: false
"""
    assert one(text).load == ClientLoad(
        sides=(Side.MAJORITY, Side.MINORITY),
        mode=LoadMode.BITS,
        connections=2,
        depth=8,
        rate=1000,
        timeout_ms=300,
        wait_replicas=1,
        wait_ms=50,
        limit=7,
        policy="local",
        skew_ms=30_000,
        preload=False,
    )


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("hold: 0", Hold(ms=0)),
        ("hold: 800ms", Hold(ms=800)),
        ("await: {served: 15s}", Await(condition=AwaitedCondition.SERVED, within_ms=15_000)),
        ("burst: hot", Burst()),
        ("cut: {flow: replication, nodes: replicas}", Cut(flow=Flow.REPLICATION, role=LabRole.REPLICAS)),
        ("mend: all", Heal()),
        ("kill: victim", Kill(role=LabRole.VICTIM)),
        ("pause: second", Pause(role=LabRole.SECOND)),
        ("resume: shard", Resume(role=LabRole.SHARD)),
        ("restart: replica", Restart(role=LabRole.REPLICA)),
        ("failover: takeover", Failover(how=FailoverKind.TAKEOVER)),
        ("load_scripts: shard", LoadDrillScript()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_steps(text: str, action: object) -> None:
    assert one(body=steps(f"[{{{text}}}]")).actions == (action,)


PARAMETERS = 'parameters: {lag: 500ms, share: 5%, count: "7"}\n'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("2.5", 2.5),
        ("-3", -3.0),
        ("5%", 5.0),
        ("0.5%", 0.5),
        ("1500ms", 1500.0),
        ("lag", 500.0),
        ("share", 5.0),
        ("count", 7.0),
        ("lag + 1s", 1500.0),
        ("lag - 200ms", 300.0),
        ("lag - 1s", 0.0),
        ("count + 3", 10.0),
        ("lag + lag", 1000.0),
        ("lag+50", 550.0),
    ],
)
def test_bounds_and_what_parameters_add_up_to(text: str, value: float) -> None:
    found = one(PARAMETERS, body=expectations(f"[{{metric: gap_ms, least: {text}, most: {text}, why: so}}]"))
    assert found.expectations == (Expectation(metric=Metric.GAP, least=value, most=value, why="so"),)


@pytest.mark.parametrize(("text", "hold_ms"), [("lag", 500), ("lag + 1s", 1500), ("lag - 500ms", 0), ("0", 0)], ids=str)
def test_durations_and_what_parameters_add_up_to(text: str, hold_ms: int) -> None:
    assert one(body=steps(f"[{{hold: {text}}}]", PARAMETERS)).actions == (Hold(ms=hold_ms),)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param(BODY, 1, "`name` is missing", id="missing"),
        pytest.param(HEAD + BODY + "colour: red\n", NEXT, "the key `colour` is unknown", id="unknown key"),
        pytest.param(HEAD.replace("version: 1", "version: 2") + BODY, 1, "version 1", id="version"),
        pytest.param(HEAD.replace("name: x", "name: ../x") + BODY, 2, "`../x` is not a name", id="name of a path"),
        pytest.param(HEAD.replace("name: x", "name: X y") + BODY, 2, "`X y` is not a name", id="name with a space"),
        pytest.param(HEAD.replace("title: t", "title: []") + BODY, 3, "expected a text", id="no text"),
        pytest.param(HEAD.replace("title: t", "title:") + BODY, 3, "expected a text", id="empty text"),
        pytest.param(HEAD + BODY.replace("[cluster]", "[]"), 8, "at least one of cluster, sentinel", id="no kinds"),
        pytest.param(HEAD + BODY.replace("[cluster]", "[swarm]"), 8, "`swarm` is not one of", id="kind"),
        pytest.param(HEAD + BODY.replace("[cluster]", "cluster"), 8, "must be a list", id="no list"),
        pytest.param(HEAD + steps("[{explode: all}]"), 9, "a step is one of hold, await", id="step"),
        pytest.param(HEAD + steps("[{hold: 1s, kill: victim}]"), 9, "a step is one of", id="two in one"),
        pytest.param(HEAD + steps("[{only: cluster}]"), 9, "a step is one of", id="none in one"),
        pytest.param(HEAD + steps("[{hold: 1s, only: clutser}]"), 9, "`clutser` is not a kind", id="for nothing"),
        pytest.param(HEAD + steps("[hold]"), 9, "must be a mapping", id="step is no mapping"),
        pytest.param(HEAD + steps("[{kill: everybody}]"), 9, "`everybody` is not one of victim", id="who"),
        pytest.param(HEAD + steps("[{hold: 500}]"), 9, "`500` has no unit", id="duration without unit"),
        pytest.param(HEAD + steps("[{hold: 50%}]"), 9, "`50%`", id="duration in percent"),
        pytest.param(HEAD + steps("[{hold: -5}]"), 9, "`-5` is negative", id="negative duration"),
        pytest.param(HEAD + steps("[{hold: leg + 1s}]"), 9, "`leg` is not a duration", id="unknown parameter"),
        pytest.param(HEAD + steps("[{await: soon}]"), 9, "must be a mapping", id="await without deadline"),
        pytest.param(HEAD + steps("[{await: {soon: 1s}}]"), 9, "await is one of promoted", id="await what"),
        pytest.param(
            HEAD + steps("[{await: {silent: 1s}}]"), 9, "needs a client on side `minority`", id="nobody there"
        ),
        pytest.param(
            HEAD + steps("[{await: {used_up: 1s}}]", "load: {mode: bits}\n"), 9, "from the victim's", id="no decisions"
        ),
        pytest.param(
            HEAD + steps("[{await: {used_up: 1s}}]", "load: {sides: [others]}\n"), 9, "from the victim's", id="no hot"
        ),
        pytest.param(HEAD + steps("[{cut: {flow: data, nodes: victim}}]"), 9, "`data` is not one of", id="flow"),
        pytest.param(HEAD + steps("[{cut: {flow: replication}}]"), 9, "`nodes` is missing", id="cut of nobody"),
        pytest.param(HEAD + steps("[{cut: {flow: replication, nods: x}}]"), 9, "`nods` is unknown", id="cut key"),
        pytest.param(HEAD + expectations("[{metric: lost}]"), 10, "needs `least`, `most` or both", id="no bound"),
        pytest.param(HEAD + expectations("[{most: 1}]"), 10, "`metric` is missing", id="no metric"),
        pytest.param(HEAD + expectations("[{metric: luck, most: 1}]"), 10, "`luck` is not one of acked", id="metric"),
        pytest.param(HEAD + expectations("[{metric: lost, most: many}]"), 10, "`many`", id="bound"),
        pytest.param(HEAD + BODY + "load: {sides: []}\n", NEXT, "list at least one", id="nobody loads"),
        pytest.param(HEAD + BODY + "load: {sides: [stale, stale]}\n", NEXT, "side only once", id="twice the same side"),
        pytest.param(HEAD + BODY + "load: {rate: 0}\n", NEXT, "`0` is not a whole number from 1", id="no rate"),
        pytest.param(HEAD + BODY + "load: {limit: 0}\n", NEXT, "`0` is not a whole number from 1", id="no limit"),
        pytest.param(HEAD + BODY + "load: {connections: 256}\n", NEXT, "from 1 to 255", id="too many connections"),
        pytest.param(HEAD + BODY + "load: {depth: many}\n", NEXT, "`many` is not a whole number", id="no number"),
        pytest.param(HEAD + BODY + "load: {preload: maybe}\n", NEXT, "neither true nor false", id="boolean"),
        pytest.param(HEAD + BODY + "load: {speed: 9}\n", NEXT, "`speed` is unknown", id="load key"),
        pytest.param(HEAD + BODY + "budget: {gap: 5}\n", NEXT, "`5` has no unit", id="budget"),
        pytest.param(HEAD + BODY + "settings: {cluster.nodes: 5}\n", NEXT, "no such setting", id="setting"),
        pytest.param(
            HEAD + BODY + "settings: {cluster.node_timeout: soon}\n", NEXT, "cluster.node_timeout: ", id="value"
        ),
        pytest.param(HEAD + BODY + "variants: [{lag: 1s}]\n", NEXT, "a variant needs a `name`", id="nameless variant"),
        pytest.param(HEAD + BODY + "variants: [{name: a}, {name: a}]\n", NEXT, "has this name", id="same variant"),
        pytest.param(
            HEAD + BODY + "variants: [{name: a, lag: 1s}]\n", 1, "`lag`, which is not a parameter", id="set what"
        ),
        pytest.param(HEAD + BODY + "parameters: [a]\n", NEXT, "must be a mapping", id="parameters"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, line: int, words: str) -> None:
    [found] = [one for one in mistakes(text) if words in one]
    assert found.startswith(f"x.yaml:{line}: ")


def test_all_mistakes_are_named_at_once() -> None:
    text = HEAD + steps("[{hold: 5}, {kill: nobody}]", "load: {rate: 0}\n")
    assert [found.split(": ")[0] for found in mistakes(text)] == ["x.yaml:9", "x.yaml:9", "x.yaml:11"]


def test_what_is_only_for_the_other_kind_is_left_out() -> None:
    text = """kinds: [cluster, sentinel]
steps:
  - hold: 1s
  - {hold: 2s, only: cluster}
  - {hold: 3s, only: sentinel}
expect:
  - {metric: lost, most: 0, only: sentinel}
  - {metric: over, most: 0}
"""
    plain, watched = one(body=text), one(kind=Kind.SENTINEL, body=text)
    assert plain.actions == (Hold(ms=1000), Hold(ms=2000))
    assert watched.actions == (Hold(ms=1000), Hold(ms=3000))
    assert [seen.metric for seen in plain.expectations] == [Metric.OVER]
    assert [seen.metric for seen in watched.expectations] == [Metric.LOST, Metric.OVER]


VARIANTS = """parameters: {lag: 20ms, timeout: -}
variants:
  - {name: short}
  - {name: long, lag: 5s, timeout: 9s}
settings: {cluster.node_timeout: timeout}
"""


def test_each_variant_has_its_parameters() -> None:
    short, long = file_of(VARIANTS, body=steps("[{hold: lag}]")).for_kind(Kind.CLUSTER)
    assert [found.label for found in (short, long)] == ["x (short)", "x (long)"]
    assert (short.actions, long.actions) == ((Hold(ms=20),), (Hold(ms=5000),))
    assert (short.settings, long.settings) == ({}, {"cluster.node_timeout": "9s"})
    assert long.parameters == {"lag": "5s", "timeout": "9s"}


def test_a_step_can_be_for_one_variant_or_one_value() -> None:
    listed = "[{hold: 1s, only: long}, {hold: 2s, only: 20ms}, {hold: 3s, only: cluster}]"
    short, long = file_of(VARIANTS, body=steps(listed)).for_kind(Kind.CLUSTER)
    assert short.actions == (Hold(ms=2000), Hold(ms=3000))
    assert long.actions == (Hold(ms=1000), Hold(ms=3000))


def test_one_variant_is_found_by_its_name() -> None:
    assert file_of(VARIANTS, body=steps("[{hold: lag}]")).one(Kind.CLUSTER, "long").actions == (Hold(ms=5000),)


def test_a_mistake_in_a_variant_is_found_before_it_is_run() -> None:
    text = HEAD + steps("[{hold: lag}]", "parameters: {lag: 20ms}\nvariants: [{name: a}, {name: b, lag: soon}]\n")
    assert [found.split(": ")[0] for found in mistakes(text)] == ["x.yaml:9"]


def test_a_scenario_is_for_its_kinds() -> None:
    with pytest.raises(UsageFault, match="scenario x is for cluster, not for sentinel"):
        file_of().for_kind(Kind.SENTINEL)


def shipped_scenarios() -> Iterator[object]:
    for path in sorted(FOLDER.glob("*.yaml")):
        found = shipped(path.stem)
        for kind in found.kinds:
            yield pytest.param(path, kind, id=f"{path.stem}-{kind}")


@pytest.mark.parametrize(("path", "kind"), list(shipped_scenarios()))
def test_every_shipped_scenario_loads(path: Path, kind: Kind) -> None:
    for found in shipped(path.stem).for_kind(kind):
        assert found.name == path.stem
        assert found.name in ORDER
        assert found.actions
        assert found.expectations
        assert all((found.title, found.teaches, found.needs, found.breaks, found.claim))


def test_the_flagships_are_for_both_kinds() -> None:
    assert [one.name for one in flagships(Kind.CLUSTER)] == list(FLAGSHIPS)
    assert [one.name for one in flagships(Kind.SENTINEL)] == list(FLAGSHIPS)
    assert find("write-loss") is shipped("write-loss")


def test_a_scenario_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + BODY)
    assert find(str(path)).name == "x"


@pytest.mark.parametrize("name", ["nothing", "nothing.yaml"])
def test_a_scenario_that_is_not_there(name: str) -> None:
    with pytest.raises(NotFound):
        find(name)


def ordered(scenario: str, variant: str = "") -> RunRequest:
    return RunRequest(
        scenario=scenario,
        variant=variant,
        kind=Kind.SENTINEL,
        live=False,
        stock_timers=True,
        sandbox=True,
        base_port=7000,
        why_no_sandbox="",
        argv=("failover-drill", "run"),
        started="2026-01-01T00:00:00+00:00",
    )


def test_an_order_is_read_as_it_was_written() -> None:
    order = ordered("crash")
    assert RunRequest.from_json(order.to_json()) == order


def test_the_same_run_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a run")
    folder.open()
    copy = folder.root / "scenario.yaml"
    options = "--kind sentinel --variant 'lag 20 ms' --stock-timers"

    copy.write_bytes(shipped("lag-sweep").text)
    assert rerun(folder, ordered("lag-sweep", "lag 20 ms")) == f"rlctl failover-drill run lag-sweep {options}"
    copy.write_bytes(shipped("lag-sweep").text + b"# edited\n")
    assert rerun(folder, ordered("lag-sweep", "lag 20 ms")) == f"rlctl failover-drill run '{copy}' {options}"
    assert rerun(folder, ordered("of-ones-own", "lag 20 ms")) == f"rlctl failover-drill run '{copy}' {options}"
