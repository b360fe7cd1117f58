"""Orders that servers may refuse, or take and not obey: told in rlctl's words, and given to those that listen."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlctl.errors import Refused, Unreachable
from rlctl.execute.fleet import Fleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.observe import parse
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.nodes import NodeName, all_nodes

LOOK = "`rlctl status` shows who is the primary now"
UNCHANGED = "nothing was changed; `rlctl status` shows the fleet"
# Sentinel leaves TILT 30 s after the last stall or clock jump.
_TILT_S = 60.0
_ASK_AGAIN_S = 0.5


@contextmanager
def in_own_words(node: NodeName, hint: str) -> Iterator[None]:
    """What a server refuses, or a connection that breaks, in rlctl's words; what got lost may have been obeyed."""
    try:
        yield
    except CommandFailed as failure:
        raise Refused(f"{node} refuses: {failure}", hint=hint) from failure
    except LinkFailure as failure:
        raise Unreachable(f"{node} did not answer: {failure}", hint=LOOK) from failure


def await_attention(fleet: Fleet, sentinel: NodeName, progress: Progress, stop: StopFlag) -> None:
    """Wait out a sentinel's TILT: after a stall, or a jump of its clock, it takes orders for 30 s and obeys none."""
    link = fleet.connector.link(next(spec for spec in all_nodes(fleet.topology) if spec.name == sentinel))

    def is_attentive() -> bool:
        stop.check()
        with in_own_words(sentinel, UNCHANGED):
            return parse.info(str(link.call("INFO", "sentinel"))).get("sentinel_tilt") != "1"

    if is_attentive():
        return
    progress.note(f"waiting: {sentinel} stalled or its clock jumped, and it does nothing for a while (TILT)")
    wait_until(
        is_attentive,
        timeout_s=_TILT_S,
        clock=fleet.clock,
        what=f"{sentinel} leaving TILT",
        hint="nothing was changed; look for stalls and clock jumps on its host",
        every_s=_ASK_AGAIN_S,
    )
