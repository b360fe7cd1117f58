"""The folder of a run read back: of one that came to its end, and of one that was killed anywhere."""

import json
from pathlib import Path

import pytest

from rlctl.drills.judge.verdict import DrillVerdict, judge
from rlctl.drills.record.evidence import Event, ProbePing
from rlctl.drills.record.ledger import Ledger
from rlctl.drills.record.load import read_evidence
from rlctl.drills.record.ops import OpOutcome
from rlctl.drills.scenario.model import ClientLoad, LoadMode, Scenario
from rlctl.lab.run_folder import RunFolder
from tests.unit.drill_runs import OTHER, SHARD, VICTIM, batch, look, scenario

LEDGER = b"*2\r\n$10\r\n000000000+\r\n$10\r\n000000001-\r\n"
BATCH = batch(0, [OpOutcome.ADMITTED, OpOutcome.DENIED, OpOutcome.REFUSED], 10.1, 10.2)
SAMPLE = {"t": 10.0, "event": "sample", "node": VICTIM, "alive": True, "role": "master", "epoch": 1, "link": ""}
LINES: list[dict[str, object]] = [
    {"t": 9.0, "event": "begin", "victim": VICTIM, "shard": SHARD, "clients": {"majority": SHARD}, "method": "rules"},
    {"t": 10.0, "event": "loaded"},
    {"t": 12.0, "event": "cut", "until": 12.1, "flow": "replication", "nodes": [OTHER]},
    {**SAMPLE, "t": 10.5, "node": OTHER, "role": "slave", "link": "up"},
    SAMPLE,
    {"t": 11.0, "event": "canary", "name": "beside", "across": False, "notes": [[10.7, 10.8], [10.6, None]]},
]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.open()
    made.journal.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    made.history("majority").write_bytes(BATCH.pack())
    made.write("clients.json", {"majority": {"attempted": 3, "refusals": {"MOVED": 1}, "hops": 2}})
    for node in SHARD:
        made.ledger("final", node, "majority").write_bytes(LEDGER)
    made.ledger("doomed", VICTIM, "majority").write_bytes(LEDGER)
    return made


def test_everything_that_was_written_down(folder: RunFolder) -> None:
    found = read_evidence(folder, scenario())
    assert (found.victim, found.shard, found.method) == (VICTIM, SHARD, "rules")
    assert found.places == {"majority": SHARD}
    assert [event.name for event in found.events] == ["begin", "loaded", "cut"]
    assert found.events[-1] == Event(
        name="cut", at_s=12.0, until_s=12.1, details={"flow": "replication", "nodes": [OTHER]}
    )
    assert found.events[-1].nodes == (OTHER,)
    assert found.samples == (look(10.0, VICTIM, "master"), look(10.5, OTHER, "slave"))
    assert [(one.at_s, one.heard) for one in found.pings] == [(10.6, False), (10.7, True)]
    assert found.pings[0] == ProbePing(at_s=10.6, name="beside", is_across=False, heard=False)
    [history] = found.clients
    assert (history.name, history.side, history.batches) == ("majority", "majority", (BATCH,))
    assert (history.refusals, history.hops, found.attempted) == ({"MOVED": 1}, 2, {"majority": 3})
    own = {"majority": Ledger(ids=(0, 1), admitted=(0,))}
    assert found.ledgers == {"doomed": {VICTIM: own}, "final": dict.fromkeys(SHARD, own)}


def test_a_killed_run_has_what_it_has(folder: RunFolder) -> None:
    (folder.root / "clients.json").unlink()
    for path in folder.root.glob("ledger-*"):
        path.unlink()
    folder.history("majority").write_bytes(BATCH.pack() + BATCH.pack()[:-1])
    with folder.journal.open("a") as stream:
        stream.write('{"t": 13.0, "event": "ki')
    found = read_evidence(folder, scenario())
    assert [event.name for event in found.events] == ["begin", "loaded", "cut"]
    assert found.clients[0].batches == (BATCH,)
    assert (found.attempted, found.ledgers) == ({"majority": None}, {"doomed": {}, "final": {}})
    assert judge(found).reasons[0] == "the run was killed after `cut`"


def test_a_run_that_was_killed_before_it_began(tmp_path: Path) -> None:
    found = read_evidence(RunFolder(tmp_path / "nothing"), scenario())
    assert (found.victim, found.shard, found.clients, found.events) == ("", (), (), ())
    assert judge(found).verdict is DrillVerdict.INCONCLUSIVE


def test_a_client_that_noted_nothing(folder: RunFolder) -> None:
    folder.history("majority").unlink()
    folder.write("clients.json", {"majority": {}})
    found = read_evidence(folder, scenario())
    assert (found.clients[0].batches, found.clients[0].refusals, found.attempted["majority"]) == ((), {}, None)


@pytest.mark.parametrize(
    "raw", [b"-LOADING Redis is loading the dataset in memory\r\n", LEDGER[:-8], b""], ids=["error", "torn", "empty"]
)
def test_what_is_no_ledger_is_not_there(folder: RunFolder, raw: bytes) -> None:
    folder.ledger("final", OTHER, "majority").write_bytes(raw)
    assert set(read_evidence(folder, scenario()).ledgers["final"]) == {VICTIM}


def test_bitmaps_are_read_as_such(folder: RunFolder) -> None:
    folder.ledger("final", VICTIM, "majority").write_bytes(b"$1\r\n\xc0\r\n")
    folder.ledger("final", OTHER, "majority").write_bytes(b"$-1\r\n")
    bits: Scenario = scenario(load=ClientLoad(mode=LoadMode.BITS))
    final = read_evidence(folder, bits).ledgers["final"]
    assert final[VICTIM]["majority"] == Ledger(ids=(0, 1), admitted=(0, 1))
    assert final[OTHER]["majority"].ids == ()
