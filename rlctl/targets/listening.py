"""Waits until servers that were just started listen or have ended."""

from collections.abc import Callable, Sequence

from rlctl.errors import TimedOut
from rlctl.system.clock import Clock, wait_until
from rlctl.targets.base import NodeResult
from rlctl.topology.nodes import NodeName, NodeSpec

LISTEN_S = 30.0
LOOK_EVERY_S = 0.005


def await_listening(
    specs: Sequence[NodeSpec], outcome: Callable[[NodeSpec], NodeResult | None], clock: Clock
) -> dict[NodeName, NodeResult]:
    """Poll `outcome` for each node until it returns a result, and return the results by node.

    `outcome` is None while the server neither listens nor has ended. After `LISTEN_S` the result is an error.
    """
    results: dict[NodeName, NodeResult] = {}

    def all_settled() -> bool:
        for spec in specs:
            if spec.name not in results and (result := outcome(spec)):
                results[spec.name] = result
        return len(results) == len(specs)

    try:
        wait_until(all_settled, timeout_s=LISTEN_S, clock=clock, what="servers listening", every_s=LOOK_EVERY_S)
    except TimedOut:
        for spec in specs:
            timed_out = NodeResult(error=f"does not listen on {spec.endpoint} after {LISTEN_S:g} s")
            results.setdefault(spec.name, timed_out)
    return results
