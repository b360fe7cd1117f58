"""The request of a run, which its worker reads from the run's folder. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rlctl.lab.twin import TWIN_NAME
from rlctl.topology.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The scenario to run, the fleet to run it on, and the options of the run."""

    scenario: str
    variant: str
    kind: Kind
    live: bool
    stock_timers: bool
    sandbox: bool
    base_port: int
    why_no_sandbox: str
    argv: tuple[str, ...]
    started: str
    twin: str = TWIN_NAME
    beside: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunRequest":
        return cls(**{**data, "kind": Kind(data["kind"]), "argv": tuple(data["argv"])})
