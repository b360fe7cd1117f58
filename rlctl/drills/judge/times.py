"""The instants of a run, from the fault until the shard has converged. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from rlctl.drills.record.evidence import Event, Evidence, TimedSample
from rlctl.drills.record.ops import ACKED, ClientHistory, outcome
from rlctl.drills.record.sample import SILENT, Sample, is_whole
from rlctl.topology.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The instants of a run in monotonic time; None for an instant that did not happen or was not observed."""

    fork_s: float | None
    fault_s: float | None
    suspected_s: float | None
    condemned_s: float | None
    promoted_s: float | None
    served_s: float | None
    stopped_s: float | None
    demoted_s: float | None
    heal_s: float | None
    converged_s: float | None

    def to_json(self) -> dict[str, float | None]:
        is_ordered = self.condemned_s is not None and self.promoted_s is not None and self.condemned_s > self.promoted_s
        return {
            "detect": _ms(self.fault_s, self.condemned_s),
            "elect": None if is_ordered else _ms(self.condemned_s, self.promoted_s),
            "serve": _ms(self.fault_s, self.served_s),
            "divergence": _ms(self.fork_s, self.stopped_s),
            "overlap": _ms(self.promoted_s, self.stopped_s),
            "converge": _ms(self.heal_s, self.converged_s),
        }


def times(evidence: Evidence) -> Times:
    """Find the instants in events, samples and clients' histories."""
    fault = _fault(evidence)
    fault_s = fault.until_s if fault else None
    promoted_s = _promotion(evidence, fault.at_s if fault else None)
    forked = fork(evidence)
    heal = evidence.first("mend") if _is_isolated(evidence) else None
    heal = heal or evidence.first("heal")
    heal_s = heal.until_s if heal else None
    return Times(
        fork_s=forked,
        fault_s=fault_s,
        suspected_s=_first_seen(evidence, fault_s, lambda one: one.suspects or one.condemns),
        condemned_s=_condemned(evidence, fault_s, promoted_s),
        promoted_s=promoted_s,
        served_s=_served(evidence, fault_s),
        stopped_s=_stopped(evidence, forked) if promoted_s is not None else None,
        demoted_s=_demoted(evidence, promoted_s),
        heal_s=heal_s,
        converged_s=_converged(evidence, heal_s),
    )


def fork(evidence: Evidence) -> float | None:
    """When the data of the victim and of the new primary diverge: at the cut, kill, pause or failover of the victim."""
    started = next((one for one in evidence.events if _concerns_victim(evidence, one)), None)
    return started.at_s if started else None


def promotions(evidence: Evidence) -> int:
    """How often a replica of the victim's shard became the primary while the load ran."""
    return sum(1 for _seen in _promotions(evidence))


def longest_gap_ms(history: ClientHistory, started_s: float, stopped_s: float) -> float | None:
    """Longest time without an acknowledgement, including the edges of the run; None without any acknowledgement."""
    acked = sorted(
        batch.done_s for batch in history.batches if any(outcome(code) in ACKED for code in set(batch.codes))
    )
    within = [one for one in acked if started_s <= one <= stopped_s]
    if not within:
        return None
    edges = [started_s, *within, stopped_s]
    return round(max(after - before for before, after in pairwise(edges)) * 1000, 1)


def sampler_gap_ms(evidence: Evidence) -> float:
    """Longest gap before an answer of a node: since its previous sample, or since all nodes went silent.

    No drill stops every node. So if no node answered, the machine stalled, and the samples may miss a promotion.
    """
    last: dict[str, float] = {}
    silent_since: float | None = None
    longest = 0.0
    for seen in evidence.samples:
        if not seen.sample.alive:
            silent_since = seen.at_s if silent_since is None else silent_since
        else:
            starts = [silent_since, last.get(seen.node)]
            longest = max(longest, *(seen.at_s - start for start in starts if start is not None), 0.0)
            silent_since = None
        last[seen.node] = seen.at_s
    return round(longest * 1000, 1)


def _fault(evidence: Evidence) -> Event | None:
    """The event that removed the primary; otherwise the first kill or cut."""
    removal = next((one for one in evidence.events if _removes_primary(evidence, one)), None)
    return removal or evidence.first("kill", "cut")


def _is_isolated(evidence: Evidence) -> bool:
    return any(_isolates_victim(evidence, one) for one in evidence.events)


def _isolates_victim(evidence: Evidence, event: Event) -> bool:
    return event.name == "cut" and event.details.get("flow") == "everything" and evidence.victim in event.nodes


