"""What must hold of the drill itself; where one does not, the run proves nothing about Redis. Pure."""

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlctl.drills.judge.accounts import Account, Op
from rlctl.drills.judge.admission import Admission
from rlctl.drills.judge.times import Times
from rlctl.drills.record.evidence import Evidence, ProbePing
from rlctl.drills.scenario.model import LoadMode, Side

# A reply may be on its way when the cut begins: the last instants before it belong to its window.
_EDGE_S = 0.05
# What a killed or replaced primary had acknowledged and not yet sent on.
_IN_FLIGHT_S = 1.0
_CANARY_SHARE = 0.95
_SHORT_CUT_S = 0.1
# By then every replica has been looked at once more.
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One invariant and what was found; a check that had nothing to look at is not made."""

    code: str
    text: str
    ok: bool
    evidence: str

    def to_json(self) -> dict[str, object]:
        """As the result shows it."""
        return {"code": self.code, "text": self.text, "ok": self.ok, "evidence": self.evidence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A cut and how well it was proven; `verified` is None where it was too short for a word in it."""

    verified: bool | None
    cut_ms: float | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time in which what one node acknowledges can get lost."""

    node: str
    start_s: float
    end_s: float

    def has(self, op: Op) -> bool:
        """Whether the operation was under way to this node at this time."""
        return op.node == self.node and self.start_s <= op.done_s and op.sent_s <= self.end_s


def invariants(
    evidence: Evidence, accounts: Sequence[Account], admission: Admission | None, times: Times, cut: Cut
) -> tuple[Check, ...]:
    """All checks of a run."""
    checks = [_books_close(evidence, accounts), _nothing_left(evidence), _healed(evidence)]
    if evidence.scenario.load.mode is not LoadMode.LIBRARY:
        checks.append(_ledgers_agree(evidence))
    if accounts and all(account.is_measured for account in accounts):
        checks += [
            _nothing_unexpected(accounts),
            _refused_stay_away(accounts),
            _losses_explained(evidence, accounts, times),
            _losses_are_tails(evidence, accounts, times),
        ]
    if times.promoted_s is not None:
        checks.append(_was_elected(evidence, times))
    if evidence.scenario.name == "control":
        checks.append(_control_is_clean(accounts, admission))
    if cut.verified is not None:
        checks.append(Check(code="I7", text="the fault was in effect", ok=cut.verified, evidence=cut.evidence))
    if admission is not None:
        rest = admission.by_cause["unexplained"]
        checks.append(
            Check(code="I6b", text="every admission too many has a cause", ok=rest == 0, evidence=f"{rest} without one")
        )
    return tuple(checks)


def verified_cut(evidence: Evidence) -> Cut:
    """Whether the canaries across the cut fell silent while those beside it were heard."""
    began = evidence.first("cut")
    if began is None:
        return Cut(verified=None, cut_ms=None, evidence="nothing was cut")
    ends = [
        event.at_s
        for event in evidence.events
        if event.name in {"mend", "kill", "pause", "heal"} and event.at_s > began.at_s
    ]
    end_s = min(ends, default=evidence.stopped_s)
    cut_ms = round((end_s - began.until_s) * 1000, 1)
    across = [
        one.is_silent_until(end_s) for one in evidence.pings if one.is_across and began.until_s <= one.at_s < end_s
    ]
    # What was said just before a kill is answered by nobody, which is not the cut's doing.
    last_s = end_s - _EDGE_S
    beside = [one.heard for one in evidence.pings if not one.is_across and began.until_s <= one.at_s < last_s]
    before = _heard_before(evidence.pings, began.at_s - _EDGE_S)
    if end_s - began.until_s < _SHORT_CUT_S and not (across and beside):
        return Cut(verified=None, cut_ms=cut_ms, evidence="too short for canaries")
    if not evidence.pings:
        return _by_replicas(evidence, began.until_s, end_s, cut_ms)
    silent, heard = _share(across), _share(beside)
    has_spoken = bool(across and beside and before)
    ok = has_spoken and min(silent, heard, *before.values()) >= _CANARY_SHARE
    told = f"across the cut {silent:.0%} of {len(across)} silent, beside it {heard:.0%} of {len(beside)} heard"
    told += "".join(f", {name} before it {share:.0%}" for name, share in before.items() if share < _CANARY_SHARE)
    return Cut(verified=ok, cut_ms=cut_ms, evidence=told)


def _heard_before(pings: Iterable[ProbePing], until_s: float) -> dict[str, float]:
    """How much of each canary was heard before the cut: who was silent already proves nothing by silence."""
    words: dict[str, list[bool]] = {}
    for one in pings:
        if one.at_s < until_s:
            words.setdefault(one.name, []).append(one.heard)
    return {name: _share(heard) for name, heard in words.items()}


def _by_replicas(evidence: Evidence, start_s: float, end_s: float, cut_ms: float) -> Cut:
    """Where no canary can sit, the replicas themselves say that their primary does not answer them.

    A look that was asked for before the cut may be answered, or noted, long after it.
    """
    replicas = set(evidence.shard) - {evidence.victim}
    looks = [
        seen.sample.link != "up"
        for seen in evidence.samples
        if seen.node in replicas and seen.asked_s >= start_s + _LOOK_S and seen.at_s < end_s
    ]
    down = _share(looks)
    told = f"in {down:.0%} of {len(looks)} looks the replicas had lost their primary"
    return Cut(verified=bool(looks) and down >= _CANARY_SHARE, cut_ms=cut_ms, evidence=told)


def _share(words: Iterable[bool]) -> float:
    listed = list(words)
    return sum(listed) / len(listed) if listed else 1.0


def _nothing_unexpected(accounts: Sequence[Account]) -> Check:
    found = sum(len(account.unexpected) for account in accounts)
    return Check(code="I1", text="nothing survives that nobody sent", ok=found == 0, evidence=f"{found} such ids")


def _refused_stay_away(accounts: Sequence[Account]) -> Check:
    found = sum(len(account.refused_survivors) for account in accounts)
    return Check(code="I2", text="no refused operation took effect", ok=found == 0, evidence=f"{found} such ids")


def _books_close(evidence: Evidence, accounts: Sequence[Account]) -> Check:
    off = []
    for account in accounts:
        attempted = evidence.attempted.get(account.name)
        classes = len(account.acked) + len(account.refused) + len(account.indeterminate) + account.not_sent
        if attempted is None or not attempted == account.recorded == classes:
            off.append(f"{account.name}: {attempted} attempted, {classes} classified")
    told = "; ".join(off) or "acked + refused + indeterminate + not sent = attempted"
    return Check(code="I3", text="the books close", ok=not off, evidence=told)


def _control_is_clean(accounts: Sequence[Account], admission: Admission | None) -> Check:
    lost = sum(len(account.lost) for account in accounts)
    unclear = sum(len(account.indeterminate) for account in accounts)
    over = admission.over if admission else 0
    told = f"lost {lost}, over {over}, indeterminate {unclear}"
    return Check(code="I4", text="without a fault nothing is found", ok=lost == over == unclear == 0, evidence=told)


def _ledgers_agree(evidence: Evidence) -> Check:
    final = evidence.ledgers.get("final", {})
    here = [client.name for client in evidence.clients if client.side != Side.OTHERS]
    books = {node: final.get(node, {}) for node in evidence.shard}
    missing = sorted({node for node, book in books.items() for client in here if client not in book})
    differ = any(book != books[evidence.shard[0]] for book in books.values())
    told = "all nodes of the shard hold the same ledgers"
    if missing or not books:
        told = f"no whole final ledger of {', '.join(missing) or 'any node'}"
    elif differ:
        told = "replicas hold another ledger than their primary"
    return Check(
        code="I5",
        text="replicas equal their primary at the end",
        ok=bool(books) and not missing and not differ,
        evidence=told,
    )


def _losses_explained(evidence: Evidence, accounts: Sequence[Account], times: Times) -> Check:
    windows = loss_windows(evidence, times)
    lost = [op for account in accounts for op in account.lost]
    strange = [op for op in lost if not any(window.has(op) for window in windows)]
    told = f"{len(strange)} of {len(lost)} lost outside every window of the fault"
    return Check(code="I6", text="every loss lies in a window of the fault", ok=not strange, evidence=told)


def loss_windows(evidence: Evidence, times: Times) -> tuple[Window, ...]:
    """When an acknowledgement can be worth nothing: by the victim up to its demotion, by whoever else was killed."""
    windows = []
    for event in evidence.events:
        if event.name not in {"cut", "kill", "pause", "failover"}:
            continue
        before_s = _EDGE_S if event.name == "cut" else _IN_FLIGHT_S
        nodes = {evidence.victim, *(event.nodes if event.name in {"kill", "pause"} else ())}
        windows += [
            Window(node=node, start_s=event.at_s - before_s, end_s=_end(evidence, times, node)) for node in nodes
        ]
    if is_wiped(evidence, times):
        windows.append(Window(node=evidence.victim, start_s=0.0, end_s=_end(evidence, times, evidence.victim)))
    return tuple(windows)


def _end(evidence: Evidence, times: Times, node: str) -> float:
    """When a node's branch was over; what it had acknowledged just before is still being read then."""
    return times.demoted_s + _EDGE_S if node == evidence.victim and times.demoted_s is not None else math.inf


