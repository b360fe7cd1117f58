"""Boundary attacks on limits, and the worst trailing window that they find. Pure: a callback makes the decisions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

# Takes an instant in microseconds and a cost, and returns the admitted units. Cost ALL requests all remaining units.
Take = Callable[[int, int], int]
ALL = 0
_HORIZON = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Units that were admitted at one instant."""

    at_us: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack that requests a share of the limit once, then all remaining units at every step.

    The first request comes `phase_us` after the start of the first window. If the phase is at the end of the window and
    a step is as long as a window, the attack is a burst across the boundary. With short steps, the attack takes every
    unit as soon as the unit is available again.
    """

    phase_us: int
    first_share: float
    step_us: int

    def asks(self, limit: int, window_us: int) -> Iterator[tuple[int, int]]:
        """Yield pairs (microseconds since the start of the first window, cost).

        The instants include each boundary between windows and the microsecond before it.
        """
        yield self.phase_us, max(1, round(limit * self.first_share))
        end_us = _HORIZON * window_us
        instants = {*range(self.phase_us, end_us, self.step_us), *range(0, end_us, self.step_us)}
        instants |= {number * window_us + edge for number in range(1, _HORIZON) for edge in (-1, 0)}
        yield from ((at_us, ALL) for at_us in sorted(instants) if at_us > self.phase_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstWindow:
    """The most units that a trailing window admitted, and the attack that achieved it."""

    admitted: int
    attack: Attack


def attacks(limit: int, window_us: int) -> tuple[Attack, ...]:
    """All attacks, in a fixed order."""
    phases = (0, window_us // 2, window_us - 1000, window_us - 1)
    steps = (window_us // limit, window_us // 10, window_us // 3, window_us)
    return tuple(
        Attack(phase_us=phase_us, first_share=share, step_us=step_us)
        for phase_us, share, step_us in product(phases, (1.0, 0.5), steps)
    )


def play(attack: Attack, limit: int, window_us: int, take: Take) -> tuple[Admitted, ...]:
    """Run an attack and return the admissions in order."""
    asked = ((at_us, take(at_us, cost)) for at_us, cost in attack.asks(limit, window_us))
    return tuple(Admitted(at_us=at_us, units=units) for at_us, units in asked if units)


def worst_window(admitted: Sequence[Admitted], window_us: int) -> int:
    """The most units in any trailing window (t - window, t]."""
    worst = inside = first = 0
    for one in admitted:
        inside += one.units
        while admitted[first].at_us <= one.at_us - window_us:
            inside -= admitted[first].units
            first += 1
        worst = max(worst, inside)
    return worst


def worst_of(found: Iterable[tuple[Attack, int]]) -> WorstWindow:
    """The attack with the most admitted units; the first such attack if there are several."""
    attack, admitted = max(found, key=lambda pair: pair[1])
    return WorstWindow(admitted=admitted, attack=attack)
