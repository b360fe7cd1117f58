"""Sentinels in TILT: they answer, but take no action until TILT ends. Pure."""

from collections.abc import Iterable

from rlctl.observe.model import NodeFacts, Observed

# Sentinel leaves TILT 30 s after the last stall or clock jump.
TILT_S = 30


def in_tilt(observed: Observed) -> tuple[NodeFacts, ...]:
    return tuple(node for node in observed.up if is_in_tilt(node))


def is_in_tilt(node: NodeFacts) -> bool:
    """Whether the node is a Sentinel in TILT.

    A Sentinel that watches no primary does not count, because it never leaves TILT.
    """
    view = node.sentinel
    return view is not None and view.primary is not None and view.tilt_s is not None


def remaining_s(nodes: Iterable[NodeFacts]) -> int:
    """Estimate the seconds until the last of these Sentinels leaves TILT; at least 1."""
    spent = (node.sentinel.tilt_s for node in nodes if node.sentinel is not None)
    return max([1, *(TILT_S - (spent_s or 0) for spent_s in spent)])
