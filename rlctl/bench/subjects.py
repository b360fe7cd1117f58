"""The cases that a bench measures: each script while it admits and while it denies, and INCR. Pure."""

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
# Every key expires after about this time, in case the bench cannot remove it.
KEPT_MS = 600_000
LOG = 100
LEASES = 50
_ENOUGH = 1_000_000_000
# Calls with these costs use up any remainder below 128, because the script admits each cost that still fits.
_DOWN_TO_ONE = (64, 32, 16, 8, 4, 2, 1)


class Answer(StrEnum):
    """The decision that a case is prepared to get."""

    ADMIT = "admit"
    DENY = "deny"


class BenchCase(Protocol):
    """A script or command to measure. Its methods return the calls on the key for a hash tag."""

    @property
    def name(self) -> str:
        """The name of the script, or `incr`."""

    @property
    def answer(self) -> Answer | None:
        """The expected decision; None for INCR."""

    @property
    def command(self) -> str:
        """The name of the command in INFO commandstats."""

    def key(self, tag: bytes) -> bytes:
        """The key that the calls write."""

    def message(self, tag: bytes) -> bytes:
        """The measured call."""

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:
        """The calls that bring the key into the state that the measured call expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillCall:
    """A call that prepares a key, with a clock that is `windows_ago` windows in the past."""

    cost: int
    windows_ago: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostedCase:
    """A case of a script that has a cost argument."""

    command: ClassVar[str] = "evalsha"

    answer: Answer
    call: CostedCall
    fills: Sequence[FillCall]
    script: Script

    @property
    def name(self) -> str:
        return self.call.algorithm.name

    def key(self, tag: bytes) -> bytes:
        return self.call.key(tag)

    def message(self, tag: bytes) -> bytes:
        return self.call.message(tag, 1)

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:
        return [
            self.call.message(tag, fill.cost)
            if fill.windows_ago == 0
            else at_instant(self.script, self.call, tag, fill.cost, now_us - self._back_us(fill))
            for fill in self.fills
        ]

    def _back_us(self, fill: FillCall) -> int:
        return fill.windows_ago * (self.call.algorithm.quota_window_ms or 0) * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentCase:
    """A case of the concurrent script.

    The admitted calls acquire an existing lease again. The denied calls request one lease more than the limit allows.
    """

    command: ClassVar[str] = "evalsha"

    answer: Answer
    call: ConcurrentCall

    @property
    def name(self) -> str:
        return self.call.algorithm.name

    def key(self, tag: bytes) -> bytes:
        return self.call.key(tag)

    def message(self, tag: bytes) -> bytes:
        return self.call.message(tag, "acquire", _lease(LEASES - 1 if self.answer is Answer.ADMIT else LEASES))

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:  # noqa: ARG002  part of the protocol
        """Acquire all leases up to the limit."""
        return [self.call.message(tag, "acquire", _lease(number)) for number in range(LEASES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrCase:
    """INCR, the baseline to which the scripts are compared."""

    name: ClassVar[str] = INCR
    command: ClassVar[str] = INCR
    answer: ClassVar[None] = None

    def key(self, tag: bytes) -> bytes:
        return b"rl:{%b}:bench:%b" % (tag, INCR.encode())

    def message(self, tag: bytes) -> bytes:
        return command(b"INCR", self.key(tag))

    def fill(self, tag: bytes, now_us: int) -> list[bytes]:  # noqa: ARG002  part of the protocol
        """Create the counter with an expiry, because INCR creates a key without an expiry."""
        return [command(b"SET", self.key(tag), b"0", b"PX", b"%d" % KEPT_MS)]


Prepared = tuple[Costed, Sequence[FillCall]]
_COSTED: dict[str, tuple[Prepared, Prepared]] = {
    "token_bucket": (
        (TokenBucket(1_000_000, 1_000_000, 1000), ()),
        (TokenBucket(10, 1, KEPT_MS // 10), (FillCall(cost=10),)),
    ),
    "gcra": (
        (Gcra(1_000_000, 1_000_000, 1000), ()),
        (Gcra(10, 1, KEPT_MS // 10), (FillCall(cost=10),)),
    ),
    # The admitting cases have windows of one millisecond, so old entries expire while new entries are added.
    "rolling_window": (
        (RollingWindow(1000, 1), ()),
        (RollingWindow(LOG, KEPT_MS), (FillCall(cost=LOG),)),
    ),
    "rolling_ring": (
        (RollingRing(1000, 1), ()),
        (RollingRing(LOG, KEPT_MS), (FillCall(cost=LOG),)),
    ),
}


def _in_windows(window_ms: int) -> dict[str, tuple[Prepared, Prepared]]:
    """The cases of the scripts whose windows are aligned to the epoch.

    The current window of length `window_ms` must not end during the bench, because a denying case would admit in the
    next window.
    """
    return {
        "fixed_window": (
            (FixedWindow(_ENOUGH, window_ms), ()),
            (FixedWindow(LOG, window_ms), (FillCall(cost=LOG),)),
        ),
        # A count in the previous window makes the script do all its work. The count is too small for a unit to become
        # available again during the window.
        "sliding_counter": (
            (SlidingCounter(_ENOUGH, window_ms), (FillCall(cost=1000, windows_ago=1),)),
            (
                SlidingCounter(LOG, window_ms),
                (FillCall(cost=1, windows_ago=1), *(FillCall(cost=cost) for cost in _DOWN_TO_ONE)),
            ),
        ),
    }


def bench_cases(release: Release, wanted: Sequence[str], *, window_ms: int = KEPT_MS) -> tuple[BenchCase, ...]:
    """The INCR case, then the admitting case and the denying case of each wanted script."""
    scripts = chosen_scripts(release, wanted)
    costed = _COSTED | _in_windows(window_ms)
    return (IncrCase(), *(_bench_case(script, answer, costed) for script in scripts for answer in Answer))


def chosen_scripts(release: Release, wanted: Sequence[str]) -> tuple[Script, ...]:
    """The wanted scripts in the order of the release; all if `wanted` is empty. Raises NotFound for an unknown name."""
    names = [script.name for script in release.scripts]
    for name in wanted:
        if name not in names:
            raise NotFound(f"release {release.version} has no script {name}", hint=f"there are {', '.join(names)}")
    return tuple(script for script in release.scripts if script.name in wanted or not wanted)


def rule_id(answer: Answer) -> str:
    """The rule id of a case. The ids of admitting and denying cases differ, because the cases need different keys."""
    return f"bench-{answer}"


def at_instant(script: Script, call: CostedCall, tag: bytes, cost: int, now_us: int) -> bytes:
    """An EVALSHA call that makes the script use `now_us` as the current time."""
    arguments = script_arguments(script, {**call.algorithm.arguments(), "cost": cost})
    return command(b"EVALSHA", script.sha1.encode(), b"1", call.key(tag), *arguments, b"%d" % now_us)


def _bench_case(script: Script, answer: Answer, costed: Mapping[str, tuple[Prepared, Prepared]]) -> BenchCase:
    if script.name == Concurrent.name:
        call = ConcurrentCall(script, Concurrent(LEASES, KEPT_MS), rule_id(answer))
        return ConcurrentCase(answer=answer, call=call)
    known = costed.get(script.name)
    if known is None:
        raise NotFound(f"this version of rlctl cannot bench {script.name}", hint="name other scripts with --script")
    algorithm, fills = known[0 if answer is Answer.ADMIT else 1]
    return CostedCase(answer=answer, call=CostedCall(script, algorithm, rule_id(answer)), fills=fills, script=script)


def _lease(number: int) -> str:
    return f"{number:08x}"
