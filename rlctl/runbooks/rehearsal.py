"""The request and the result of one rehearsal, and its throw-away fleet. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rlctl.lab.twin import local_twin, with_settings
from rlctl.runbooks.page.model import Rehearsal
from rlctl.topology.model import MIB, Engine, Flavor, Kind, TargetName, Topology

NAME = "rehearsal"
# Key in `patience_s` for the wait after the last step.
REST = "*rest*"
MEMORY_BYTES = 16 * MIB
TIMER_MS = 2_000
DIRECTIVE = "redis."


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRequest:
    """A request for one rehearsal: its page, fault and omitted step.

    `patience_s` maps the ids of steps to their time limits, and `REST` to the limit of the wait after the last step.
    """

    page: str
    kind: Kind
    rehearsal: int
    omitted: str | None = None
    patience_s: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RehearsalRequest":
        return cls(**{**data, "kind": Kind(data["kind"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalResult:
    """Outcome of a rehearsal. `recovered_s` is the time from the first step; None if the fleet did not recover."""

    steps: tuple[Mapping[str, Any], ...]
    why: str | None
    recovered_s: float | None
    residue: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        """Whether the page led from the fault to a healthy fleet, and left nothing behind."""
        return self.why is None and not self.residue

    @property
    def reason(self) -> str:
        return self.why or "; ".join(self.residue)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RehearsalResult":
        return cls(**{**data, "steps": tuple(data["steps"]), "residue": tuple(data["residue"])})


def rehearsal_fleet(kind: Kind, rehearsal: Rehearsal, flavor: Flavor) -> Topology:
    """The throw-away fleet of a rehearsal."""
    topology = Topology(name=NAME, kind=kind, target=TargetName.LOCAL, engine=Engine(flavor=flavor))
    twin = local_twin(topology, NAME, kind, memory_bytes=MEMORY_BYTES, timer_ms=TIMER_MS)
    directives, settings = split_settings(rehearsal.settings)
    return replace(with_settings(twin, settings), redis=tuple(sorted(directives.items())))


def split_settings(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split settings into Redis directives (`redis.NAME`) and settings of the topology (`section.key`)."""
    directives = {key.removeprefix(DIRECTIVE): text for key, text in settings.items() if key.startswith(DIRECTIVE)}
    return directives, {key: text for key, text in settings.items() if not key.startswith(DIRECTIVE)}
