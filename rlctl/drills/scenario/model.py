"""A scenario as a value: what to load, what to break and when, and what is expected of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.lab.partition import Flow
from rlctl.lab.roles import LabRole
from rlctl.topology.model import Kind


class AwaitedCondition(StrEnum):
    """What a step can wait for."""

    PROMOTED = "promoted"
    SERVED = "served"
    SILENT = "silent"
    REFUSED = "refused"
    RETURNED = "returned"
    RESUMED = "resumed"
    USED_UP = "used_up"


class FailoverKind(StrEnum):
    """A failover that somebody orders."""

    PLANNED = "planned"
    COORDINATED = "coordinated"
    FORCE = "force"
    TAKEOVER = "takeover"


class Metric(StrEnum):
    """What an expectation can be about; a run's result has one number, or none, for each."""

    ACKED = "acked"
    LOST = "lost"
    LOST_SHARE = "lost_percent"
    LOST_LOCAL = "lost_local"
    LOST_SPAN = "lost_span_ms"
    LOST_SPAN_OFF = "lost_span_off_ms"
    LOST_AFTER = "lost_after_heal"
    RECOVERED = "recovered"
    REFUSED = "refused"
    INDETERMINATE = "indeterminate"
    NOT_SENT = "not_sent"
    OVER = "over"
    UNDER = "under"
    RATIO = "ratio"
    PROMOTIONS = "promotions"
    DETECT = "detect_ms"
    ELECT = "elect_ms"
    SERVE = "serve_ms"
    DIVERGENCE = "divergence_ms"
    OVERLAP = "overlap_ms"
    CONVERGE = "converge_ms"
    GAP = "gap_ms"
    NOSCRIPT = "noscript"
    NOREPLICAS = "noreplicas"
    STALE_ACKED = "stale_acked"
    OTHERS_REFUSED = "others_refused"
    FALLBACK = "fallback"
    FALLBACK_ADMITTED = "fallback_admitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Let the load run for a while."""

    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """Let the load run until something is so; not being so in time is noted, and judged at the end."""

    condition: AwaitedCondition
    within_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The hot user begins to ask for far more than the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Stop a flow between the victim and some nodes, or between some nodes and all others."""

    flow: Flow
    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """Undo all cuts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """SIGKILL."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """SIGSTOP."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """SIGCONT."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Start a dead node again, with what it has on disk."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """Order a failover of the victim's shard."""

    how: FailoverKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDrillScript:
    """Load the drill's script on the nodes of the victim's shard, as `scripts apply` would the release."""


Action = Hold | Await | Burst | Cut | Heal | Kill | Pause | Resume | Restart | Failover | LoadDrillScript


class Side(StrEnum):
    """Where a client stands: it follows the fleet, is shut in with the victim, asks other shards, or has an old map."""

    MAJORITY = "majority"
    MINORITY = "minority"
    OTHERS = "others"
    STALE = "stale"


class LoadMode(StrEnum):
    """What a client sends: decisions with a ledger, bare writes into a bitmap, or calls of the runtime library."""

    LIMITER = "limiter"
    BITS = "bits"
    LIBRARY = "library"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """The clients of a scenario and what each does."""

    sides: tuple[Side, ...] = (Side.MAJORITY,)
    mode: LoadMode = LoadMode.LIMITER
    connections: int = 4
    depth: int = 4
    rate: int = 15_000
    timeout_ms: int = 1_000
    wait_replicas: int = 0
    wait_ms: int = 100
    limit: int = 500
    policy: str = "open"
    skew_ms: int = 0
    preload: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a metric should be; a bound that is missing does not bind."""

    metric: Metric
    least: float | None = None
    most: float | None = None
    why: str = ""

    def describe(self) -> str:
        """For people."""
        low = "" if self.least is None else f" at least {self.least:g}"
        high = "" if self.most is None else f" at most {self.most:g}"
        return f"{self.metric}{low}{high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When a run is ended at once and healed: it lasts too long, or a client gets no answer for too long."""

    run_ms: int = 90_000
    gap_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One drill for one kind of fleet, with its parameters filled in."""

    name: str
    variant: str
    kind: Kind
    title: str
    teaches: str
    needs: str
    breaks: str
    claim: str
    actions: tuple[Action, ...]
    load: ClientLoad
    expectations: tuple[Expectation, ...]
    budget: Budget = field(default_factory=Budget)
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    overall: str = ""

    @property
    def label(self) -> str:
        """How people name it."""
        return f"{self.name} ({self.variant})" if self.variant else self.name
