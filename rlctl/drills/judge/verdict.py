"""Judges the evidence of a run: numbers, checks, and a verdict with its reasons. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.drills.judge.accounts import Account, account
from rlctl.drills.judge.admission import Admission, admission, never_used_up, served_admission
from rlctl.drills.judge.invariants import CutProof, InvariantCheck, invariants, is_wiped, prove_cut
from rlctl.drills.judge.times import Times, longest_gap_ms, promotions, sampler_gap_ms, times
from rlctl.drills.record.evidence import Evidence
from rlctl.drills.record.ledger import Ledger
from rlctl.drills.record.ops import OpOutcome, outcome
from rlctl.drills.scenario.model import Expectation, LoadMode, Metric

_STALL_MS = 1_000


class DrillVerdict(StrEnum):
    """`inconclusive` means that the run proves nothing."""

    PASS = "pass"  # noqa: S105  a verdict
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationResult:
    """One expectation and the value that was measured."""

    expectation: Expectation
    value: float | None

    @property
    def ok(self) -> bool:
        """Whether the value was measured and is within the bounds."""
        if self.value is None:
            return False
        low, high = self.expectation.least, self.expectation.most
        return (low is None or self.value >= low) and (high is None or self.value <= high)

    @property
    def is_short_of_demand(self) -> bool:
        """Whether the value is below its lower bound, for a metric that too little load can keep low."""
        low = self.expectation.least
        asked_for = self.expectation.metric in (Metric.OVER, Metric.RATIO)
        return asked_for and low is not None and self.value is not None and self.value < low

    @property
    def text(self) -> str:
        """The metric with its measured value and the expected range."""
        low, high = self.expectation.least, self.expectation.most
        if low is not None and high is not None:
            wanted = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        else:
            wanted = f"at least {low:g}" if low is not None else f"at most {high:g}"
        found = "not measured" if self.value is None else f"{self.value:g}"
        return f"{self.expectation.metric} {found}, expected {wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The evidence of a run, with its figures, checks and verdict."""

    evidence: Evidence
    accounts: tuple[Account, ...]
    admission: Admission | None
    times: Times
    cut: CutProof
    checks: tuple[InvariantCheck, ...]
    metrics: Mapping[Metric, float | None]
    seen: tuple[ExpectationResult, ...]
    verdict: DrillVerdict
    reasons: tuple[str, ...]
    gaps: Mapping[str, float | None] = field(default_factory=dict)


def judge(evidence: Evidence) -> Judged:
    """Compute the figures, checks and verdict of a run."""
    survivors = _survivors(evidence)
    accounts = tuple(
        account(client, evidence.places.get(client.name, ()), survivors.get(client.name)) for client in evidence.clients
    )
    when = times(evidence)
    cut = prove_cut(evidence)
    wiped = is_wiped(evidence, when)
    load = evidence.scenario.load
    if load.mode is LoadMode.LIBRARY:
        admitted = served_admission(accounts, load.limit)
    else:
        admitted = admission(accounts, load.limit, when.promoted_s, wiped=wiped, skewed=load.skew_ms != 0)
    gaps = {one.name: longest_gap_ms(one, evidence.started_s, evidence.stopped_s) for one in evidence.clients}
    metrics = _metrics(evidence, accounts, admitted, when, gaps)
    seen = tuple(
        ExpectationResult(expectation=one, value=metrics[one.metric]) for one in evidence.scenario.expectations
    )
    checks = invariants(evidence, accounts, admitted, when, cut)
    verdict, reasons = _verdict(evidence, checks, seen, never_used_up(accounts))
    return Judged(
        evidence=evidence,
        accounts=accounts,
        admission=admitted,
        times=when,
        cut=cut,
        checks=checks,
        metrics=metrics,
        seen=seen,
        verdict=verdict,
        reasons=reasons,
        gaps=gaps,
    )


def _survivors(evidence: Evidence) -> Mapping[str, Ledger]:
    """The final ledger of each client, read from the primary of the client's shard.

    The ledgers of the victim's shard are left out unless this shard has exactly one primary.
    """
    final = evidence.ledgers.get("final", {})
    last = {seen.node: seen.sample for seen in evidence.samples}
    primaries = [node for node in evidence.shard if node in last and last[node].role == "master"]
    found = dict(final.get(primaries[0], {})) if len(primaries) == 1 else {}
    for client, places in evidence.places.items():
        if places and places[0] not in evidence.shard:
            found |= {name: ledgers for name, ledgers in final.get(places[0], {}).items() if name == client}
    return found


