"""Builders of synthetic drill runs, which count what they acknowledge, lose and admit."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rlctl.drills.record.evidence import Event, Evidence, ProbePing, TimedSample
from rlctl.drills.record.ledger import Ledger
from rlctl.drills.record.ops import HOT, NOWHERE, WAITED, Batch, ClientHistory, OpOutcome
from rlctl.drills.record.sample import SILENT, Sample
from rlctl.drills.scenario.model import ClientLoad, Expectation, Hold, Scenario
from rlctl.topology.model import Kind

VICTIM, OTHER = "node-0", "node-3"
SHARD = (VICTIM, OTHER)
# The times of every synthetic run. The old branch ends at one of the last two.
LOADED, FORK, PROMOTED, KILLED, MENDED, DEMOTED = 10.0, 12.0, 14.0, 13.0, 16.0, 16.2
STOPPED, HEALED, ENDED = 18.0, 18.4, 19.0
SAMPLE_EVERY = 0.2


class Phase(StrEnum):
    """The branch that executes a batch, and when."""

    BEFORE = "before"
    OLD = "old"
    NEW = "new"


class Fate(StrEnum):
    """The outcome of one operation. The first two carry the limiter's decision."""

    ANSWERED = "answered"
    TWICE = "twice"
    UNHEARD = "unheard"
    VANISHED = "vanished"
    REFUSED = "refused"
    UNSENT = "unsent"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """One batch of a synthetic run: its client, its phase and the fate of each operation."""

    client: str
    connection: int
    phase: Phase
    fates: tuple[tuple[Fate, bool], ...]
    is_waited: bool = False


@dataclass(slots=True, kw_only=True)
class Truth:
    """The numbers that the judge must find."""

    limit: int
    classes: Counter[str] = field(default_factory=Counter)
    waited: int = 0
    lost: int = 0
    lost_waited: int = 0
    recovered: int = 0
    kept_unconfirmed: int = 0
    duplicated: int = 0
    admitted: int = 0
    phantoms: int = 0
    lost_admits_before: int = 0
    lost_admits_after: int = 0
    has_hot: bool = False

    @property
    def over(self) -> int:
        return max(0, self.admitted - self.limit)


def event(name: str, at_s: float, until_s: float | None = None, nodes: Sequence[str] = (), **details: object) -> Event:
    """An event; nodes are a list, as in the journal."""
    about = {"nodes": list(nodes), **details} if nodes else details
    return Event(name=name, at_s=at_s, until_s=at_s if until_s is None else until_s, details=about)


def look(
    at_s: float, node: str, role: str, epoch: int = 1, asked_s: float | None = None, **facts: object
) -> TimedSample:
    """One sample of a node. Without a role, the node did not answer."""
    asked_s = at_s if asked_s is None else asked_s
    if not role:
        return TimedSample(at_s=at_s, asked_s=asked_s, node=node, sample=SILENT)
    link = "up" if role == "slave" else ""
    values = {"alive": True, "role": role, "epoch": epoch, "link": link, **facts}
    return TimedSample(at_s=at_s, asked_s=asked_s, node=node, sample=Sample(**values))  # type: ignore[arg-type]


def batch(first: int, codes: Iterable[int], sent_s: float, done_s: float, node: int = 0, connection: int = 0) -> Batch:
    """The operations of one connection."""
    return Batch(node=node, connection=connection, first=first, sent_s=sent_s, done_s=done_s, codes=bytes(codes))


def client(name: str, *batches: Batch, refusals: Mapping[str, int] | None = None) -> ClientHistory:
    """A client on the side that its name says."""
    return ClientHistory(name=name, side=name, batches=batches, refusals=dict(refusals or {}))


def ledger(ids: Iterable[int], admitted: Iterable[int] | None = None) -> Ledger:
    """A ledger. By default all operations were admitted."""
    listed = tuple(ids)
    return Ledger(ids=listed, admitted=listed if admitted is None else tuple(admitted))


def scenario(
    *expectations: Expectation, kind: Kind = Kind.CLUSTER, name: str = "made-up", load: ClientLoad | None = None
) -> Scenario:
    """A scenario without steps, because the judge reads only the evidence."""
    texts = dict.fromkeys(("title", "teaches", "needs", "breaks", "claim"), "")
    return Scenario(
        name=name,
        variant="",
        kind=kind,
        **texts,
        actions=(Hold(ms=1),),
        load=load or ClientLoad(limit=5),
        expectations=expectations,
    )


def write_loss_events() -> tuple[Event, ...]:
    """Events of a run: replication cut, victim killed, replica promoted, fault healed."""
    cut = event("cut", FORK, FORK + 0.01, ["node-3"], flow="replication", text="replication")
    return (event("begin", 9.0), event("loaded", LOADED), cut, event("kill", KILLED, None, [VICTIM]), *_ends())


