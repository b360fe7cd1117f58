"""The EVALSHA commands of one rule, packed once; arguments have the order of the script's manifest. Pure."""

from collections.abc import Mapping
from typing import Protocol

from rlctl.errors import InvalidFile, NotFound
from rlctl.limits.algorithms import Algorithm, Concurrent, Costed
from rlctl.limits.decision import Quota
from rlctl.limits.keys import key_end
from rlctl.limits.release import Release, Script
from rlctl.limits.resp import bulk
from rlctl.services import key_head

_CLOCK = "now_us"
_OPTIONAL = frozenset({"cost", "min_interval_ms", "request_id", _CLOCK})
_KEPT_TAILS = (0, 1)
SHADOW = b":shadow"


class AnyScript(Protocol):
    """A script of a release, or the script reference of a rule.

    `state` is the number of the state format, which is part of the key; `args` are the argument names in order.
    """

    @property
    def sha1(self) -> str: ...

    @property
    def state(self) -> int: ...

    @property
    def args(self) -> tuple[str, ...]: ...


def script_for(release: Release, algorithm: Algorithm) -> Script:
    """Return the release's script for an algorithm; NotFound if the release lacks the script."""
    script = release.script(algorithm.name)
    if script is None:
        raise NotFound(f"release {release.version} has no script {algorithm.name}")
    return script


class Call:
    """The parts that all calls of one rule share. Each service and each rule in shadow has separate keys."""

    def __init__(
        self,
        script: AnyScript,
        algorithm: Algorithm,
        rule_id: str,
        *,
        shadow: bool = False,
        service: str | None = None,
    ) -> None:
        self.sha1 = script.sha1
        self.state = script.state
        self.algorithm = algorithm
        self._script = script
        self._head = key_head(service).encode()
        self._end = key_end(algorithm, rule_id, script.state) + (SHADOW if shadow else b"")
        unit = "concurrent-requests" if isinstance(algorithm, Concurrent) else None
        self.quota = Quota(name=rule_id, window_ms=algorithm.quota_window_ms, unit=unit)

    def key(self, tag: bytes) -> bytes:
        """Return the Redis key of the identity with this hash tag."""
        return self._head + tag + self._end

    def _message(self, tag: bytes, tail: tuple[bytes, bytes]) -> bytes:
        key = self.key(tag)
        head, arguments = tail
        return b"%b$%d\r\n%b\r\n%b" % (head, len(key), key, arguments)

    def _tail(self, values: Mapping[str, object]) -> tuple[bytes, bytes]:
        arguments = script_arguments(self._script, values)
        head = b"*%d\r\n" % (4 + len(arguments)) + b"".join(map(bulk, (b"EVALSHA", self.sha1.encode(), b"1")))
        return head, b"".join(map(bulk, arguments))


class CostedCall(Call):
    """Packed calls of a rule whose algorithm takes a cost."""

    def __init__(
        self, script: AnyScript, algorithm: Costed, rule_id: str, *, shadow: bool = False, service: str | None = None
    ) -> None:
        super().__init__(script, algorithm, rule_id, shadow=shadow, service=service)
        self._check_cost = algorithm.check_cost
        self._values = algorithm.arguments()
        self._tails = {cost: self._tail({**self._values, "cost": cost}) for cost in _KEPT_TAILS}

    def message(self, tag: bytes, cost: int) -> bytes:
        """Return the packed command for one identity; a cost of 0 only reads the state."""
        tail = self._tails.get(cost)
        if tail is None:
            self._check_cost(cost)
            tail = self._tail({**self._values, "cost": cost})
        return self._message(tag, tail)

    def refund(self, tag: bytes, cost: int) -> bytes:
        """Return the packed command that refunds a charge of `cost` to one identity."""
        return self._message(tag, self._tail({**self._values, "cost": -cost}))


class ConcurrentCall(Call):
    """Packed calls of a rule of algorithm `concurrent`."""

    def __init__(
        self,
        script: AnyScript,
        algorithm: Concurrent,
        rule_id: str,
        *,
        shadow: bool = False,
        service: str | None = None,
    ) -> None:
        super().__init__(script, algorithm, rule_id, shadow=shadow, service=service)
        self._values = algorithm.arguments()
        # Pack one call now, so that a script with unknown arguments fails here and not at the first lease.
        self._tail({**self._values, "verb": "peek", "request_id": ""})

    def message(self, tag: bytes, verb: str, request_id: str) -> bytes:
        """Return the packed command for one lease; `verb` is acquire, renew, release or peek."""
        return self._message(tag, self._tail({**self._values, "verb": verb, "request_id": request_id}))


def script_arguments(script: AnyScript, values: Mapping[str, object]) -> list[bytes]:
    """Encode values as EVALSHA arguments in the script's order. Omits `now_us`, so that Redis uses its own clock."""
    unknown = [name for name in script.args if name not in values and name not in _OPTIONAL]
    if unknown:
        raise InvalidFile(
            f"script {script.sha1} needs {', '.join(unknown)}, which this version of rlctl does not know",
            hint="use the release that this rlctl ships, or a newer rlctl",
        )
    names = script.args[:-1] if script.args[-1:] == (_CLOCK,) else script.args
    return [str(values.get(name, "")).encode("utf-8", "surrogatepass") for name in names]
