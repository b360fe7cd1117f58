"""The parts of a scenario: load, steps, faults, expectations and budget. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.lab.partition import Flow
from rlctl.lab.roles import LabRole
from rlctl.topology.model import Kind


class AwaitedCondition(StrEnum):
    PROMOTED = "promoted"
    SERVED = "served"
    SILENT = "silent"
    REFUSED = "refused"
    RETURNED = "returned"
    RESUMED = "resumed"
    USED_UP = "used_up"


class FailoverKind(StrEnum):
    """The failover commands that a scenario can send."""

    PLANNED = "planned"
    COORDINATED = "coordinated"
    FORCE = "force"
    TAKEOVER = "takeover"


class Metric(StrEnum):
    """The metrics of a run, which expectations can bound. A result has a number or null for each metric."""

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
    """Let the load run for `ms`."""

    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """Let the load run until a condition holds, for at most `within_ms`. Then the run continues with the next step."""

    condition: AwaitedCondition
    within_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Let the hot user exceed its limit from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Cut the replication between the victim and the nodes of a role, or isolate these nodes from all other nodes."""

    flow: Flow
    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """Heal all cuts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Send SIGKILL to the nodes of a role."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Send SIGSTOP to the nodes of a role."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Send SIGCONT to the nodes of a role."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Start the dead nodes of a role with the data on their disks."""

    role: LabRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """Order a failover of the victim's shard."""

    how: FailoverKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDrillScript:
    """Load the drill's script on the nodes of the victim's shard, as `scripts apply` loads the scripts of a release."""


Action = Hold | Await | Burst | Cut | Heal | Kill | Pause | Resume | Restart | Failover | LoadDrillScript


class Side(StrEnum):
    """Side of a client.

    The client on side `majority` follows failovers, `minority` is isolated with the victim, `others` uses another
    shard, and `stale` keeps an old slot map.
    """

    MAJORITY = "majority"
    MINORITY = "minority"
    OTHERS = "others"
    STALE = "stale"


class LoadMode(StrEnum):
    """What a client sends: decisions with a ledger, writes into a bitmap, or calls of the runtime library."""

    LIMITER = "limiter"
    BITS = "bits"
    LIBRARY = "library"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """The clients of a scenario, and their rates and settings."""

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
    """Bounds of a metric; None for no bound."""

    metric: Metric
    least: float | None = None
    most: float | None = None
    why: str = ""

    def describe(self) -> str:
        """The metric and its bounds as text, such as `lost at most 5`."""
        low = "" if self.least is None else f" at least {self.least:g}"
        high = "" if self.most is None else f" at most {self.most:g}"
        return f"{self.metric}{low}{high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits that end a run: its duration, and the longest wait of the `majority` client for an acknowledgement."""

    run_ms: int = 90_000
    gap_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario for one kind of fleet and variant."""

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
        """Name with the variant, for messages."""
        return f"{self.name} ({self.variant})" if self.variant else self.name
