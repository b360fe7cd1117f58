"""The result of a run as JSON, and the series for its plots. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from rlctl.drills.judge.verdict import Judged, totals
from rlctl.drills.record.evidence import Evidence
from rlctl.drills.record.ops import ACKED, ClientHistory, OpOutcome, outcome

DOOMED_HEAD = 20
BIN_MS = 50
MOST_POINTS = 1_500
_EVENTS = ("loaded", "burst", "cut", "kill", "pause", "resume", "restart", "failover", "load_scripts", "mend")
_ENDS = ("stopping", "heal", "healed", "unhealed", "budget")


def run_json(judged: Judged, about: Mapping[str, object]) -> dict[str, object]:
    """The result of one run. `about` has the fields from the request and the folder, such as id and rerun command."""
    evidence, scenario = judged.evidence, judged.evidence.scenario
    counts = totals(evidence, judged.accounts)
    classes = ("attempted", "acked", "refused", "indeterminate", "not_sent")
    healed = evidence.first("healed") is not None
    cleaned = evidence.last("cleaned")
    return {
        "id": about["id"],
        "kind": scenario.kind,
        "scenario": scenario.name,
        "variant": scenario.variant or None,
        "title": scenario.title,
        "claim": scenario.claim,
        "verdict": judged.verdict,
        "reasons": list(judged.reasons),
        "ops": {name: counts[name] for name in classes},
        **{name: value for name, value in counts.items() if name not in classes},
        "loss_bound": _loss_bound(counts),
        "admission": judged.admission.to_json() if judged.admission else None,
        "times_ms": judged.times.to_json(),
        "clients": [_client(judged, client) for client in evidence.clients],
        "fault": {"method": evidence.method, "verified": judged.cut.verified, "cut_ms": judged.cut.cut_ms},
        "heal": {"ok": healed, "residue": cleaned.details.get("residue", []) if cleaned else None},
        "expected": [
            {
                "metric": seen.expectation.metric,
                "least": seen.expectation.least,
                "most": seen.expectation.most,
                "seen": seen.value,
                "ok": seen.ok,
                "why": seen.expectation.why,
            }
            for seen in judged.seen
        ],
        "invariants": [check.to_json() for check in judged.checks],
        "metrics": {metric.value: value for metric, value in judged.metrics.items()},
        "doomed": _doomed(judged),
        **{key: value for key, value in about.items() if key != "id"},
    }


def series(judged: Judged) -> dict[str, object]:
    """The data of the plots, in ms from the start of the load."""
    evidence = judged.evidence
    origin_s = evidence.started_s
    return {
        "bin_ms": BIN_MS,
        "end_ms": _since(origin_s, evidence.stopped_s),
        "events": [
            {
                "t_ms": _since(origin_s, event.at_s),
                "until_ms": _since(origin_s, event.until_s),
                "name": event.name,
                "nodes": list(event.nodes),
                "text": str(event.details.get("text", "")),
            }
            for event in evidence.events
            if event.name in (*_EVENTS, *_ENDS)
        ],
        "instants": {
            "promoted": _instant(origin_s, judged.times.promoted_s),
            "served": _instant(origin_s, judged.times.served_s),
            "condemned": _instant(origin_s, judged.times.condemned_s),
            "demoted": _instant(origin_s, judged.times.demoted_s),
            "converged": _instant(origin_s, judged.times.converged_s),
        },
        "rates": {client.name: _rates(client, evidence) for client in evidence.clients},
        "lost": _bins(sorted(op.done_s for account in judged.accounts for op in account.lost), evidence),
        "latency": {client.name: _latency(client, evidence) for client in evidence.clients},
        "nodes": {node: _states(evidence, node) for node in sorted({seen.node for seen in evidence.samples})},
    }


def _loss_bound(counts: Mapping[str, int | None]) -> float | None:
    """Upper bound of the share of lost operations at 95 % confidence: 3/n if none of n was lost, otherwise None."""
    acked = counts["acked"]
    return round(3 / acked, 9) if acked and counts["lost"] == 0 else None


def _client(judged: Judged, client: ClientHistory) -> dict[str, object]:
    account = next(one for one in judged.accounts if one.name == client.name)
    is_ended = judged.evidence.attempted.get(client.name) is not None
    latencies = sorted(
        (batch.done_s - batch.sent_s) * 1000
        for batch in client.batches
        if any(outcome(code) in ACKED for code in set(batch.codes))
    )
    return {
        "name": client.name,
        "side": client.side,
        "longest_gap_ms": judged.gaps.get(client.name),
        "acked": len(account.acked),
        "lost": len(account.lost) if account.is_measured else None,
        "acked_per_s": _per_second(client, judged.evidence),
        "p50_ms": _quantile(latencies, 0.50),
        "p99_ms": _quantile(latencies, 0.99),
        "refusals": dict(sorted(client.refusals.items())),
        "hops": client.hops if is_ended else None,
    }


def _per_second(client: ClientHistory, evidence: Evidence) -> float | None:
    """Acknowledgements a second before the first fault."""
    breaking = evidence.first("cut", "kill", "pause", "failover", "stopping")
    if breaking is None or breaking.at_s <= evidence.started_s:
        return None
    undisturbed = (batch for batch in client.batches if evidence.started_s <= batch.done_s < breaking.at_s)
    acked = sum(outcome(code) in ACKED for batch in undisturbed for code in batch.codes)
    return round(acked / (breaking.at_s - evidence.started_s), 1)


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3) if ordered else None


def _doomed(judged: Judged) -> dict[str, object]:
    """The operations that were acknowledged and lost, the earliest first."""
    lost = sorted((op for account in judged.accounts for op in account.lost), key=lambda op: (op.done_s, op.id))
    origin_s = judged.evidence.started_s
    head = [
        {
            "client": op.client,
            "id": op.id,
            "node": op.node,
            "acked_ms": _since(origin_s, op.done_s),
            "admitted": op.outcome is OpOutcome.ADMITTED,
        }
        for op in islice(lost, DOOMED_HEAD)
    ]
    copied = judged.evidence.ledgers.get("doomed", {}).get(judged.evidence.victim)
    return {
        "count": len(lost) if all(account.is_measured for account in judged.accounts) else None,
        "head": head,
        "copied_from_victim": None if copied is None else sum(len(one.ids) for one in copied.values()),
    }


def _rates(client: ClientHistory, evidence: Evidence) -> dict[str, list[int]]:
    """Acknowledged, refused and unanswered operations in each bin."""
    groups: dict[str, list[float]] = {"acked": [], "refused": [], "indeterminate": [], "not_sent": []}
    names = {
        OpOutcome.ADMITTED: "acked",
        OpOutcome.DENIED: "acked",
        OpOutcome.REFUSED: "refused",
        OpOutcome.INDETERMINATE: "indeterminate",
        OpOutcome.NOT_SENT: "not_sent",
        OpOutcome.LOCAL_ADMITTED: "indeterminate",
        OpOutcome.LOCAL_DENIED: "indeterminate",
    }
    for batch in client.batches:
        for code in batch.codes:
            groups[names[outcome(code)]].append(batch.done_s)
    return {name: _bins(instants, evidence) for name, instants in groups.items()}


def _bins(instants: Iterable[float], evidence: Evidence) -> list[int]:
    count = int(_since(evidence.started_s, evidence.stopped_s) // BIN_MS) + 1
    bins = [0] * max(1, count)
    for instant in instants:
        place = int(_since(evidence.started_s, instant) // BIN_MS)
        if 0 <= place < len(bins):
            bins[place] += 1
    return bins


def _latency(client: ClientHistory, evidence: Evidence) -> list[tuple[float, float]]:
    """Points of (time, latency), thinned to the slowest of each group so that no spike is hidden."""
    points = [
        (_since(evidence.started_s, batch.done_s), round((batch.done_s - batch.sent_s) * 1000, 3))
        for batch in client.batches
        if any(outcome(code) in ACKED for code in set(batch.codes))
    ]
    step = max(1, len(points) // MOST_POINTS)
    return [max(points[at : at + step], key=lambda point: point[1]) for at in range(0, len(points), step)]


def _states(evidence: Evidence, node: str) -> list[dict[str, object]]:
    """The spans in which a node's role, epoch and link did not change."""
    spans: list[dict[str, object]] = []
    for seen in evidence.samples:
        if seen.node != node:
            continue
        sample = seen.sample
        role = sample.role if sample.alive else "down"
        state: dict[str, object] = {"role": role, "epoch": sample.epoch, "link": sample.link}
        if not spans or {key: spans[-1][key] for key in state} != state:
            spans.append({"t_ms": _since(evidence.started_s, seen.at_s), **state})
    return spans


def _instant(origin_s: float, at_s: float | None) -> float | None:
    return None if at_s is None else _since(origin_s, at_s)


def _since(origin_s: float, at_s: float) -> float:
    return round((at_s - origin_s) * 1000, 1)
