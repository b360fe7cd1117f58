"""What the limiter for threads and the one for asyncio share: packing calls, reading replies, falling back."""

from typing import TypeVar

from rlctl.limiter.algorithms import Algorithm, Concurrent, Costed
from rlctl.limiter.calls import Call, ConcurrentCall, CostedCall, released
from rlctl.limiter.counters import Counters
from rlctl.limiter.decision import REASONS, Decision, Source
from rlctl.limiter.failures import Cause, Failure, InvalidLimit
from rlctl.limiter.policy import LocalPolicy, Policy, Request, read_policy
from rlctl.scripts.model import Release

# Rules change while a service runs; what was packed for old ones is thrown away with all the rest.
_MOST_CALLS = 4096

_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


class Core:
    """Everything of a limiter that talks to nobody."""

    def __init__(self, release: Release | None, policy: str | Policy, counters: Counters) -> None:
        self.counters = counters
        self.release = release or _shipped_release()
        self._policy = read_policy(policy)
        self._policies: dict[str, Policy] = {}
        self._costed: dict[tuple[Costed, str], CostedCall] = {}
        self._concurrent: dict[tuple[Concurrent, str], ConcurrentCall] = {}

    def costed(self, algorithm: Costed, rule_id: str) -> CostedCall:
        """The packed calls of a rule."""
        call = self._costed.get((algorithm, rule_id))
        if call is None:
            _check_kind(algorithm, has_leases=False)
            call = CostedCall(released(self.release, algorithm), algorithm, rule_id)
            _keep(self._costed, (algorithm, rule_id), call)
        return call

    def concurrent(self, algorithm: Concurrent, rule_id: str) -> ConcurrentCall:
        """The packed calls of a concurrent rule."""
        call = self._concurrent.get((algorithm, rule_id))
        if call is None:
            _check_kind(algorithm, has_leases=True)
            call = ConcurrentCall(released(self.release, algorithm), algorithm, rule_id)
            _keep(self._concurrent, (algorithm, rule_id), call)
        return call

    def answered(self, call: Call, reply: list[int]) -> Decision:
        """A script's reply as a decision; Failure where it is none."""
        try:
            allowed, limit, remaining, retry_after_ms, reset_after_ms, reason = reply
            decision = Decision(
                allowed=allowed == 1,
                limit=limit,
                remaining=remaining,
                retry_after_ms=retry_after_ms,
                reset_after_ms=reset_after_ms,
                reason=REASONS[reason],
                source=Source.REDIS,
                quota=call.quota,
            )
        except (ValueError, IndexError, TypeError):
            raise Failure(Cause.ERROR, f"not the reply of a limiter script: {reply!r}") from None
        self.counters.decided((Source.REDIS, decision.reason))
        return decision

    def fall_back(self, request: Request, failure: Failure, policy: str | Policy | None) -> Decision:
        """What the policy answers in the place of Redis."""
        self.counters.failed(failure)
        decision = self._chosen(policy).decide(request, failure.cause)
        self.counters.decided((decision.source, decision.reason))
        return decision

    def released(self, request: Request, policy: str | Policy | None) -> None:
        """Redis took a lease back; one that was given here while it was away goes too."""
        chosen = self._chosen(policy)
        if isinstance(chosen, LocalPolicy):
            chosen.take_back(request)

    def _chosen(self, policy: str | Policy | None) -> Policy:
        if policy is None:
            return self._policy
        if not isinstance(policy, str):
            return policy
        known = self._policies.get(policy)
        # The same text must mean the same object: a local policy remembers what it admitted.
        return known if known is not None else self._policies.setdefault(policy, read_policy(policy))


def _shipped_release() -> Release:
    # Reading YAML is a thing of connecting; importing the library stays cheap.
    from rlctl.scripts.release import load_release  # noqa: PLC0415

    return load_release()


def _check_kind(algorithm: Algorithm, *, has_leases: bool) -> None:
    if isinstance(algorithm, Concurrent) is not has_leases:
        raise InvalidLimit(
            f"{algorithm.name} has no leases: decide it"
            if has_leases
            else "a concurrent limit is acquired, not decided"
        )


def _keep(calls: dict[_Key, _Known], key: _Key, call: _Known) -> None:
    if len(calls) >= _MOST_CALLS:
        calls.clear()
    calls[key] = call
