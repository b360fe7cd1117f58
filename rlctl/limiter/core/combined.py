"""Several rules for one request: look at all, charge only if all admit, refund what was charged in vain. Pure.

No script decides by two rules, so another request may come in between. The order does the least harm: first the rule
with the least room, alone, as it is the likeliest to lose its last unit to another request; then all others in one
round. A rule that refuses only then has lost a race: the charges before it are refunded. Scripts of releases before
1.2.0 cannot refund; their charges stay until they expire, and are counted.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from rlctl.errors import RlctlError
from rlctl.limiter.core.calls import CostedCall
from rlctl.limiter.core.commands import Ask, Outcome
from rlctl.limiter.core.deciding import Core, costed
from rlctl.limiter.core.policy import Request
from rlctl.limiter.core.rulebook import Aim
from rlctl.limits.algorithms import RollingRing, RollingWindow
from rlctl.limits.decision import Decision, Reason, Source
from rlctl.limits.failures import BrokenState, Failure

# More commands than this are split over several rounds: each round has the time of one decision.
_MOST_AT_ONCE = 64

Rounds = Generator[tuple[Ask, ...], list[Outcome], tuple[Decision, ...]]


@dataclass(slots=True, eq=False)
class _Part:
    """One rule's part in the decision; `room` is what it has left beyond the cost, below 0 where it would refuse."""

    aim: Aim
    call: CostedCall
    charge: bytes
    decision: Decision | None = None
    trouble: Failure | BrokenState | None = None
    room: int = 0
    is_settled: bool = False
    is_charged: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the request may not pass because of this rule."""
        return self.is_settled and self.decision is not None and not self.decision.allowed


class Together:
    """One request against several rules; `rounds` yields commands to send at once and is sent their outcomes."""

    def __init__(self, core: Core, aims: Sequence[Aim], cost: int, wait_ms: Callable[[bytes, str], int]) -> None:
        self._core = core
        self._cost = cost
        self._wait_ms = wait_ms
        # A cost that a script would refuse is refused here, before anything is sent.
        self._parts = [_Part(aim, costed(aim), costed(aim).message(aim.tag, cost)) for aim in aims]

    def rounds(self) -> Rounds:
        """The decisions in the rules' order, up to the first denial."""
        if self._cost == 0 or len(self._parts) == 1:
            yield from self._charge(self._parts)
            return self._decisions()
        yield from self._look()
        for wave in self._waves():
            yield from self._charge(wave)
            if any(part.refuses for part in wave):
                yield from self._refund()
                break
        return self._decisions()

    def _look(self) -> Generator[tuple[Ask, ...], list[Outcome], None]:
        """What each rule has left; nothing is counted, in Redis or in the stats."""
        outcomes = yield from _sent([_ask(part, part.call.message(part.aim.tag, 0)) for part in self._parts])
        for part, outcome in zip(self._parts, outcomes, strict=True):
            read = self._read(part, outcome)
            if isinstance(read, Decision):
                part.decision, part.room = read, _room(part.call, read, self._cost)
            elif isinstance(read, BrokenState) and not part.aim.shadow:
                raise read
            else:
                part.trouble = read

    def _waves(self) -> Iterator[list[_Part]]:
        """Rules to charge together: those that would refuse, one by one, then those that Redis cannot decide."""
        enforced = [part for part in self._parts if part.trouble is None and not part.aim.shadow]
        alone = [part for part in enforced if part.room < 0] or sorted(enforced, key=lambda part: part.room)[:1]
        troubled = [part for part in self._parts if part.trouble is not None]
        yield from ([part] for part in alone if part.room < 0)
        yield troubled
        yield from ([part] for part in alone if part.room >= 0)
        yield [part for part in self._parts if part not in alone and part not in troubled]

    def _charge(self, wave: Sequence[_Part]) -> Generator[tuple[Ask, ...], list[Outcome], None]:
        for part in wave:
            if part.trouble is not None:
                self._fall_back(part, part.trouble)
        asked = [part for part in wave if part.trouble is None]
        outcomes = yield from _sent([_ask(part, part.charge) for part in asked])
        broken = [wrong for part, out in zip(asked, outcomes, strict=True) if (wrong := self._settle(part, out))]
        if broken:
            yield from self._refund()
            raise broken[0]

    def _settle(self, part: _Part, outcome: Outcome) -> BrokenState | None:
        """Take over what a rule decided; what must be raised is returned, as others may have to be refunded first."""
        read = self._read(part, outcome)
        if isinstance(read, BrokenState) and not part.aim.shadow:
            return read
        if not isinstance(read, Decision):
            self._fall_back(part, read)
            return None
        part.is_charged = read.allowed and self._cost > 0
        part.decision, part.is_settled = self._core.settled(part.aim, read), True
        return None

    def _read(self, part: _Part, outcome: Outcome) -> Decision | Failure | BrokenState:
        if isinstance(outcome, Failure | BrokenState):
            return outcome
        if isinstance(outcome, RlctlError):
            raise outcome
        try:
            return self._core.read(part.aim, outcome)
        except Failure as failure:
            return failure

    def _fall_back(self, part: _Part, trouble: Failure | BrokenState, cost: int | None = None) -> None:
        request = self._request(part, self._cost if cost is None else cost)
        part.decision, part.is_settled = self._core.fall_back(part.aim, request, trouble, None), True
        part.is_charged = (
            request.cost > 0 and part.decision.source is Source.LOCAL and part.decision.reason is Reason.OK
        )

    def _request(self, part: _Part, cost: int) -> Request:
        call, tag = part.call, part.aim.tag
        wait_ms = self._wait_ms(tag, call.sha1)
        return Request(algorithm=call.algorithm, key=call.key(tag), quota=call.quota, cost=cost, retry_in_ms=wait_ms)

    def _refund(self) -> Generator[tuple[Ask, ...], list[Outcome], None]:
        """Take back what was charged; each charge is counted by its rule, as refunded or not."""
        charged = [part for part in self._parts if part.is_charged]
        remote = [part for part in charged if not _is_local(part)]
        # Not sent again after a failure: a refund that was carried out twice would give away more than was taken.
        outcomes = yield from _sent([_ask(part, part.call.refund(part.aim.tag, self._cost)) for part in remote])
        is_refunded = {id(part): isinstance(outcome, list) for part, outcome in zip(remote, outcomes, strict=True)}
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                self._core.counters.failed(outcome)
        for part in charged:
            if _is_local(part):
                is_refunded[id(part)] = self._core.refund(part.aim, self._request(part, self._cost))
            self._core.counters.refunded(part.call.quota.name, is_refunded=is_refunded[id(part)])

    def _decisions(self) -> tuple[Decision, ...]:
        found: list[Decision] = []
        for part in self._parts:
            found.append(self._decision(part))
            if not found[-1].allowed:
                break
        return tuple(found)

    def _decision(self, part: _Part) -> Decision:
        """The rule's decision; what the look showed where the rule was not charged because a later one refuses."""
        if not part.is_settled and part.trouble is not None:
            self._fall_back(part, part.trouble, cost=0)
        assert part.decision is not None
        if part.is_settled:
            return part.decision
        seen = part.decision
        if part.room < 0 and seen.allowed:
            seen = replace(seen, allowed=False, reason=Reason.OVER_LIMIT, retry_after_ms=seen.reset_after_ms or 0)
        return self._core.settled(part.aim, seen)


