"""Decides one request by several rules: read all, charge only if all admit, refund if one denies. Pure.

A call of a script decides by one rule, so another request may take a unit between the calls for two rules. The rule
with the fewest units left is charged first and alone, because it is the most likely to deny; all others follow in one
round. If a rule denies, the charges of the other rules are refunded. Scripts of releases before 1.2.0 cannot refund.
Charges by these scripts count until they expire, and the stats report the charges as `unrefunded`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from rlctl.errors import RlctlError
from rlctl.limiter.core.calls import CostedCall
from rlctl.limiter.core.commands import Command, CommandResult
from rlctl.limiter.core.deciding import Core, costed
from rlctl.limiter.core.policy import FallbackRequest
from rlctl.limiter.core.rulebook import BoundCall
from rlctl.limits.algorithms import RollingRing, RollingWindow
from rlctl.limits.decision import Decision, Reason, Source
from rlctl.limits.failures import BrokenState, Failure

# More commands than this are split into several rounds; each round may take as long as one decision.
_MOST_AT_ONCE = 64

Rounds = Generator[tuple[Command, ...], list[CommandResult], tuple[Decision, ...]]


@dataclass(slots=True, eq=False)
class _Part:
    """The state of one rule; `room` is the number of units left after the charge, negative if the rule would deny."""

    bound: BoundCall
    call: CostedCall
    charge: bytes
    decision: Decision | None = None
    trouble: Failure | BrokenState | None = None
    room: int = 0
    is_decided: bool = False
    is_charged: bool = False

    @property
    def denies(self) -> bool:
        return self.is_decided and self.decision is not None and not self.decision.allowed


class CombinedDecision:
    """One request that several rules decide; `wait_ms` returns the milliseconds until a call may be sent again."""

    def __init__(self, core: Core, calls: Sequence[BoundCall], cost: int, wait_ms: Callable[[bytes, str], int]) -> None:
        self._core = core
        self._cost = cost
        self._wait_ms = wait_ms
        # Packing the charges raises InvalidLimit for a cost that a script would refuse, before any command is sent.
        self._parts = [_Part(bound, costed(bound), costed(bound).message(bound.tag, cost)) for bound in calls]

    def rounds(self) -> Rounds:
        """Yield the commands of each round, receive their results, and return the decisions up to the first denial."""
        if self._cost == 0 or len(self._parts) == 1:
            yield from self._charge(self._parts)
            return self._decisions()
        yield from self._peek()
        for wave in self._waves():
            yield from self._charge(wave)
            if any(part.denies for part in wave):
                yield from self._refund()
                break
        return self._decisions()

    def _peek(self) -> Generator[tuple[Command, ...], list[CommandResult], None]:
        """Read the remaining units of each rule. The counters in Redis and in the stats do not change."""
        results = yield from _sent([_command(part, part.call.message(part.bound.tag, 0)) for part in self._parts])
        for part, result in zip(self._parts, results, strict=True):
            read = self._read(part, result)
            if isinstance(read, Decision):
                part.decision, part.room = read, _room(part.call, read, self._cost)
            elif isinstance(read, BrokenState) and not part.bound.shadow:
                raise read
            else:
                part.trouble = read

    def _waves(self) -> Iterator[list[_Part]]:
        """Yield the groups of rules to charge together, in order.

        Rules that would deny come first, one by one. Then follow the rules that Redis did not answer, which the failure
        policy decides. If no rule would deny, the rule with the fewest units left is next. All others come last.
        """
        enforced = [part for part in self._parts if part.trouble is None and not part.bound.shadow]
        alone = [part for part in enforced if part.room < 0] or sorted(enforced, key=lambda part: part.room)[:1]
        unanswered = [part for part in self._parts if part.trouble is not None]
        yield from ([part] for part in alone if part.room < 0)
        yield unanswered
        yield from ([part] for part in alone if part.room >= 0)
        yield [part for part in self._parts if part not in alone and part not in unanswered]

    def _charge(self, wave: Sequence[_Part]) -> Generator[tuple[Command, ...], list[CommandResult], None]:
        for part in wave:
            if part.trouble is not None:
                self._fall_back(part, part.trouble)
        charged = [part for part in wave if part.trouble is None]
        results = yield from _sent([_command(part, part.charge) for part in charged])
        broken = [error for part, result in zip(charged, results, strict=True) if (error := self._take(part, result))]
        if broken:
            yield from self._refund()
            raise broken[0]

    def _take(self, part: _Part, result: CommandResult) -> BrokenState | None:
        """Store a rule's decision.

        If this method returns an error, the caller must refund the other charges and then raise the error.
        """
        read = self._read(part, result)
        if isinstance(read, BrokenState) and not part.bound.shadow:
            return read
        if not isinstance(read, Decision):
            self._fall_back(part, read)
            return None
        part.is_charged = read.allowed and self._cost > 0
        part.decision, part.is_decided = self._core.count(part.bound, read), True
        return None

    def _read(self, part: _Part, result: CommandResult) -> Decision | Failure | BrokenState:
        if isinstance(result, Failure | BrokenState):
            return result
        if isinstance(result, RlctlError):
            raise result
        try:
            return self._core.parse_reply(part.bound, result)
        except Failure as failure:
            return failure

    def _fall_back(self, part: _Part, trouble: Failure | BrokenState, cost: int | None = None) -> None:
        request = self._request(part, self._cost if cost is None else cost)
        part.decision, part.is_decided = self._core.fall_back(part.bound, request, trouble, None), True
        part.is_charged = (
            request.cost > 0 and part.decision.source is Source.LOCAL and part.decision.reason is Reason.OK
        )

    def _request(self, part: _Part, cost: int) -> FallbackRequest:
        call, tag = part.call, part.bound.tag
        wait_ms = self._wait_ms(tag, call.sha1)
        return FallbackRequest(
            algorithm=call.algorithm, key=call.key(tag), quota=call.quota, cost=cost, retry_in_ms=wait_ms
        )

    def _refund(self) -> Generator[tuple[Command, ...], list[CommandResult], None]:
        """Refund all charges, and count each charge as refunded or unrefunded."""
        charged = [part for part in self._parts if part.is_charged]
        remote = [part for part in charged if not _is_local(part)]
        # A refund is not retried: if it ran twice, it would return more units than were taken.
        results = yield from _sent([_command(part, part.call.refund(part.bound.tag, self._cost)) for part in remote])
        is_refunded = {id(part): isinstance(result, list) for part, result in zip(remote, results, strict=True)}
        for result in results:
            if isinstance(result, Failure):
                self._core.counters.failed(result)
        for part in charged:
            if _is_local(part):
                is_refunded[id(part)] = self._core.refund(part.bound, self._request(part, self._cost))
            self._core.counters.refunded(part.call.quota.name, is_refunded=is_refunded[id(part)])

    def _decisions(self) -> tuple[Decision, ...]:
        found: list[Decision] = []
        for part in self._parts:
            found.append(self._decision(part))
            if not found[-1].allowed:
                break
        return tuple(found)

    def _decision(self, part: _Part) -> Decision:
        """Return the decision of a rule.

        The limiter does not charge a rule if another rule denies. The peek is then the decision of the rule.
        """
        if not part.is_decided and part.trouble is not None:
            self._fall_back(part, part.trouble, cost=0)
        assert part.decision is not None
        if part.is_decided:
            return part.decision
        seen = part.decision
        if part.room < 0 and seen.allowed:
            seen = replace(seen, allowed=False, reason=Reason.OVER_LIMIT, retry_after_ms=seen.reset_after_ms or 0)
        return self._core.count(part.bound, seen)


def _room(call: CostedCall, seen: Decision, cost: int) -> int:
    """Return the units left after a charge; negative if the charge would be denied.

    A peek has no cost, so a script never denies it because of the cost or the minimum interval. This function checks
    both.
    """
    rule, reset_ms = call.algorithm, seen.reset_after_ms or 0
    if not seen.allowed or seen.remaining is None:
        return -1
    if isinstance(rule, RollingWindow | RollingRing) and rule.min_interval_ms > 0 and reset_ms > 0:
        # `reset_after_ms` is the window minus the time since the last admission.
        is_early = rule.window_ms - reset_ms < rule.min_interval_ms
        return -1 if is_early else seen.remaining - cost
    return seen.remaining - cost


def _is_local(part: _Part) -> bool:
    return part.decision is not None and part.decision.source is Source.LOCAL


def _command(part: _Part, message: bytes) -> Command:
    return Command(message, part.bound.tag, part.call.sha1)


def _sent(commands: Sequence[Command]) -> Generator[tuple[Command, ...], list[CommandResult], list[CommandResult]]:
    """Yield the commands in rounds of a bounded size, and return their results."""
    results: list[CommandResult] = []
    for start in range(0, len(commands), _MOST_AT_ONCE):
        results += yield tuple(commands[start : start + _MOST_AT_ONCE])
    return results