def is_wiped(evidence: Evidence, times: Times) -> bool:
    """The victim came back by itself before anybody was promoted: with what it had on disk, or with nothing."""
    return evidence.on_victim("restart") is not None and times.promoted_s is None


def _losses_are_tails(evidence: Evidence, accounts: Sequence[Account], times: Times) -> Check:
    holes = sum(_holes(evidence, account, times) for account in accounts)
    told = f"{holes} acknowledged operations survive behind lost ones of the same connection and node"
    return Check(code="I9", text="what is lost of a connection is its end", ok=holes == 0, evidence=told)


def _holes(evidence: Evidence, account: Account, times: Times) -> int:
    """On one branch and connection, an operation that survives behind one that is lost has another cause."""
    history = next(client for client in evidence.clients if client.name == account.name)
    places = evidence.places.get(account.name, ())
    ends = {node: _branch_ends(evidence, times, node) for node in places}
    first_lost: dict[tuple[int, str, int], int] = {}
    for op in account.lost:
        branch = (op.connection, op.node, bisect(ends.get(op.node, []), op.sent_s))
        first_lost[branch] = min(op.id, first_lost.get(branch, op.id))
    kept = frozenset(account.survivors.ids) & account.acked
    holes = 0
    for batch in history.batches:
        node = places[batch.node] if batch.node < len(places) else ""
        branch = (batch.connection, node, bisect(ends.get(node, []), batch.sent_s))
        if branch in first_lost:
            ids = range(max(batch.first, first_lost[branch]), batch.first + len(batch.codes))
            holes += sum(one in kept for one in ids)
    return holes


