"""The clients of a scenario, and what each sends to which nodes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from rlctl.drills.engine.client_spec import ClientSpec, NodeAddress
from rlctl.drills.engine.requests import ClientWork
from rlctl.drills.record.ledger import COLD_USERS, Keys
from rlctl.drills.scenario.model import ClientLoad, LoadMode, Side
from rlctl.lab.partition import ANYWHERE, ClientSource
from rlctl.lab.roles import Roles
from rlctl.limits.windows import window_without_edge
from rlctl.topology.nodes import NodeSpec

# Limit of a cold user. It is so high that a server admits every operation of this user.
_NEVER = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """The wall clock and the monotonic clock at one instant."""

    wall_ms: int
    monotonic_us: int

    def offset_us(self, skew_ms: int, window_ms: int) -> int:
        """Microseconds to add to the monotonic clock to get the time that a client passes to the script.

        The script's time starts at 60 % of a window if `skew_ms` is positive, and otherwise at 40 %. A skew of half a
        window then moves the script's time into another window.
        """
        place_ms = window_ms * (6 if skew_ms > 0 else 4) // 10
        start_ms = self.wall_ms - self.wall_ms % window_ms + place_ms
        return start_ms * 1000 - self.monotonic_us


def client_specs(
    load: ClientLoad,
    roles: Roles,
    keys: Mapping[Side, Keys],
    sha1: str,
    sources: Mapping[Side, ClientSource],
    now: ClockReading,
) -> tuple[ClientSpec, ...]:
    window_ms = window_without_edge(now.wall_ms)
    return tuple(
        ClientSpec(
            name=side.value,
            side=side,
            places=tuple(map(NodeAddress.of, _nodes(side, roles))),
            tag=keys[side].tag,
            work=_work(load, keys[side], sha1, side, window_ms, now),
            pinned=side in {Side.MINORITY, Side.STALE},
            source=sources.get(side, ANYWHERE),
        )
        for side in load.sides
    )


def _nodes(side: Side, roles: Roles) -> tuple[NodeSpec, ...]:
    match side:
        case Side.MAJORITY:
            return roles.shard
        case Side.MINORITY | Side.STALE:
            return (roles.victim,)
        case Side.OTHERS:
            return roles.other_primaries[-1:]


def _work(load: ClientLoad, keys: Keys, sha1: str, side: Side, window_ms: int, clock: ClockReading) -> ClientWork:
    return ClientWork(
        mode=LoadMode.BITS if load.mode is LoadMode.BITS else LoadMode.LIMITER,
        sha1=sha1,
        hot_key=keys.hot,
        cold_keys=tuple(map(keys.cold, range(COLD_USERS))),
        ledger_key=keys.ledger(side.value),
        hot_args=(str(load.limit), str(window_ms), "1"),
        cold_args=(str(_NEVER), str(window_ms), "1"),
        wait_replicas=load.wait_replicas,
        wait_ms=load.wait_ms,
        clock_us=clock.offset_us(load.skew_ms, window_ms) if load.skew_ms else None,
        skew_us=load.skew_ms * 1000,
    )