def _verdict(
    evidence: Evidence, checks: Sequence[InvariantCheck], seen: Sequence[ExpectationResult], unused: Sequence[str]
) -> tuple[DrillVerdict, tuple[str, ...]]:
    broken = tuple(f"{check.code} {check.text}: {check.evidence}" for check in checks if not check.ok)
    failed = evidence.first("failed")
    if failed is not None:
        broken = (f"the run failed: {failed.details.get('message')}", *broken)
    elif evidence.first("ended") is None and evidence.first("cleaned") is None:
        last = evidence.events[-1].name if evidence.events else "nothing"
        broken = (f"the run was killed after `{last}`", *broken)
    if stall := _stall(evidence):
        broken = (*broken, stall)
    blown = evidence.first("budget")
    if blown is not None:
        return DrillVerdict.FAIL, (str(blown.details.get("text")), *broken)
    if broken:
        return DrillVerdict.INCONCLUSIVE, broken
    missed = tuple(one.text for one in seen if not one.ok)
    if unused and any(one.is_short_of_demand for one in seen):
        where = ", ".join(node for node in unused if node)
        text = "the load was too low: the hot user never used the limit up"
        return DrillVerdict.INCONCLUSIVE, (f"{text} on {where}" if where else text, *missed)
    return (DrillVerdict.FAIL, missed) if missed else (DrillVerdict.PASS, tuple(one.text for one in seen))


def _stall(evidence: Evidence) -> str | None:
    gap_ms = sampler_gap_ms(evidence)
    return f"the machine stalled: no sample for {gap_ms:g} ms" if gap_ms > _STALL_MS else None


def _metrics(
    evidence: Evidence,
    accounts: Sequence[Account],
    admitted: Admission | None,
    when: Times,
    gaps: Mapping[str, float | None],
) -> dict[Metric, float | None]:
    counts = totals(evidence, accounts)
    instants = when.to_json()
    refusals = _refusals(evidence)
    is_measured = _is_measured(accounts)
    lost_s = [op.done_s for one in accounts for op in one.lost]
    span_s = max(lost_s, default=0.0) - min(lost_s, default=0.0) if is_measured else None
    others = next((one for one in accounts if one.side == "others"), None)
    stale = next((one for one in accounts if one.side == "stale"), None)
    healed_s = when.heal_s
    return {
        Metric.ACKED: counts["acked"],
        Metric.LOST: counts["lost"],
        Metric.LOST_LOCAL: counts["lost_local"],
        Metric.LOST_SHARE: _percent(counts["lost"], counts["acked"]),
        Metric.LOST_SPAN: None if span_s is None else round(span_s * 1000, 1),
        Metric.LOST_SPAN_OFF: _span_off_ms(evidence, span_s),
        Metric.LOST_AFTER: sum(one > healed_s for one in lost_s) if is_measured and healed_s is not None else None,
        Metric.RECOVERED: counts["recovered"],
        Metric.REFUSED: counts["refused"],
        Metric.INDETERMINATE: counts["indeterminate"],
        Metric.NOT_SENT: counts["not_sent"],
        Metric.OVER: admitted.over if admitted else None,
        Metric.UNDER: admitted.under if admitted else None,
        Metric.RATIO: admitted.ratio if admitted else None,
        Metric.PROMOTIONS: promotions(evidence),
        Metric.DETECT: instants["detect"],
        Metric.ELECT: instants["elect"],
        Metric.SERVE: instants["serve"],
        Metric.DIVERGENCE: instants["divergence"],
        Metric.OVERLAP: instants["overlap"],
        Metric.CONVERGE: instants["converge"],
        Metric.GAP: gaps.get("majority"),
        Metric.NOSCRIPT: None if refusals is None else refusals["NOSCRIPT"],
        Metric.NOREPLICAS: None if refusals is None else refusals["NOREPLICAS"],
        Metric.STALE_ACKED: None if stale is None else _acked_after(stale, evidence, healed_s),
        Metric.OTHERS_REFUSED: None if others is None else len(others.refused),
        Metric.FALLBACK: sum(len(one.fallback) for one in accounts),
        Metric.FALLBACK_ADMITTED: _admitted_by_policy(evidence),
    }


