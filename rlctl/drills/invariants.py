"""What must hold of the drill itself; where one does not, the run proves nothing about Redis. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlctl.drills.accounts import Account, Op
from rlctl.drills.admission import Admission
from rlctl.drills.evidence import Evidence
from rlctl.drills.times import Times

# A reply may be on its way when the cut begins: the last instants before it belong to its window.
_EDGE_S = 0.05
# What a killed or replaced primary had acknowledged and not yet sent on.
_IN_FLIGHT_S = 1.0
_CANARY_SHARE = 0.95
_SHORT_CUT_S = 0.05
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


def invariants(
    evidence: Evidence, accounts: Sequence[Account], admission: Admission | None, times: Times, cut: Cut
) -> tuple[Check, ...]:
    """All checks of a run."""
    checks = [
        _nothing_unexpected(accounts),
        _refused_stay_away(accounts),
        _books_close(evidence, accounts),
        _ledgers_agree(evidence),
        _losses_explained(evidence, accounts, times),
        _losses_are_tails(evidence, accounts),
        _nothing_left(evidence),
        _healed(evidence),
    ]
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
        event.at_s for event in evidence.events if event.name in {"mend", "kill", "heal"} and event.at_s > began.at_s
    ]
    end_s = min(ends, default=evidence.stopped_s)
    cut_ms = round((end_s - began.until_s) * 1000, 1)
    across = [one.heard for one in evidence.canaries if one.is_across and began.until_s <= one.at_s < end_s]
    beside = [one.heard for one in evidence.canaries if not one.is_across and began.until_s <= one.at_s < end_s]
    before = [one.heard for one in evidence.canaries if one.at_s < began.at_s - _EDGE_S]
    if end_s - began.until_s < _SHORT_CUT_S:
        return Cut(verified=None, cut_ms=cut_ms, evidence="too short for canaries")
    if not evidence.canaries:
        return _by_replicas(evidence, began.until_s, end_s, cut_ms)
    silent, heard = _share(not one for one in across), _share(beside)
    ok = bool(across) and silent >= _CANARY_SHARE and heard >= _CANARY_SHARE and all(before)
    told = f"across the cut {silent:.0%} of {len(across)} silent, beside it {heard:.0%} of {len(beside)} heard"
    return Cut(verified=ok, cut_ms=cut_ms, evidence=told)


def _by_replicas(evidence: Evidence, start_s: float, end_s: float, cut_ms: float) -> Cut:
    """Where no canary can sit, the replicas themselves say that their primary does not answer them."""
    looks = [
        seen.sample.link != "up"
        for seen in evidence.samples
        if seen.node in evidence.shard and seen.node != evidence.victim and start_s + _LOOK_S <= seen.at_s < end_s
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
    missing = [node for node in evidence.shard if node not in final]
    books = [final[node] for node in evidence.shard if node in final]
    differ = any(book != books[0] for book in books[1:])
    told = "all nodes of the shard hold the same ledgers"
    if missing:
        told = f"no final ledger of {', '.join(missing)}"
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
    strange = [op for op in lost if not any(start <= op.done_s and op.sent_s <= end for start, end in windows)]
    told = f"{len(strange)} of {len(lost)} lost outside every window of the fault"
    return Check(code="I6", text="every loss lies in a window of the fault", ok=not strange, evidence=told)


def loss_windows(evidence: Evidence, times: Times) -> tuple[tuple[float, float], ...]:
    """When an acknowledgement can be worth nothing."""
    end_s = times.demoted_s or evidence.stopped_s
    windows = []
    for event in evidence.events:
        if event.name == "cut":
            windows.append((event.at_s - _EDGE_S, end_s + _EDGE_S))
        elif event.name in {"kill", "pause", "failover"}:
            windows.append((event.at_s - _IN_FLIGHT_S, end_s + _EDGE_S))
    if is_wiped(evidence, times):
        windows.append((0.0, end_s))
    return tuple(windows)


def is_wiped(evidence: Evidence, times: Times) -> bool:
    """The victim came back by itself before anybody was promoted: with what it had on disk, or with nothing."""
    return evidence.on_victim("restart") is not None and times.promoted_s is None


def _losses_are_tails(evidence: Evidence, accounts: Sequence[Account]) -> Check:
    holes = sum(_holes(evidence, account) for account in accounts)
    told = f"{holes} acknowledged operations survive behind lost ones of the same connection and node"
    return Check(code="I9", text="what is lost of a connection is its end", ok=holes == 0, evidence=told)


def _holes(evidence: Evidence, account: Account) -> int:
    """On one node and connection, an operation that survives behind one that is lost has another cause."""
    history = next(client for client in evidence.clients if client.name == account.name)
    places = evidence.places.get(account.name, ())
    first_lost: dict[tuple[int, str], int] = {}
    for op in sorted(account.lost, key=_order):
        first_lost.setdefault((op.connection, op.node), op.id)
    kept = frozenset(account.survivors.ids)
    killed = evidence.on_victim("kill")
    holes = 0
    for batch in history.batches:
        if killed is not None and batch.sent_s > killed.at_s:
            # Another life of the node, which knows nothing of the one before.
            continue
        node = places[batch.node] if batch.node < len(places) else ""
        start = first_lost.get((batch.connection, node))
        if start is not None and batch.first + len(batch.codes) > start:
            ids = range(max(batch.first, start), batch.first + len(batch.codes))
            holes += sum(1 for one in ids if one in kept and one in account.acked)
    return holes


def _order(op: Op) -> tuple[float, int]:
    return op.done_s, op.id


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
