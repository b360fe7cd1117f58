"""Reads the count of one identity from the node that owns its key, without consuming units."""

from typing import Any

from rlctl.execute.locking import primary_for_key
from rlctl.limiter.core.calls import Call, script_arguments
from rlctl.limits.algorithms import Concurrent
from rlctl.limits.decision import REASONS, Reason
from rlctl.limits.rule import Rule
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.key_state import key_reader
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink

_UNKNOWN = dict.fromkeys(("limit", "count", "remaining", "reset_after_ms", "allowed", "reason"))
# Errors that the server returns before the script reads its key. All other errors are about the key.
_REFUSES_SCRIPTS = frozenset({"OOM", "NOSCRIPT", "MISCONF", "NOREPLICAS"})


def key_usage(now: RulesInForce, call: Call, rule: Rule, key: str) -> dict[str, Any]:
    """The node, key and count of an identity, and the answer to its next call of cost 1; unknown values are None."""
    unknown = {"node": None, "host": None, "port": None, "type": None, "ttl_ms": None, **_UNKNOWN}
    spec = primary_for_key(now.fleet, now.observed, key)
    if spec is None:
        return unknown | {"reason": Reason.UNAVAILABLE}
    place = {"node": spec.name, "host": spec.address, "port": spec.port}
    query = _KeyQuery(now.fleet.connector.link(spec), call, rule, key)
    try:
        return unknown | place | query.run()
    except LinkFailure:
        return unknown | place | {"reason": Reason.UNAVAILABLE}
    except CommandFailed as failure:
        return unknown | place | {"reason": str(failure)}


class _KeyQuery:
    """Reads one key of one rule."""

    def __init__(self, link: NodeLink, call: Call, rule: Rule, key: str) -> None:
        self._link = link
        self._call = call
        self._rule = rule
        self._key = key
        self._values = call.algorithm.arguments()
        self._how = key_reader(rule.definition.algorithm, rule.script.state)

    def run(self) -> dict[str, object]:
        """Peek with the script; read the key itself if the server refuses scripts. CommandFailed if PTTL fails."""
        words = self._key.encode("utf-8", "surrogatepass")
        peek = {"verb": "peek", "request_id": ""} if isinstance(self._call.algorithm, Concurrent) else {"cost": 0}
        arguments = script_arguments(self._rule.script, {**self._values, **peek})
        reply, kind, ttl_ms = self._link.pipeline(
            [("EVALSHA", self._rule.script.sha1, 1, words, *arguments), ("TYPE", words), ("PTTL", words)]
        )
        if isinstance(ttl_ms, CommandFailed):
            raise ttl_ms
        seen = {"type": kind if kind != "none" else None, "ttl_ms": ttl_ms if ttl_ms >= 0 else None}
        if isinstance(reply, CommandFailed):
            readable = reply.prefix in _REFUSES_SCRIPTS
            return seen | (self._from_key() if readable else {}) | {"reason": str(reply)}
        return seen | self._read(reply)

    def _from_key(self) -> dict[str, object]:
        count, limit = self._used(), self._call.algorithm.limit
        return {} if count is None else {"limit": limit, "count": count, "remaining": max(0, limit - count)}

    def _read(self, reply: list[int]) -> dict[str, object]:
        """The answer to the next call. A peek ignores the minimum interval, so this function checks the interval."""
        allowed, limit, remaining, _retry, reset_after_ms, reason = reply
        verdict = REASONS[reason] if not allowed else Reason.OVER_LIMIT if remaining == 0 else Reason.OK
        if verdict is Reason.OK and self._is_too_soon():
            verdict = Reason.MIN_INTERVAL
        # The script reports at least 0 remaining units. After a limit is lowered, the used units may exceed the limit,
        # so they are read from the key.
        used = self._used() if remaining == 0 else None
        return {
            "limit": limit,
            "count": max(limit - remaining, used or 0),
            "remaining": remaining,
            "reset_after_ms": reset_after_ms,
            "allowed": verdict is Reason.OK,
            "reason": verdict,
        }

    def _used(self) -> int | None:
        """The used units in the key; None if they cannot be read."""
        if self._how is None:
            return None
        try:
            now_us = self._now_us()
            return self._how.used(
                self._link.call(*self._how.command(self._key, self._values, now_us)), self._values, now_us
            )
        except (CommandFailed, ValueError):
            return None

    def _is_too_soon(self) -> bool:
        interval_us = self._values.get("min_interval_ms", 0) * 1000
        if not interval_us or self._how is None or self._how.last_admission is None:
            return False
        newest = self._how.last_admission
        last_us = newest.at_us(self._link.call(*newest.command(self._key)))
        return last_us is not None and self._now_us() - last_us < interval_us

    def _now_us(self) -> int:
        seconds, more_us = self._link.call("TIME")
        return int(seconds) * 1_000_000 + int(more_us)