def totals(evidence: Evidence, accounts: Sequence[Account]) -> dict[str, int | None]:
    """Totals over all clients. If clients use WAIT, operations that WAIT did not confirm count as indeterminate."""
    by_wait = evidence.scenario.load.wait_replicas > 0
    acked_local = sum(len(one.acked) for one in accounts)
    acked = sum(len(one.waited) for one in accounts) if by_wait else acked_local
    attempted = [evidence.attempted.get(one.name) for one in accounts]
    return {
        "attempted": None if None in attempted else sum(one for one in attempted if one is not None),
        "acked": acked,
        "refused": sum(len(one.refused) for one in accounts),
        "indeterminate": sum(len(one.indeterminate) for one in accounts) + acked_local - acked,
        "not_sent": sum(one.not_sent for one in accounts),
        "acked_local": acked_local,
        **_losses(evidence, accounts, acked, acked_local, by_wait=by_wait),
    }


def _losses(
    evidence: Evidence, accounts: Sequence[Account], acked: int, acked_local: int, *, by_wait: bool
) -> dict[str, int | None]:
    """Surviving and lost operations according to the surviving ledgers; every value is None if a ledger is missing."""
    if not _is_measured(accounts):
        names = ("survived", "lost", "survived_local", "lost_local", "recovered", "duplicated", "unexpected")
        return dict.fromkeys(names)
    lost_local = sum(len(one.lost) for one in accounts)
    lost = sum(len(one.lost_ids & one.waited) for one in accounts) if by_wait else lost_local
    unconfirmed_kept = acked_local - lost_local - (acked - lost)
    bits = evidence.scenario.load.mode is LoadMode.BITS
    return {
        "survived": acked - lost,
        "lost": lost,
        "survived_local": acked_local - lost_local,
        "lost_local": lost_local,
        "recovered": sum(len(one.recovered) for one in accounts) + unconfirmed_kept,
        "duplicated": None if bits else sum(one.duplicated for one in accounts),
        "unexpected": sum(len(one.unexpected) for one in accounts),
    }


def _is_measured(accounts: Sequence[Account]) -> bool:
    """Whether the surviving ledger of every client was read; False without clients."""
    return bool(accounts) and all(one.is_measured for one in accounts)


def _percent(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else round(100 * part / whole, 3)


def _span_off_ms(evidence: Evidence, span_s: float | None) -> float | None:
    """Difference between the span of the losses and the measured span of the injected lag.

    The lag is known only as a range, because a kill by a container engine or on another host happens at some time
    between the request and its answer. The difference is 0 if the span lies in this range.
    """
    cut, kill = evidence.first("cut"), evidence.first("kill")
    if cut is None or kill is None or span_s is None:
        return None
    least_s, most_s = kill.at_s - cut.until_s, kill.until_s - cut.at_s
    return round(max(0.0, least_s - span_s, span_s - most_s) * 1000, 1)


def _refusals(evidence: Evidence) -> Counter[str] | None:
    """Count the errors that clients got, by code; None if a client was killed before it reported its errors."""
    if any(evidence.attempted.get(client.name) is None for client in evidence.clients):
        return None
    return sum((Counter(client.refusals) for client in evidence.clients), Counter())


def _admitted_by_policy(evidence: Evidence) -> int:
    """Count the admissions by the clients' failure policies."""
    codes = (code for client in evidence.clients for batch in client.batches for code in batch.codes)
    return sum(outcome(code) is OpOutcome.LOCAL_ADMITTED for code in codes)


def _acked_after(stale: Account, evidence: Evidence, healed_s: float | None) -> int | None:
    """Count the acknowledged operations that a client with an old slot map sent after the heal."""
    if healed_s is None:
        return None
    history = next(client for client in evidence.clients if client.name == stale.name)
    late = [batch for batch in history.batches if batch.sent_s > healed_s]
    return sum(1 for batch in late for place in range(len(batch.codes)) if batch.first + place in stale.acked)
