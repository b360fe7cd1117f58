"""The labels and meanings of the figures, outcomes, causes, events and settings in a report. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rlctl.drills.scenario.model import Metric


class Unit(StrEnum):
    COUNT = "count"
    MS = "ms"
    PERCENT = "percent"
    TIMES = "times"


@dataclass(frozen=True, slots=True)
class Term:
    """The label, meaning and unit of a figure."""

    label: str
    meaning: str
    unit: Unit = Unit.COUNT


METRICS: Mapping[Metric, Term] = {
    Metric.ACKED: Term("acknowledged", "operations with a complete reply that is not an error"),
    Metric.LOST: Term("lost", "acknowledged, and missing on the primary after the heal"),
    Metric.LOST_SHARE: Term("share lost", "lost among all acknowledged operations of the run", Unit.PERCENT),
    Metric.LOST_LOCAL: Term(
        "lost, without WAIT", "lost among all acknowledged operations, whether WAIT confirmed them or not"
    ),
    Metric.LOST_SPAN: Term("span of the loss", "from the first lost acknowledgement to the last", Unit.MS),
    Metric.LOST_SPAN_OFF: Term(
        "span against injected lag",
        "difference between the span of the loss and the time between cut and kill",
        Unit.MS,
    ),
    Metric.LOST_AFTER: Term("lost after the heal", "lost although acknowledged after the end of the cut"),
    Metric.RECOVERED: Term("recovered", "operations without a reply that took effect"),
    Metric.REFUSED: Term("refused", "operations with an error reply, or that never left the client"),
    Metric.INDETERMINATE: Term("indeterminate", "operations that may have arrived, without a reply"),
    Metric.NOT_SENT: Term("not sent", "operations that were due, and that the client dropped before sending"),
    Metric.OVER: Term("over-admitted", "admissions of the hot user beyond the limit"),
    Metric.UNDER: Term("under-admitted", "counts of the hot user without an admission"),
    Metric.RATIO: Term("admitted against limit", "admissions of the hot user as a multiple of the limit", Unit.TIMES),
    Metric.PROMOTIONS: Term("promotions", "replicas of the victim's shard that became its primary under load"),
    Metric.DETECT: Term("detect", "from the fault to the first node that considers the primary down", Unit.MS),
    Metric.ELECT: Term("elect", "from detect to the promotion of a replica", Unit.MS),
    Metric.SERVE: Term("serve", "from the fault to the first acknowledgement by the new primary", Unit.MS),
    Metric.DIVERGENCE: Term(
        "divergence", "from the divergence of the primaries to the last acknowledgement by the old primary", Unit.MS
    ),
    Metric.OVERLAP: Term(
        "overlap", "how long the old primary acknowledged writes after the promotion, at least 0", Unit.MS
    ),
    Metric.CONVERGE: Term(
        "converge", "from the heal to a single primary to which all replicas stay connected", Unit.MS
    ),
    Metric.GAP: Term(
        "longest gap", "longest time without an acknowledgement, for the client that follows the fleet", Unit.MS
    ),
    Metric.NOSCRIPT: Term("NOSCRIPT", "refusals because the node has not loaded the script"),
    Metric.NOREPLICAS: Term("NOREPLICAS", "refusals because too few replicas are connected"),
    Metric.STALE_ACKED: Term(
        "stale writes", "acknowledged by the old primary after the heal, to the client with an old slot map"
    ),
    Metric.OTHERS_REFUSED: Term("other shards refused", "refusals to the client that uses the shards without a fault"),
    Metric.FALLBACK: Term("fallback decisions", "decisions by the failure policy of the library"),
    Metric.FALLBACK_ADMITTED: Term("fallback admissions", "admissions by the failure policy of the library"),
}

TIMES: Mapping[str, Term] = {
    name: METRICS[Metric(f"{name}_ms")] for name in ("detect", "elect", "serve", "divergence", "overlap", "converge")
}

CLASSES: Mapping[str, str] = {
    "acked": "a complete reply that is not an error, read on the connection that sent the operation; "
    "a denial by the limiter is acknowledged too",
    "refused": "certainly without effect: an error reply of the server (MOVED, CLUSTERDOWN, READONLY, ...), "
    "or no connection, so that no byte was sent",
    "indeterminate": "bytes may have been sent and no reply came: timeout, reset or end of the connection; "
    "counted neither as lost nor as survived",
    "not_sent": "due by the rate of the client, and dropped before sending because the client was still waiting; "
    "a matter of availability only",
}

CAUSES: Mapping[str, str] = {
    "reset": "admitted before the promotion, and the count was lost: the new primary admitted it again",
    "dual": "admitted by the old primary after the promotion of the new one",
    "wipe": "admitted, and the count was lost because the primary restarted without its data",
    "clock": "admitted in another window, because the clocks of two primaries differed",
    "fail_open": "admitted by the failure policy of the client, because no node answered",
    "unexplained": "none of these causes; if this is not 0, the drill proves nothing",
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
    "minority": "partitioned together with the victim",
    "others": "uses the other shards",
    "stale": "keeps an old slot map",
}

EVENTS: Mapping[str, str] = {
    "loaded": "load begins",
    "burst": "hot user bursts",
    "load_scripts": "scripts loaded",
    "stopping": "load ends",
    "heal": "heal begins",
}

INSTANTS: Mapping[str, str] = {
    "condemned": "considered down",
    "promoted": "promoted",
    "served": "served again",
    "demoted": "old primary demoted",
    "converged": "converged",
}

CONFIGURATION: Mapping[str, str] = {
    "nodes": "processes of the fleet",
    "replicas": "replicas per primary",
    "timeout_ms": "timeout of the nodes, ms",
    "full_coverage": "refuses all while a slot is uncovered",
    "min_replicas": "replicas that a primary needs for writes",
    "max_lag_ms": "lag above which a replica does not count, ms",
    "maxmemory_bytes": "memory limit, bytes",
    "acl": "users and passwords",
    "tls": "TLS",
    "rate_per_client": "operations due per second and client",
    "connections": "connections per client",
    "depth": "operations in flight per connection",
    "wait_replicas": "replicas that WAIT waits for",
    "client_timeout_ms": "timeout of the clients, ms",
}