def split_events() -> tuple[Event, ...]:
    """Events of a run: the victim is partitioned, then the partition is healed."""
    cut = event("cut", FORK, FORK + 0.01, [VICTIM], flow="everything", text="every flow")
    return (event("begin", 9.0), event("loaded", LOADED), cut, event("mend", MENDED, MENDED + 0.01), *_ends())


def _ends() -> tuple[Event, ...]:
    residue: list[str] = []
    return (
        event("stopping", STOPPED),
        event("heal", STOPPED + 0.1),
        event("healed", HEALED),
        event("cleaned", ENDED, residue=residue),
        event("ended", ENDED + 0.1),
    )


def looks(*, is_split: bool) -> tuple[TimedSample, ...]:
    """Samples of both nodes from before the load until after the heal."""
    back_s = DEMOTED if is_split else HEALED
    found = []
    for number in range(int((ENDED - LOADED + 0.6) / SAMPLE_EVERY)):
        at_s = round(LOADED - 0.4 + number * SAMPLE_EVERY, 3)
        is_up = is_split or not KILLED <= at_s < back_s
        old = look(at_s, VICTIM, "master" if at_s < back_s else "slave", 1 if at_s < back_s else 2)
        found.append(old if is_up else look(at_s, VICTIM, ""))
        if at_s < PROMOTED:
            condemns = at_s >= PROMOTED - 0.3
            found.append(look(at_s, OTHER, "slave", 1, suspects=condemns, condemns=condemns))
        else:
            found.append(look(at_s, OTHER, "master", 2))
    return tuple(found)


def pings(*, is_split: bool) -> tuple[ProbePing, ...]:
    """Probes: no answers across the partition, answers on the same side, and answers on both before it."""
    end_s = MENDED if is_split else KILLED
    words = []
    for number in range(100):
        at_s = round(LOADED + number * 0.05, 3)
        is_cut = FORK + 0.01 <= at_s < end_s
        words.append(ProbePing(at_s=at_s, name="inwards", is_across=True, heard=not is_cut))
        words.append(ProbePing(at_s=at_s, name="beside", is_across=False, heard=at_s < end_s))
    return tuple(words)


def simulate_run(
    batch_specs: Sequence[BatchSpec], limit: int = 5, *, is_split: bool = False, wait: int = 0
) -> tuple[Evidence, Truth]:
    """The evidence of a run with these batches, and its true numbers."""
    simulator = _Simulator(limit)
    for number, batch_spec in enumerate(_in_order(batch_specs)):
        simulator.add(batch_spec, _time(number, len(batch_specs), batch_spec.phase, is_split=is_split))
    names = ("majority", "minority") if is_split else ("majority",)
    load = ClientLoad(limit=limit, wait_replicas=wait)
    final = {name: ledger(simulator.kept[name], simulator.kept_admitted[name]) for name in names}
    doomed = {name: ledger(simulator.old[name], simulator.old_admitted[name]) for name in names}
    places = {"majority": SHARD, "minority": (VICTIM,)}
    made = Evidence(
        scenario=scenario(load=load),
        victim=VICTIM,
        shard=SHARD,
        method="made up",
        events=split_events() if is_split else write_loss_events(),
        samples=looks(is_split=is_split),
        pings=pings(is_split=is_split),
        clients=tuple(client(name, *simulator.batches[name]) for name in names),
        attempted={name: simulator.numbers[name] for name in names},
        ledgers={"doomed": {VICTIM: doomed}, "final": {node: dict(final) for node in SHARD}},
        places={name: places[name] for name in names},
    )
    return made, simulator.truth


def _in_order(batch_specs: Sequence[BatchSpec]) -> list[BatchSpec]:
    return sorted(batch_specs, key=lambda batch_spec: list(Phase).index(batch_spec.phase))


def _time(number: int, count: int, phase: Phase, *, is_split: bool) -> float:
    """A time within the phase that increases with the number of the batch."""
    start_s, end_s = {
        Phase.BEFORE: (LOADED + 0.1, FORK - 0.2),
        Phase.OLD: (FORK + 0.05, (DEMOTED if is_split else KILLED) - 0.05),
        Phase.NEW: (PROMOTED + 0.1, STOPPED - 0.1),
    }[phase]
    return start_s + (end_s - start_s) * (number + 1) / (count + 1)


