"""A runbook page as a value: its front matter, its sections, and its steps in order. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.topology.model import Kind


class Risk(StrEnum):
    """What a step may do: read, make a reversible change, or lose data."""

    READ = "read"
    MUTATE = "mutate"
    DANGER = "danger"


class PageSeverity(StrEnum):
    """Urgency of the fault: s1 and s2 page an operator, s3 waits for working hours."""

    S1 = "s1"
    S2 = "s2"
    S3 = "s3"


class FleetKinds(StrEnum):
    CLUSTER = "cluster"
    SENTINEL = "sentinel"
    BOTH = "both"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(Kind) if self is FleetKinds.BOTH else (Kind(self.value),)


class Fault(StrEnum):
    """Faults that a rehearsal can inject."""

    PRIMARY_KILLED = "primary-killed"
    REPLICA_KILLED = "replica-killed"
    SHARD_KILLED = "shard-killed"
    NO_ELECTION = "no-election"
    PRIMARY_CUT_OFF = "primary-cut-off"
    RIVAL_PRIMARY = "rival-primary"
    MAJORITY_KILLED = "majority-killed"
    PRIMARIES_KILLED = "primaries-killed"
    PRIMARY_FENCED = "primary-fenced"
    REPLICAS_LOCKED_OUT = "replicas-locked-out"
    MEMORY_NEARLY_FULL = "memory-nearly-full"
    MEMORY_FULL = "memory-full"
    EVICTING = "evicting"
    SCRIPTS_FLUSHED = "scripts-flushed"
    OTHER_RELEASE = "other-release"
    QUORUM_KILLED = "quorum-killed"
    PRIMARY_REBORN_EMPTY = "primary-reborn-empty"
    LIMITER_LOCKED_OUT = "limiter-locked-out"


class PageSection(StrEnum):
    """Headings of every page, in their order."""

    SYMPTOM = "Symptom"
    EFFECT = "Effect on limiting"
    STOP = "Stop the bleeding"
    LOOK = "First three commands"
    DECIDE = "Decide"
    FIX = "Fix"
    VERIFY = "Verify"
    UNDO = "Undo"
    ESCALATE = "Escalate"
    AFTERWARDS = "Afterwards"
    BACKGROUND = "Background"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCondition:
    """Condition of a step: an earlier step's output satisfies a JMESPath expression."""

    step: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a page and its expected result. `sets` maps variables for later steps to queries of its output."""

    id: str
    section: PageSection
    line: int
    command: str
    risk: Risk
    exits: frozenset[int] = frozenset({0})
    expect: str | None = None
    timeout_ms: int = 60_000
    when: StepCondition | None = None
    only: Kind | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    prose: str = ""

    @property
    def mutates(self) -> bool:
        return self.risk is not Risk.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideRow:
    """A row of the section Decide: an observation, and the step or page to continue with, or `escalate`."""

    line: int
    says: str
    go_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """One rehearsal: a fault on a fleet with these settings. The network is healed before the step `mended_before`.

    `drill` is the scenario that shows the effect of the same fault on counters and clients, if there is one.
    """

    fault: Fault
    kinds: tuple[Kind, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    mended_before: str | None = None
    drill: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """One page.

    The page is for `findings` of status and doctor, `error_codes` of rlctl, and `causes` that prevent Redis from
    deciding.
    """

    id: str
    slug: str
    title: str
    severity: PageSeverity
    kinds: tuple[Kind, ...]
    owner: str
    servers: tuple[str, ...]
    symptoms: tuple[str, ...]
    findings: tuple[str, ...]
    error_codes: tuple[str, ...]
    causes: tuple[str, ...]
    drills: tuple[str, ...]
    mitigate_ms: int
    escalate_after_ms: int
    rehearsals: tuple[Rehearsal, ...]
    sections: Mapping[PageSection, str]
    steps: tuple[Step, ...]
    decisions: tuple[DecideRow, ...]
    text: str
    source: str

    @property
    def name(self) -> str:
        """File name without its extension."""
        return f"{self.id}-{self.slug}"

    @property
    def risk(self) -> Risk:
        """The highest risk of its steps."""
        order = list(Risk)
        return max((step.risk for step in self.steps), key=order.index, default=Risk.READ)

    def steps_for(self, kind: Kind) -> tuple[Step, ...]:
        """The steps for this kind of fleet."""
        return tuple(step for step in self.steps if step.only in {None, kind})
