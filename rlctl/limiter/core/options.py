"""How much time a decision may take, and how connections are kept. Pure."""

from dataclasses import dataclass, field
from math import floor

from rlctl.errors import UsageFault
from rlctl.limiter.core.breaker import BreakerSettings

# Of the budget, what is kept for our own work around the exchange: waits end late by up to a millisecond.
_OWN_MS = 1
_LEAST_MS = 2
# Less than this is no time to ask another node.
LEAST_EXCHANGE_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`budget_ms` bounds a decision, waiting for a connection and following a redirection included.

    Connections are opened beside the decisions and may take `connect_timeout_ms`. `connections` bounds them per
    node; `refresh_ms` is the least time between two look-ups of who is in charge.
    """

    budget_ms: float = 5.0
    connect_timeout_ms: float = 1000.0
    connections: int = 64
    refresh_ms: float = 200.0
    breaker: BreakerSettings = field(default_factory=BreakerSettings)

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        if not self.budget_ms >= _LEAST_MS:
            raise UsageFault(f"a budget of {self.budget_ms:g} ms cannot be kept; {_LEAST_MS} ms is the least")
        if not self.connect_timeout_ms >= 1 or self.connections < 1 or not self.refresh_ms >= 1:
            raise UsageFault("connect_timeout_ms, connections and refresh_ms are at least 1")

    @property
    def exchange_s(self) -> float:
        """How long Redis may take, in whole milliseconds, as that is what the system's wait knows."""
        return floor(self.budget_ms - _OWN_MS) / 1000
