"""Runs boundary attacks against the scripts of a fleet, with an injected clock, on keys that only the bench uses."""

import time
from collections.abc import Iterator, Sequence

from rlctl.bench.attack import ALL, Attack, attacks, play, worst_of, worst_window
from rlctl.bench.claims import Accuracy
from rlctl.bench.session import TIMEOUT_S, BenchPrimary, Session, now_s
from rlctl.bench.subjects import at_instant, chosen_scripts
from rlctl.errors import TimedOut, UsageFault
from rlctl.execute.stop import StopFlag
from rlctl.limiter.core.calls import CostedCall
from rlctl.limits.algorithms import Costed, FixedWindow, Gcra, RollingRing, RollingWindow, SlidingCounter, TokenBucket
from rlctl.limits.failures import Cause, Failure
from rlctl.limits.release import Release, Script

LIMIT = 100
WINDOW_MS = 60_000
WINDOW_US = WINDOW_MS * 1000
# Midnight in UTC, because a window of any length that divides a day starts at midnight.
START_US = 1_800_000_000_000_000 // 86_400_000_000 * 86_400_000_000
RULES: dict[str, Costed] = {
    one.name: one
    for one in (
        TokenBucket(LIMIT, LIMIT, WINDOW_MS),
        Gcra(LIMIT, LIMIT, WINDOW_MS),
        FixedWindow(LIMIT, WINDOW_MS),
        SlidingCounter(LIMIT, WINDOW_MS),
        RollingWindow(LIMIT, WINDOW_MS),
        RollingRing(LIMIT, WINDOW_MS),
    )
}
# The longest time that a call of an attack may take. The scripts use the injected clock, but the server expires a key
# by its own clock, at the earliest a second after the last call. If a call took longer, the attack could lose its key.
_SLOWEST_S = 0.8
_TRIES = 5


def attackable(release: Release, wanted: Sequence[str]) -> tuple[Script, ...]:
    """Return the wanted scripts, or if `wanted` is empty, all scripts that have windows.

    Raises UsageFault for a wanted script without windows.
    """
    chosen = chosen_scripts(release, wanted)
    for name in wanted:
        if name not in RULES:
            raise UsageFault(f"{name} has no window: there is no boundary to attack", hint=f"try {', '.join(RULES)}")
    return tuple(script for script in chosen if script.name in RULES)


def run_accuracy(session: Session, scripts: Sequence[Script], stop: StopFlag) -> Iterator[Accuracy]:
    """Yield the worst result of all attacks for each script."""
    planned = attacks(LIMIT, WINDOW_US)
    for script in scripts:
        attacker = _Attacker(session, script, CostedCall(script, RULES[script.name], "bench-accuracy"), stop)
        worst = worst_of((attack, attacker.worst(attack)) for attack in planned)
        yield Accuracy(script=script.name, limit=LIMIT, window_ms=WINDOW_MS, attacks=len(planned), worst=worst)


class _Attacker:
    """Attacks one script, each time on a new key of the first primary."""

    def __init__(self, session: Session, script: Script, call: CostedCall, stop: StopFlag) -> None:
        self._session = session
        self._script = script
        self._call = call
        self._stop = stop
        self._primary: BenchPrimary = session.primaries[0]
        self._used = 0

    def worst(self, attack: Attack) -> int:
        """Run the attack and return the most units that a trailing window admitted.

        Repeats an attack that was too slow. Raises TimedOut if every attempt was too slow.
        """
        for _ in range(_TRIES):
            self._stop.check()
            tag = self._fresh_tag()
            slowest_s = 0.0

            def take(at_us: int, cost: int, tag: bytes = tag) -> int:
                nonlocal slowest_s
                began_s = now_s()
                units = self._take(tag, START_US + at_us, cost)
                slowest_s = max(slowest_s, now_s() - began_s)
                return units

            admitted = play(attack, LIMIT, WINDOW_US, take)
            if slowest_s < _SLOWEST_S:
                return worst_window(admitted, WINDOW_US)
        raise TimedOut(
            f"{self._primary.name} answers too slowly for an attack",
            hint="keys would expire during the attack; run the bench again when the fleet is less busy",
        )

    def _fresh_tag(self) -> bytes:
        self._used += 1
        tag = self._session.tags(self._primary, self._used)[-1]
        self._session.will_write(self._primary, [self._call.key(tag)])
        return tag

    def _take(self, tag: bytes, at_us: int, cost: int) -> int:
        if cost == ALL:
            cost = self._decide(tag, 0, at_us)[2]
        if cost == 0:
            return 0
        return cost if self._decide(tag, cost, at_us)[0] == 1 else 0

    def _decide(self, tag: bytes, cost: int, at_us: int) -> list[int]:
        message = at_instant(self._script, self._call, tag, cost, at_us)
        reply = self._primary.limiter.exchange(message, time.monotonic() + TIMEOUT_S)
        if not isinstance(reply, list):
            raise Failure(Cause.ERROR, f"{self._primary.name}: {reply!r}")
        return reply
