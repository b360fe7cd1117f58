"""What every figure of a report is called, how it is measured, and what it means, in one sentence each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rlctl.drills.scenario.model import Metric


class Unit(StrEnum):
    """How a figure is written."""

    COUNT = "count"
    MS = "ms"
    PERCENT = "percent"
    TIMES = "times"


@dataclass(frozen=True, slots=True)
class Word:
    """A figure's name and meaning."""

    label: str
    meaning: str
    unit: Unit = Unit.COUNT


METRICS: Mapping[Metric, Word] = {
    Metric.ACKED: Word("acknowledged", "operations with a complete reply that is no error"),
    Metric.LOST: Word("lost", "acknowledged, and absent from the primary that is left after the heal"),
    Metric.LOST_SHARE: Word("share lost", "lost among all acknowledged operations of the run", Unit.PERCENT),
    Metric.LOST_LOCAL: Word(
        "lost, without WAIT", "lost among all acknowledged ones, whether WAIT confirmed them or not"
    ),
    Metric.LOST_SPAN: Word("span of the loss", "from the first lost acknowledgement to the last", Unit.MS),
    Metric.LOST_SPAN_OFF: Word(
        "span against injected lag", "how far the span of the loss is from the time between cut and kill", Unit.MS
    ),
    Metric.LOST_AFTER: Word("lost after the heal", "lost although acknowledged when the cut was already mended"),
    Metric.RECOVERED: Word("recovered", "no answer came, and yet they are there"),
    Metric.REFUSED: Word("refused", "operations that were answered with an error, or never left the client"),
    Metric.INDETERMINATE: Word("indeterminate", "operations that may have arrived and were not answered"),
    Metric.NOT_SENT: Word("not sent", "operations that were due and that the client gave up before sending"),
    Metric.OVER: Word("over-admitted", "admissions of the hot user beyond the limit"),
    Metric.UNDER: Word("under-admitted", "counts of the hot user that nobody was admitted for"),
    Metric.RATIO: Word("admitted against limit", "admissions of the hot user as a multiple of the limit", Unit.TIMES),
    Metric.PROMOTIONS: Word("promotions", "replicas of the victim's shard that became its primary under load"),
    Metric.DETECT: Word("detect", "from the fault to the first node that holds the primary for down", Unit.MS),
    Metric.ELECT: Word("elect", "from detect to the replica that says it is the primary", Unit.MS),
    Metric.SERVE: Word("serve", "from the fault to the first acknowledgement by the new primary", Unit.MS),
    Metric.DIVERGENCE: Word(
        "divergence", "from the parting of the histories to the last acknowledgement on the old branch", Unit.MS
    ),
    Metric.OVERLAP: Word(
        "overlap", "how long the old branch went on acknowledging after the promotion, at least 0", Unit.MS
    ),
    Metric.CONVERGE: Word(
        "converge", "from the heal to one primary that all others follow with a connection, for good", Unit.MS
    ),
    Metric.GAP: Word("longest gap", "longest time without an acknowledgement, client that follows the fleet", Unit.MS),
    Metric.NOSCRIPT: Word("NOSCRIPT", "refusals because the node does not know the script"),
    Metric.NOREPLICAS: Word("NOREPLICAS", "refusals because too few replicas are in touch"),
    Metric.STALE_ACKED: Word("stale writes", "acknowledged by the old primary after the heal, client with an old map"),
    Metric.OTHERS_REFUSED: Word("other shards refused", "refusals to the client that asks shards that nothing befell"),
    Metric.FALLBACK: Word("fallback decisions", "decisions that the library made without the fleet"),
    Metric.FALLBACK_ADMITTED: Word("fallback admissions", "admissions that the library made without the fleet"),
}

TIMES: Mapping[str, Word] = {
    name: METRICS[Metric(f"{name}_ms")] for name in ("detect", "elect", "serve", "divergence", "overlap", "converge")
}

CLASSES: Mapping[str, str] = {
    "acked": "a complete reply that is no error, read on the connection that sent the operation; "
    "a denial by the limiter is one too",
    "refused": "provably without effect: an error reply of the server (MOVED, CLUSTERDOWN, READONLY, ...), "
    "or no connection and not a byte sent",
    "indeterminate": "bytes may have left and no answer came: time-out, reset or end of the connection; "
    "never counted as lost and never as survived",
    "not_sent": "due by the client's rate, and given up before sending because the client was still waiting; "
    "availability only",
}

CAUSES: Mapping[str, str] = {
    "reset": "admitted before the promotion, and that count lost: the new primary gave it out again",
    "dual": "admitted by the old primary while the new one was already there",
    "wipe": "admitted, and the count lost because the primary came back without its data",
    "clock": "admitted under another window number, because two primaries did not agree on the time",
    "fail_open": "admitted by the client without the fleet, because nothing answered",
    "unexplained": "none of these; the drill proves nothing where this is not 0",
}

ROLES: Mapping[str, str] = {
    "master": "primary",
    "slave": "replica",
    "sentinel": "sentinel",
    "down": "no answer",
    "": "no answer",
}

SIDES: Mapping[str, str] = {
    "majority": "follows the fleet",
    "minority": "shut in with the victim",
    "others": "asks the other shards",
    "stale": "keeps an old map",
}

EVENTS: Mapping[str, str] = {
    "loaded": "load under way",
    "burst": "hot user bursts",
    "load_scripts": "scripts loaded",
    "stopping": "load ends",
    "heal": "heal begins",
}

INSTANTS: Mapping[str, str] = {
    "condemned": "held for down",
    "promoted": "promoted",
    "served": "served again",
    "demoted": "old one demoted",
    "converged": "converged",
}

CONFIGURATION: Mapping[str, str] = {
    "nodes": "processes of the fleet",
    "replicas": "replicas per primary",
    "timeout_ms": "time-out of the nodes, ms",
    "full_coverage": "refuses all where a slot is uncovered",
    "min_replicas": "replicas a primary wants to write",
    "max_lag_ms": "lag at which a replica counts no more, ms",
    "maxmemory_bytes": "memory limit, bytes",
    "acl": "users and passwords",
    "tls": "TLS",
    "rate_per_client": "operations per second and client, due",
    "connections": "connections per client",
    "depth": "operations in flight per connection",
    "wait_replicas": "replicas that WAIT asks for",
    "client_timeout_ms": "time-out of the clients, ms",
}
