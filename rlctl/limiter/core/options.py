"""Time limits of decisions and connections. Pure."""

from dataclasses import dataclass, field
from math import floor

from rlctl.errors import UsageFault
from rlctl.limiter.core.breaker import BreakerSettings

# The part of the budget that Redis may not use. The operating system may end a wait up to a millisecond after its
# time-out, and the decision must still be made within the budget.
_OWN_MS = 1
_LEAST_MS = 2
# The limiter begins an exchange with another node only if at least this time is left.
LEAST_EXCHANGE_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Time limits and the connection limit of a limiter.

    `budget_ms` bounds a decision, including the wait for a connection and one redirection. Connections are opened
    in the background within `connect_timeout_ms`; each node has at most `connections`. `refresh_ms` is the minimum time
    between two look-ups of the fleet's nodes.
    """

    budget_ms: float = 5.0
    connect_timeout_ms: float = 1000.0
    connections: int = 64
    refresh_ms: float = 200.0
    breaker: BreakerSettings = field(default_factory=BreakerSettings)

    def __post_init__(self) -> None:
        if not self.budget_ms >= _LEAST_MS:
            raise UsageFault(f"budget_ms={self.budget_ms:g} is too small; the minimum is {_LEAST_MS}")
        if not self.connect_timeout_ms >= 1 or self.connections < 1 or not self.refresh_ms >= 1:
            raise UsageFault("connect_timeout_ms, connections and refresh_ms must be at least 1")

    @property
    def exchange_s(self) -> float:
        """Seconds that Redis may take.

        Rounded down to whole milliseconds, the finest time-out that the operating system's waits accept.
        """
        return floor(self.budget_ms - _OWN_MS) / 1000