def _branch_ends(evidence: Evidence, times: Times, node: str) -> list[float]:
    """When what a node held was replaced: it began anew from its disk, or from another primary's data."""
    ends = [event.at_s for event in evidence.events if event.name == "restart" and node in event.nodes]
    if node == evidence.victim and times.demoted_s is not None:
        ends.append(times.demoted_s)
    return sorted(ends)


def _was_elected(evidence: Evidence, times: Times) -> Check:
    """A vote leaves a new epoch behind; rlctl itself sets no primary while the load runs."""
    ordered = evidence.first("failover")
    began_s = evidence.started_s if times.fault_s is None else times.fault_s
    before = max((seen.sample.epoch for seen in evidence.samples if seen.at_s < began_s), default=0)
    after = max((seen.sample.epoch for seen in evidence.samples if seen.at_s >= began_s), default=0)
    told = f"epoch {before} before, {after} after"
    if ordered is not None:
        told = f"ordered: {ordered.details.get('text')}"
    return Check(
        code="I10",
        text="who was promoted was elected, or ordered to be",
        ok=ordered is not None or after > before,
        evidence=told,
    )


def _nothing_left(evidence: Evidence) -> Check:
    cleaned = evidence.last("cleaned")
    left = cleaned.details.get("residue") if cleaned else None
    ok = isinstance(left, list) and not left
    told = "nothing is left" if ok else f"left: {left}" if cleaned else "the run ended before it could look"
    return Check(code="I8", text="the drill took everything of its own away", ok=ok, evidence=told)


def _healed(evidence: Evidence) -> Check:
    ok = evidence.first("healed") is not None
    failed = evidence.first("unhealed")
    told = "the fleet is whole again" if ok else str(failed.details.get("text")) if failed else "the run ended before"
    return Check(code="I11", text="the fleet is healthy after the heal", ok=ok, evidence=told)
