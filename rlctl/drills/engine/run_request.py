"""What a run is told to do: written into its folder before it starts, so that another process can carry it out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rlctl.lab.twin import TWIN_NAME
from rlctl.topology.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run: which scenario, on what, how."""

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
        """As order.json keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunRequest":
        """The reading half of `to_json`."""
        return cls(**{**data, "kind": Kind(data["kind"]), "argv": tuple(data["argv"])})
