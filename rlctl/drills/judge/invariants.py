"""Checks of the drill itself: when one fails, the run proves nothing about Redis. Pure."""

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlctl.drills.judge.accounts import Account, Op
from rlctl.drills.judge.admission import Admission
from rlctl.drills.judge.times import Times
from rlctl.drills.record.evidence import Evidence, ProbePing
from rlctl.drills.scenario.model import LoadMode, Side

# Replies may be in flight when a cut begins, so the loss window of a cut starts a little earlier.
_EDGE_S = 0.05
# The loss window of a kill, pause or failover starts this much earlier, because the primary may have acknowledged
# writes that it had not yet sent to its replicas.
_IN_FLIGHT_S = 1.0
_PROBE_SHARE = 0.95
_SHORT_CUT_S = 0.1
# A proof by samples starts this long after the cut. By then, every replica has been sampled again.
_SAMPLE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantCheck:
    """Result of the check of one invariant. A check that does not apply to a run is left out."""

    code: str
    text: str
    ok: bool
    evidence: str

    def to_json(self) -> dict[str, object]:
        return {"code": self.code, "text": self.text, "ok": self.ok, "evidence": self.evidence}


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProof:
    """Proof that a cut was in effect. `verified` is None without a cut, or if the cut was too short for a PING."""

    verified: bool | None
    cut_ms: float | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWindow:
    """The period in which operations that one node acknowledges can get lost."""

    node: str
    start_s: float
    end_s: float

    def has(self, op: Op) -> bool:
        """Whether the node handled the operation within this period."""
        return op.node == self.node and self.start_s <= op.done_s and op.sent_s <= self.end_s


def invariants(
    evidence: Evidence, accounts: Sequence[Account], admission: Admission | None, times: Times, cut: CutProof
) -> tuple[InvariantCheck, ...]:
    checks = [_operations_add_up(evidence, accounts), _nothing_left(evidence), _healed(evidence)]
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
        checks.append(_promotion_had_cause(evidence, times))
    if evidence.scenario.name == "control":
        checks.append(_control_is_clean(accounts, admission))
    if cut.verified is not None:
        checks.append(InvariantCheck(code="I7", text="the fault was in effect", ok=cut.verified, evidence=cut.evidence))
    if admission is not None:
        rest = admission.by_cause["unexplained"]
        checks.append(
            InvariantCheck(
                code="I6b",
                text="every admission above the limit has a cause",
                ok=rest == 0,
                evidence=f"{rest} without a cause",
            )
        )
    return tuple(checks)


def prove_cut(evidence: Evidence) -> CutProof:
    """Prove a cut: probes across the cut got no answer, and probes beside the cut got answers."""
    began = evidence.first("cut")
    if began is None:
        return CutProof(verified=None, cut_ms=None, evidence="nothing was cut")
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
    # PINGs sent just before a kill are left out: they get no answer because of the kill.
    last_s = end_s - _EDGE_S
    beside = [one.heard for one in evidence.pings if not one.is_across and began.until_s <= one.at_s < last_s]
    before = _heard_before(evidence.pings, began.at_s - _EDGE_S)
    if end_s - began.until_s < _SHORT_CUT_S and not (across and beside):
        return CutProof(verified=None, cut_ms=cut_ms, evidence="too short for probes")
    if not evidence.pings:
        return _proof_by_replicas(evidence, began.until_s, end_s, cut_ms)
    silent, heard = _share(across), _share(beside)
    has_spoken = bool(across and beside and before)
    ok = has_spoken and min(silent, heard, *before.values()) >= _PROBE_SHARE
    found = f"across the cut {silent:.0%} of {len(across)} unanswered, beside it {heard:.0%} of {len(beside)} answered"
    found += "".join(f", {name} before it {share:.0%}" for name, share in before.items() if share < _PROBE_SHARE)
    return CutProof(verified=ok, cut_ms=cut_ms, evidence=found)


