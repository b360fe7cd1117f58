"""Failures: why Redis did not make a decision, and whether the server may still have counted the call. Pure."""

from enum import StrEnum

from rlctl.errors import Refused, UsageFault


class Cause(StrEnum):
    """Why Redis did not make a decision; the value is the key of the error counters.

    After an indeterminate cause, the server may have counted the call; after all other causes, it did not. INTERNAL is
    an error of this library. SATURATED means that this process was too busy to send the call.
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
        """Whether the server may have counted the call. If not, the call was not sent, or the server refused it."""
        return self in _INDETERMINATE

    @property
    def blames_node(self) -> bool:
        """Whether the cause is a problem of the node."""
        return self not in _BLAMES_NO_NODE

    @property
    def blames_route(self) -> bool:
        """Whether another node may be responsible for the key by now."""
        return self in _BLAMES_ROUTE


_UNANSWERED = frozenset({Cause.TIMEOUT, Cause.CLOSED, Cause.ERROR})
_INDETERMINATE = _UNANSWERED | {Cause.INTERNAL}
_BLAMES_NO_NODE = frozenset({Cause.INTERNAL, Cause.SATURATED})
_BLAMES_ROUTE = frozenset(
    {
        *(Cause.TIMEOUT, Cause.CLOSED, Cause.UNREACHABLE, Cause.NO_CONNECTION, Cause.BREAKER_OPEN),
        *(Cause.MOVED, Cause.READONLY, Cause.CLUSTER_DOWN, Cause.LOADING, Cause.MASTER_DOWN),
    }
)
_SERVER_CAUSES = (
    *(Cause.NO_SCRIPT, Cause.MOVED, Cause.ASK, Cause.READONLY, Cause.CLUSTER_DOWN, Cause.TRY_AGAIN, Cause.LOADING),
    *(Cause.MASTER_DOWN, Cause.NO_REPLICAS, Cause.MISCONF, Cause.OOM, Cause.BUSY),
)
_BY_PREFIX = {
    **{cause.value.upper(): cause for cause in _SERVER_CAUSES},
    **dict.fromkeys(("NOAUTH", "WRONGPASS", "NOPERM", "DENIED"), Cause.AUTH),
}


class Failure(Exception):
    """Redis did not decide a call. `evidence` describes the error and contains no secret."""

    def __init__(self, cause: Cause, evidence: str) -> None:
        super().__init__(f"{cause}: {evidence}")
        self.cause = cause
        self.evidence = evidence


def before_asking(failure: Failure) -> Failure:
    """Convert a failure that happened before a call was sent.

    TIMEOUT, CLOSED and ERROR become UNREACHABLE, because they would mean that the server may have counted the call.
    """
    cause = Cause.UNREACHABLE if failure.cause in _UNANSWERED else failure.cause
    return Failure(cause, failure.evidence)


class InvalidLimit(UsageFault, ValueError):
    """A limit, cost or identity that every script would refuse; raised before a call is sent."""

    code = "invalid-limit"


class BrokenState(Refused):
    """The key contains a value that is not limiter state.

    For a rule in shadow, the limiter does not raise this error: the failure policy decides.
    """

    code = "broken-state"


class ErrorReply:
    """An error reply as a value; `prefix` is its first word."""

    __slots__ = ("prefix", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.prefix = text.split(" ", 1)[0]


def failure_of(reply: ErrorReply, endpoint: object) -> Failure:
    """Return the failure for an error reply. Raises InvalidLimit for wrong arguments, BrokenState for a broken key."""
    if reply.prefix == "RLCTL_ARG":
        raise InvalidLimit(f"the script refuses its arguments: {reply.text}")
    if reply.prefix in {"RLCTL_STATE", "WRONGTYPE"}:
        raise BrokenState(
            f"{endpoint}: {reply.text}",
            hint="the key contains no limiter state: inspect it, then UNLINK it as the admin user",
        )
    return Failure(_BY_PREFIX.get(reply.prefix, Cause.ERROR), f"{endpoint}: {reply.text}")
