"""What is measured: every script admitting and denying, and plain INCR. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from rlctl.errors import NotFound
from rlctl.limiter.core.calls import ConcurrentCall, CostedCall, script_arguments
from rlctl.limits.algorithms import (
    Concurrent,
    Costed,
    FixedWindow,
    Gcra,
    RollingRing,
    RollingWindow,
    SlidingCounter,
    TokenBucket,
)
from rlctl.limits.release import Release, Script
from rlctl.limits.resp import command

INCR = "incr"
# Every key ends by itself after about this long, should nobody be left to remove it.
KEPT_MS = 600_000
LOG = 100
LEASES = 50
_ENOUGH = 1_000_000_000
# Added up they fill any room up to 127, each taken where it still fits.
_DOWN_TO_ONE = (64, 32, 16, 8, 4, 2, 1)


class Answer(StrEnum):
    """What a decision is made to be."""

    ADMIT = "admit"
    DENY = "deny"


class Subject(Protocol):
    """One thing to measure: its calls on the key of one hash tag."""

    @property
    def name(self) -> str:
        """The script, or incr."""

    @property
    def answer(self) -> Answer | None:
        """What its decisions are; INCR decides nothing."""

    @property
    def command(self) -> str:
        """As INFO commandstats counts it."""

    def key(self, tag: bytes) -> bytes:
        """The key that is written, and removed afterwards."""

    def message(self, tag: bytes) -> bytes:
        """The measured call."""

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:
        """The calls before it that make the key what the measured one wants to find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """A call that is not measured; `windows_ago` moves its clock back."""

    cost: int
    windows_ago: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """A script that takes a cost."""

    command: ClassVar[str] = "evalsha"

    answer: Answer
    call: CostedCall
    fills: Sequence[Fill]
    script: Script

    @property
    def name(self) -> str:
        """The script."""
        return self.call.algorithm.name

    def key(self, tag: bytes) -> bytes:
        """One key of the limiter's own."""
        return self.call.key(tag)

    def message(self, tag: bytes) -> bytes:
        """A decision of cost 1."""
        return self.call.message(tag, 1)

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:
        """By the clock of the measured calls, or windows before it."""
        return [
            self.call.message(tag, fill.cost)
            if fill.windows_ago == 0
            else at_instant(self.script, self.call, tag, fill.cost, now_us - self._back_us(fill))
            for fill in self.fills
        ]

    def _back_us(self, fill: Fill) -> int:
        return fill.windows_ago * (self.call.algorithm.quota_window_ms or 0) * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """The concurrent script: acquiring a lease that is held already, or one too many."""

    command: ClassVar[str] = "evalsha"

    answer: Answer
    call: ConcurrentCall

    @property
    def name(self) -> str:
        """The script."""
        return self.call.algorithm.name

    def key(self, tag: bytes) -> bytes:
        """One key of the limiter's own."""
        return self.call.key(tag)

    def message(self, tag: bytes) -> bytes:
        """The last lease again, or the one after it."""
        return self.call.message(tag, "acquire", _lease(LEASES - 1 if self.answer is Answer.ADMIT else LEASES))

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:  # noqa: ARG002  every subject is asked the same
        """All leases but the measured one."""
        return [self.call.message(tag, "acquire", _lease(number)) for number in range(LEASES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainIncr:
    """What everything is compared with."""

    name: ClassVar[str] = INCR
    command: ClassVar[str] = INCR
    answer: ClassVar[None] = None

    def key(self, tag: bytes) -> bytes:
        """A counter beside the limiters' keys."""
        return b"rl:{%b}:bench:%b" % (tag, INCR.encode())

    def message(self, tag: bytes) -> bytes:
        """INCR itself."""
        return command(b"INCR", self.key(tag))

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:  # noqa: ARG002  every subject is asked the same
        """A counter with an end: INCR alone would leave it for ever."""
        return [command(b"SET", self.key(tag), b"0", b"PX", b"%d" % KEPT_MS)]


Prepared = tuple[Costed, Sequence[Fill]]
_COSTED: dict[str, tuple[Prepared, Prepared]] = {
    "token_bucket": (
        (TokenBucket(1_000_000, 1_000_000, 1000), ()),
        (TokenBucket(10, 1, KEPT_MS // 10), (Fill(cost=10),)),
    ),
    "gcra": (
        (Gcra(1_000_000, 1_000_000, 1000), ()),
        (Gcra(10, 1, KEPT_MS // 10), (Fill(cost=10),)),
    ),
    # Windows of a millisecond: entries leave as others come.
    "rolling_window": (
        (RollingWindow(1000, 1), ()),
        (RollingWindow(LOG, KEPT_MS), (Fill(cost=LOG),)),
    ),
    "rolling_ring": (
        (RollingRing(1000, 1), ()),
        (RollingRing(LOG, KEPT_MS), (Fill(cost=LOG),)),
    ),
}


def _in_windows(window_ms: int) -> dict[str, tuple[Prepared, Prepared]]:
    """The scripts whose windows are counted from the epoch: at the end of one, what was denied would be admitted."""
    return {
        "fixed_window": (
            (FixedWindow(_ENOUGH, window_ms), ()),
            (FixedWindow(LOG, window_ms), (Fill(cost=LOG),)),
        ),
        # With something carried over from the window before: without it the script has less to do. It is so little
        # that no part of it comes back while the window lasts.
        "sliding_counter": (
            (SlidingCounter(_ENOUGH, window_ms), (Fill(cost=1000, windows_ago=1),)),
            (
                SlidingCounter(LOG, window_ms),
                (Fill(cost=1, windows_ago=1), *(Fill(cost=cost) for cost in _DOWN_TO_ONE)),
            ),
        ),
    }


def subjects(release: Release, wanted: Sequence[str], *, window_ms: int = KEPT_MS) -> tuple[Subject, ...]:
    """INCR, and the wanted scripts; each admitting, then denying."""
    scripts = chosen_scripts(release, wanted)
    costed = _COSTED | _in_windows(window_ms)
    return (PlainIncr(), *(_subject(script, answer, costed) for script in scripts for answer in Answer))


def chosen_scripts(release: Release, wanted: Sequence[str]) -> tuple[Script, ...]:
    """The wanted scripts in the release's order, all where none is named; NotFound for what it does not hold."""
    names = [script.name for script in release.scripts]
    for name in wanted:
        if name not in names:
            raise NotFound(f"release {release.version} holds no script {name}", hint=f"there are {', '.join(names)}")
    return tuple(script for script in release.scripts if script.name in wanted or not wanted)


def rule_id(answer: Answer) -> str:
    """Rules of one's own, so that admitting and denying have different keys where no window tells them apart."""
    return f"bench-{answer}"


def at_instant(script: Script, call: CostedCall, tag: bytes, cost: int, now_us: int) -> bytes:
    """A decision by an injected clock."""
    arguments = script_arguments(script, {**call.algorithm.arguments(), "cost": cost})
    return command(b"EVALSHA", script.sha1.encode(), b"1", call.key(tag), *arguments, b"%d" % now_us)


def _subject(script: Script, answer: Answer, costed: Mapping[str, tuple[Prepared, Prepared]]) -> Subject:
    if script.name == Concurrent.name:
        call = ConcurrentCall(script, Concurrent(LEASES, KEPT_MS), rule_id(answer))
        return Leases(answer=answer, call=call)
    known = costed.get(script.name)
    if known is None:
        raise NotFound(f"this version of rlctl cannot bench {script.name}", hint="name other scripts with --script")
    algorithm, fills = known[0 if answer is Answer.ADMIT else 1]
    return Decisions(answer=answer, call=CostedCall(script, algorithm, rule_id(answer)), fills=fills, script=script)


def _lease(number: int) -> str:
    return f"{number:08x}"