def _heard_before(pings: Iterable[ProbePing], until_s: float) -> dict[str, float]:
    """Share of answered PINGs before the cut, by probe.

    If a probe already failed before the cut, its missing answers during the cut prove nothing.
    """
    words: dict[str, list[bool]] = {}
    for one in pings:
        if one.at_s < until_s:
            words.setdefault(one.name, []).append(one.heard)
    return {name: _share(heard) for name, heard in words.items()}


def _proof_by_replicas(evidence: Evidence, start_s: float, end_s: float, cut_ms: float) -> CutProof:
    """Prove a cut that probes cannot detect, by the link state that the replicas report.

    The proof uses only the samples that were requested after the cut. The answer to an earlier request may arrive long
    after the cut, and may still report the link as it was before the cut.
    """
    replicas = set(evidence.shard) - {evidence.victim}
    samples = [
        seen.sample.link != "up"
        for seen in evidence.samples
        if seen.node in replicas and seen.asked_s >= start_s + _SAMPLE_S and seen.at_s < end_s
    ]
    down = _share(samples)
    found = f"in {down:.0%} of {len(samples)} samples the replicas had lost their primary"
    return CutProof(verified=bool(samples) and down >= _PROBE_SHARE, cut_ms=cut_ms, evidence=found)


def _share(words: Iterable[bool]) -> float:
    listed = list(words)
    return sum(listed) / len(listed) if listed else 1.0


def _nothing_unexpected(accounts: Sequence[Account]) -> InvariantCheck:
    found = sum(len(account.unexpected) for account in accounts)
    return InvariantCheck(
        code="I1", text="a client sent every surviving operation", ok=found == 0, evidence=f"{found} such ids"
    )


def _refused_stay_away(accounts: Sequence[Account]) -> InvariantCheck:
    found = sum(len(account.refused_survivors) for account in accounts)
    return InvariantCheck(
        code="I2", text="no refused operation took effect", ok=found == 0, evidence=f"{found} such ids"
    )


def _operations_add_up(evidence: Evidence, accounts: Sequence[Account]) -> InvariantCheck:
    off = []
    for account in accounts:
        attempted = evidence.attempted.get(account.name)
        classes = len(account.acked) + len(account.refused) + len(account.indeterminate) + account.not_sent
        if attempted is None or not attempted == account.recorded == classes:
            off.append(f"{account.name}: {attempted} attempted, {classes} classified")
    found = "; ".join(off) or "acked + refused + indeterminate + not sent = attempted"
    return InvariantCheck(code="I3", text="the operations of each client add up", ok=not off, evidence=found)


def _control_is_clean(accounts: Sequence[Account], admission: Admission | None) -> InvariantCheck:
    lost = sum(len(account.lost) for account in accounts)
    unclear = sum(len(account.indeterminate) for account in accounts)
    over = admission.over if admission else 0
    found = f"lost {lost}, over {over}, indeterminate {unclear}"
    return InvariantCheck(
        code="I4", text="a run without a fault has no findings", ok=lost == over == unclear == 0, evidence=found
    )


def _ledgers_agree(evidence: Evidence) -> InvariantCheck:
    final = evidence.ledgers.get("final", {})
    here = [client.name for client in evidence.clients if client.side != Side.OTHERS]
    by_node = {node: final.get(node, {}) for node in evidence.shard}
    missing = sorted({node for node, ledgers in by_node.items() for client in here if client not in ledgers})
    differ = any(ledgers != by_node[evidence.shard[0]] for ledgers in by_node.values())
    found = "all nodes of the shard hold the same ledgers"
    if missing or not by_node:
        found = f"no complete final ledger of {', '.join(missing) or 'any node'}"
    elif differ:
        found = "ledgers of replicas differ from their primary's"
    return InvariantCheck(
        code="I5",
        text="replicas equal their primary at the end",
        ok=bool(by_node) and not missing and not differ,
        evidence=found,
    )


def _losses_explained(evidence: Evidence, accounts: Sequence[Account], times: Times) -> InvariantCheck:
    windows = loss_windows(evidence, times)
    lost = [op for account in accounts for op in account.lost]
    unexplained = [op for op in lost if not any(window.has(op) for window in windows)]
    found = f"{len(unexplained)} of {len(lost)} lost outside the windows of the fault"
    return InvariantCheck(
        code="I6", text="every loss lies in a window of the fault", ok=not unexplained, evidence=found
    )