class _Simulator:
    """Executes synthetic operations on two branches of one limiter and counts the results."""

    def __init__(self, limit: int) -> None:
        self.truth = Truth(limit=limit)
        self.batches: dict[str, list[Batch]] = {"majority": [], "minority": []}
        self.numbers: Counter[str] = Counter()
        self.kept: dict[str, list[int]] = {"majority": [], "minority": []}
        self.kept_admitted: dict[str, list[int]] = {"majority": [], "minority": []}
        self.old: dict[str, list[int]] = {"majority": [], "minority": []}
        self.old_admitted: dict[str, list[int]] = {"majority": [], "minority": []}
        self._spent = {"old": 0, "new": 0}
        self._at_s = 0.0

    def add(self, batch_spec: BatchSpec, at_s: float) -> None:
        self._at_s = at_s
        first = self.numbers[batch_spec.client]
        codes = [
            self._carry_out(batch_spec, first + n, fate, is_hot=hot) for n, (fate, hot) in enumerate(batch_spec.fates)
        ]
        self.numbers[batch_spec.client] += len(codes)
        node = {Phase.NEW: 1}.get(batch_spec.phase, 0)
        if all(fate is Fate.UNSENT for fate, _ in batch_spec.fates):
            node = NOWHERE
        self.batches[batch_spec.client].append(batch(first, codes, at_s - 0.001, at_s, node, batch_spec.connection))

    def _carry_out(self, batch_spec: BatchSpec, one: int, fate: Fate, *, is_hot: bool) -> int:
        truth, flags = self.truth, HOT if is_hot and fate is not Fate.UNSENT else 0
        truth.has_hot |= bool(flags)
        if fate is Fate.UNSENT:
            truth.classes["not_sent"] += 1
            return OpOutcome.NOT_SENT
        if fate is Fate.REFUSED:
            truth.classes["refused"] += 1
            return OpOutcome.REFUSED | flags
        if fate is Fate.VANISHED:
            truth.classes["indeterminate"] += 1
            return OpOutcome.INDETERMINATE | flags
        is_admitted = self._execute(batch_spec, one, is_hot=is_hot)
        is_lost = batch_spec.phase is Phase.OLD
        if fate is Fate.UNHEARD:
            truth.classes["indeterminate"] += 1
            truth.recovered += not is_lost
            truth.phantoms += is_hot and is_admitted and not is_lost
            return OpOutcome.INDETERMINATE | flags
        if fate is Fate.TWICE:
            again = self._execute(batch_spec, one, is_hot=is_hot)
            truth.duplicated += not is_lost
            truth.phantoms += is_hot and again and not is_lost
        return self._answer(batch_spec, is_admitted=is_admitted, is_hot=is_hot) | flags

    def _answer(self, batch_spec: BatchSpec, *, is_admitted: bool, is_hot: bool) -> int:
        truth, is_lost = self.truth, batch_spec.phase is Phase.OLD
        truth.classes["acked"] += 1
        truth.lost += is_lost
        truth.waited += batch_spec.is_waited
        truth.lost_waited += is_lost and batch_spec.is_waited
        truth.kept_unconfirmed += not is_lost and not batch_spec.is_waited
        if is_hot and is_admitted:
            truth.admitted += 1
            is_late = self._at_s >= PROMOTED
            truth.lost_admits_before += is_lost and not is_late
            truth.lost_admits_after += is_lost and is_late
        outcome = OpOutcome.ADMITTED if is_admitted else OpOutcome.DENIED
        return outcome | (WAITED if batch_spec.is_waited else 0)

    def _execute(self, batch_spec: BatchSpec, one: int, *, is_hot: bool) -> bool:
        branches = {Phase.BEFORE: ("old", "new"), Phase.OLD: ("old",), Phase.NEW: ("new",)}[batch_spec.phase]
        is_admitted = not is_hot or self._spent[branches[0]] < self.truth.limit
        for branch in branches:
            self._spent[branch] += is_hot and is_admitted
        for wanted, ids, admitted in (("old", self.old, self.old_admitted), ("new", self.kept, self.kept_admitted)):
            if wanted in branches:
                ids[batch_spec.client].append(one)
                admitted[batch_spec.client].extend([one] if is_admitted else [])
        return is_admitted


def answered(
    client_name: str, phase: Phase, count: int, *, hot: bool = False, connection: int = 0, is_waited: bool = False
) -> BatchSpec:
    """A batch with an answer to every operation."""
    fates = ((Fate.ANSWERED, hot),) * count
    return BatchSpec(client=client_name, connection=connection, phase=phase, fates=fates, is_waited=is_waited)


def with_final(evidence: Evidence, name: str, change: Ledger, nodes: Sequence[str] = SHARD) -> Evidence:
    """The evidence with other final ledgers of one client on some nodes."""
    final = {node: {**books, **({name: change} if node in nodes else {})} for node, books in final_of(evidence).items()}
    return replace(evidence, ledgers={**evidence.ledgers, "final": final})


def final_of(evidence: Evidence) -> Mapping[str, Mapping[str, Ledger]]:
    """The final ledgers of the nodes."""
    return evidence.ledgers["final"]


def without(evidence: Evidence, *names: str) -> Evidence:
    """The same run without the events of these names."""
    return replace(evidence, events=tuple(one for one in evidence.events if one.name not in names))
