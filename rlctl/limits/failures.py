"""What can keep a decision from Redis, sorted by whether the call may have counted. Pure."""

from enum import StrEnum

from rlctl.errors import Refused, UsageFault


class Cause(StrEnum):
    """Why a decision was not made by Redis; the value is the key of the error counters.

    `is_indeterminate` ones may have been counted by the server, all others certainly were not. INTERNAL is an error of
    this library, SATURATED says that this process was too busy to ask; no node is to blame for either.
    """

    TIMEOUT = "timeout"
    CLOSED = "closed"
    ERROR = "error"
    UNREACHABLE = "unreachable"
    NO_CONNECTION = "no_connection"
    TLS = "tls"
    AUTH = "auth"
    NO_SCRIPT = "noscript"
    MOVED = "moved"
    ASK = "ask"
    READONLY = "readonly"
    CLUSTER_DOWN = "clusterdown"
    TRY_AGAIN = "tryagain"
    LOADING = "loading"
    MASTER_DOWN = "masterdown"
    NO_REPLICAS = "noreplicas"
    MISCONF = "misconf"
    OOM = "oom"
    BUSY = "busy"
    BREAKER_OPEN = "breaker_open"
    NO_RULE = "no_rule"
    INTERNAL = "internal"
    SATURATED = "saturated"

    @property
    def is_indeterminate(self) -> bool:
        """Whether bytes may have left without a reply that says what became of them."""
        return self in _INDETERMINATE

    @property
    def blames_node(self) -> bool:
        """Whether it says anything about the node that was asked."""
        return self not in _BLAMES_NO_NODE

    @property
    def blames_route(self) -> bool:
        """Whether the answer may lie in another node being in charge by now."""
        return self in _BLAMES_ROUTE


_LOST = frozenset({Cause.TIMEOUT, Cause.CLOSED, Cause.ERROR})
_INDETERMINATE = _LOST | {Cause.INTERNAL}
_BLAMES_NO_NODE = frozenset({Cause.INTERNAL, Cause.SATURATED})
_BLAMES_ROUTE = frozenset(
    {
        *(Cause.TIMEOUT, Cause.CLOSED, Cause.UNREACHABLE, Cause.NO_CONNECTION, Cause.BREAKER_OPEN),
        *(Cause.MOVED, Cause.READONLY, Cause.CLUSTER_DOWN, Cause.LOADING, Cause.MASTER_DOWN),
    }
)
_SAID_BY_SERVERS = (
    *(Cause.NO_SCRIPT, Cause.MOVED, Cause.ASK, Cause.READONLY, Cause.CLUSTER_DOWN, Cause.TRY_AGAIN, Cause.LOADING),
    *(Cause.MASTER_DOWN, Cause.NO_REPLICAS, Cause.MISCONF, Cause.OOM, Cause.BUSY),
)
_BY_PREFIX = {
    **{cause.value.upper(): cause for cause in _SAID_BY_SERVERS},
    **dict.fromkeys(("NOAUTH", "WRONGPASS", "NOPERM", "DENIED"), Cause.AUTH),
}


class Failure(Exception):
    """No decision came from Redis; the text is the evidence and holds no secret."""

    def __init__(self, cause: Cause, evidence: str) -> None:
        super().__init__(f"{cause}: {evidence}")
        self.cause = cause
        self.evidence = evidence


def before_asking(failure: Failure) -> Failure:
    """The same trouble while a connection was opened or a node looked for: nothing is uncertain then."""
    cause = Cause.UNREACHABLE if failure.cause in _LOST else failure.cause
    return Failure(cause, failure.evidence)


class InvalidLimit(UsageFault, ValueError):
    """A limit, cost or identity that no script would accept; raised before anything is sent."""

    code = "invalid-limit"


class BrokenState(Refused):
    """The key holds something that is no limiter state: an error under every policy, never an admission."""

    code = "broken-state"


class ErrorReply:
    """An error reply as a value; `prefix` is its first word."""

    __slots__ = ("prefix", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.prefix = text.split(" ", 1)[0]


def failure_of(reply: ErrorReply, endpoint: object) -> Failure:
    """What an error reply means; raises what is the caller's fault or a broken key."""
    if reply.prefix == "RLCTL_ARG":
        raise InvalidLimit(f"the script refuses its arguments: {reply.text}")
    if reply.prefix in {"RLCTL_STATE", "WRONGTYPE"}:
        raise BrokenState(
            f"{endpoint}: {reply.text}",
            hint="the key holds something else; look at it, and UNLINK it as the admin user",
        )
    return Failure(_BY_PREFIX.get(reply.prefix, Cause.ERROR), f"{endpoint}: {reply.text}")
