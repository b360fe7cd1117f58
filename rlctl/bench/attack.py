"""Boundary attacks on limits, and the worst trailing window that they find. Pure: an attack asks, somebody answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

# Asked for so much at an instant: how much was admitted. A cost of 0 asks for all that is left.
Take = Callable[[int, int], int]
ALL = 0
_HORIZON = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """So many units at one instant."""

    at_us: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Take a share of the limit at a phase of the first window, then everything that is left, every step.

    Phase at a window's last microsecond and a step of a whole window is the burst over a boundary; small steps are
    the saw-tooth that takes every unit as soon as it comes back.
    """

    phase_us: int
    first_share: float
    step_us: int

    def asks(self, limit: int, window_us: int) -> Iterator[tuple[int, int]]:
        """Instants from the first window's start, and what is asked for then; boundaries are never missed."""
        yield self.phase_us, max(1, round(limit * self.first_share))
        end_us = _HORIZON * window_us
        instants = {*range(self.phase_us, end_us, self.step_us), *range(0, end_us, self.step_us)}
        instants |= {number * window_us + edge for number in range(1, _HORIZON) for edge in (-1, 0)}
        yield from ((at_us, ALL) for at_us in sorted(instants) if at_us > self.phase_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The most that one trailing window held, and the attack that did it."""

    admitted: int
    attack: Attack


def attacks(limit: int, window_us: int) -> tuple[Attack, ...]:
    """All that are played, in a fixed order."""
    phases = (0, window_us // 2, window_us - 1000, window_us - 1)
    steps = (window_us // limit, window_us // 10, window_us // 3, window_us)
    return tuple(
        Attack(phase_us=phase_us, first_share=share, step_us=step_us)
        for phase_us, share, step_us in product(phases, (1.0, 0.5), steps)
    )


def play(attack: Attack, limit: int, window_us: int, take: Take) -> tuple[Admitted, ...]:
    """Everything that was admitted, in order."""
    asked = ((at_us, take(at_us, cost)) for at_us, cost in attack.asks(limit, window_us))
    return tuple(Admitted(at_us=at_us, units=units) for at_us, units in asked if units)


def worst_window(admitted: Sequence[Admitted], window_us: int) -> int:
    """The most units in any (t - window, t]."""
    worst = inside = first = 0
    for one in admitted:
        inside += one.units
        while admitted[first].at_us <= one.at_us - window_us:
            inside -= admitted[first].units
            first += 1
        worst = max(worst, inside)
    return worst


def worst_of(found: Iterable[tuple[Attack, int]]) -> Worst:
    """The first of the worst."""
    attack, admitted = max(found, key=lambda pair: pair[1])
    return Worst(admitted=admitted, attack=attack)