def _room(call: CostedCall, seen: Decision, cost: int) -> int:
    """What is left beyond the cost by a look, which itself is never refused for its cost or its minimum interval."""
    rule, reset_ms = call.algorithm, seen.reset_after_ms or 0
    if not seen.allowed or seen.remaining is None:
        return -1
    if isinstance(rule, RollingWindow | RollingRing) and rule.min_interval_ms > 0 and reset_ms > 0:
        # The reset counts from the last admission, so it shows how long ago that was.
        is_early = rule.window_ms - reset_ms < rule.min_interval_ms
        return -1 if is_early else seen.remaining - cost
    return seen.remaining - cost


def _is_local(part: _Part) -> bool:
    return part.decision is not None and part.decision.source is Source.LOCAL


def _ask(part: _Part, message: bytes) -> Ask:
    return Ask(message, part.aim.tag, part.call.sha1)


def _sent(asks: Sequence[Ask]) -> Generator[tuple[Ask, ...], list[Outcome], list[Outcome]]:
    """Their outcomes, in rounds of a bounded size; no round where there is nothing to ask."""
    outcomes: list[Outcome] = []
    for start in range(0, len(asks), _MOST_AT_ONCE):
        outcomes += yield tuple(asks[start : start + _MOST_AT_ONCE])
    return outcomes