def loss_windows(evidence: Evidence, times: Times) -> tuple[LossWindow, ...]:
    """The windows in which acknowledged operations can get lost, after each fault and on each affected node.

    A window on the victim ends with the victim's demotion; other windows have no end.
    """
    windows = []
    for event in evidence.events:
        if event.name not in {"cut", "kill", "pause", "failover"}:
            continue
        before_s = _EDGE_S if event.name == "cut" else _IN_FLIGHT_S
        nodes = {evidence.victim, *(event.nodes if event.name in {"kill", "pause"} else ())}
        windows += [
            LossWindow(node=node, start_s=event.at_s - before_s, end_s=_end(evidence, times, node)) for node in nodes
        ]
    if is_wiped(evidence, times):
        windows.append(LossWindow(node=evidence.victim, start_s=0.0, end_s=_end(evidence, times, evidence.victim)))
    return tuple(windows)


def _end(evidence: Evidence, times: Times, node: str) -> float:
    """End of the loss windows on a node.

    The victim's windows end _EDGE_S after its demotion, because clients may read earlier acknowledgements until then.
    """
    return times.demoted_s + _EDGE_S if node == evidence.victim and times.demoted_s is not None else math.inf


def is_wiped(evidence: Evidence, times: Times) -> bool:
    """Whether the victim restarted, with or without its data, and no replica was promoted."""
    return evidence.on_victim("restart") is not None and times.promoted_s is None


def _losses_are_tails(evidence: Evidence, accounts: Sequence[Account], times: Times) -> InvariantCheck:
    holes = sum(_survivors_behind_lost(evidence, account, times) for account in accounts)
    found = f"{holes} acknowledged operations survive behind lost ones of the same connection and node"
    return InvariantCheck(code="I9", text="a connection only loses its last operations", ok=holes == 0, evidence=found)


def _survivors_behind_lost(evidence: Evidence, account: Account, times: Times) -> int:
    """Count surviving operations that a client sent after a lost operation, on the same connection to the same node.

    The count starts anew when the node's data is replaced.
    """
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
    """The times at which a node's data was replaced: by a restart, or by the data of another primary."""
    ends = [event.at_s for event in evidence.events if event.name == "restart" and node in event.nodes]
    if node == evidence.victim and times.demoted_s is not None:
        ends.append(times.demoted_s)
    return sorted(ends)


def _promotion_had_cause(evidence: Evidence, times: Times) -> InvariantCheck:
    """Check that a vote raised the epoch, or that the scenario ordered a failover."""
    ordered = evidence.first("failover")
    began_s = evidence.started_s if times.fault_s is None else times.fault_s
    before = max((seen.sample.epoch for seen in evidence.samples if seen.at_s < began_s), default=0)
    after = max((seen.sample.epoch for seen in evidence.samples if seen.at_s >= began_s), default=0)
    found = f"epoch {before} before, {after} after"
    if ordered is not None:
        found = f"ordered: {ordered.details.get('text')}"
    return InvariantCheck(
        code="I10",
        text="the promotion was elected, or ordered by the scenario",
        ok=ordered is not None or after > before,
        evidence=found,
    )


def _nothing_left(evidence: Evidence) -> InvariantCheck:
    cleaned = evidence.last("cleaned")
    left = cleaned.details.get("residue") if cleaned else None
    ok = isinstance(left, list) and not left
    found = "nothing is left" if ok else f"left: {left}" if cleaned else "the run ended before the check"
    return InvariantCheck(code="I8", text="the drill removed everything that it had added", ok=ok, evidence=found)


def _healed(evidence: Evidence) -> InvariantCheck:
    ok = evidence.first("healed") is not None
    failed = evidence.first("unhealed")
    found = (
        "the fleet is healthy again"
        if ok
        else str(failed.details.get("text"))
        if failed
        else "the run ended before the heal"
    )
    return InvariantCheck(code="I11", text="the fleet is healthy after the heal", ok=ok, evidence=found)