def _removes_primary(evidence: Evidence, event: Event) -> bool:
    is_down = event.name in {"kill", "pause"} and evidence.victim in event.nodes
    return is_down or event.name == "failover" or _isolates_victim(evidence, event)


def _concerns_victim(evidence: Evidence, event: Event) -> bool:
    is_lagging = event.name == "cut" and event.details.get("flow") == "replication"
    return is_lagging or _removes_primary(evidence, event)


def _promotions(evidence: Evidence) -> Iterator[TimedSample]:
    """Every sample under load that shows that a replica became a primary.

    In a cluster, the node's epoch must also have risen, because a node that has just started reports itself as a
    primary for a moment.
    """
    before: dict[str, Sample] = {}
    for seen in evidence.samples:
        if seen.node not in evidence.shard or not seen.sample.alive or seen.at_s > evidence.stopped_s:
            continue
        last = before.get(seen.node, SILENT)
        is_new = evidence.scenario.kind is not Kind.CLUSTER or seen.sample.epoch > last.epoch
        if seen.sample.role == "master" and last.role == "slave" and is_new:
            yield seen
        before[seen.node] = seen.sample


def _promotion(evidence: Evidence, since_s: float | None) -> float | None:
    later = (seen for seen in _promotions(evidence) if seen.at_s >= (since_s or 0.0))
    return next((seen.at_s for seen in later if seen.node != evidence.victim), None)


def _condemned(evidence: Evidence, since_s: float | None, promoted_s: float | None) -> float | None:
    condemned_s = _first_seen(evidence, since_s, lambda one: one.condemns)
    if condemned_s is None or promoted_s is None or evidence.first("failover") is not None:
        return condemned_s
    # The vote always follows the failure report, but samples may show the promotion first. In that case, return the
    # time of the promotion, because the nodes reported the failure no later than this time.
    return min(condemned_s, promoted_s)


def _first_seen(evidence: Evidence, since_s: float | None, matches: Callable[[Sample], bool]) -> float | None:
    if since_s is None:
        return None
    return next((seen.at_s for seen in evidence.samples if seen.at_s >= since_s and matches(seen.sample)), None)


def _served(evidence: Evidence, since_s: float | None) -> float | None:
    """The first acknowledgement after the fault by a node other than the victim."""
    if since_s is None:
        return None
    first = [
        batch.done_s
        for client in evidence.clients
        if client.side == "majority"
        for batch in client.batches
        if batch.done_s >= since_s and _is_acked_away(evidence, client, batch.node, batch.codes)
    ]
    return min(first, default=None)


def _is_acked_away(evidence: Evidence, client: ClientHistory, node: int, codes: bytes) -> bool:
    places = evidence.places.get(client.name, ())
    away = node < len(places) and places[node] != evidence.victim
    return away and any(outcome(code) in ACKED for code in set(codes))


def _stopped(evidence: Evidence, since_s: float | None) -> float | None:
    """Time of the victim's last acknowledgement before its demotion; `since_s` if there is none."""
    if since_s is None:
        return None
    demoted_s = _demoted(evidence, since_s)
    latest = since_s
    for client in evidence.clients:
        places = evidence.places.get(client.name, ())
        for batch in client.batches:
            is_victim = batch.node < len(places) and places[batch.node] == evidence.victim
            if not is_victim or batch.done_s < since_s or (demoted_s is not None and batch.sent_s > demoted_s):
                continue
            if any(outcome(code) in ACKED for code in set(batch.codes)):
                latest = max(latest, batch.done_s)
    return latest


def _demoted(evidence: Evidence, since_s: float | None) -> float | None:
    if since_s is None:
        return None
    samples = (seen for seen in evidence.samples if seen.node == evidence.victim and seen.at_s >= since_s)
    return next((seen.at_s for seen in samples if seen.sample.role == "slave"), None)


def _converged(evidence: Evidence, since_s: float | None) -> float | None:
    """Time from which the shard had one primary with all replicas connected until the end of the run."""
    if since_s is None:
        return None
    state: dict[str, Sample] = {}
    since_one: float | None = None
    for seen in evidence.samples:
        if seen.node not in evidence.shard:
            continue
        state[seen.node] = seen.sample
        # Compare roles and links only, because offsets are recorded too rarely to be compared.
        if not is_whole([state.get(node, SILENT) for node in evidence.shard]):
            since_one = None
        elif since_one is None:
            since_one = seen.at_s
    return None if since_one is None else max(since_one, since_s)


def _ms(start_s: float | None, end_s: float | None) -> float | None:
    if start_s is None or end_s is None:
        return None
    return round(max(0.0, end_s - start_s) * 1000, 1)
