"""Sentinels in TILT, which they enter after a stall of more than two seconds."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import closing, suppress

from redis.exceptions import ResponseError

from tests.local.driver import LocalFleet, wait_for

SENTINELS = ("sentinel-0", "sentinel-1", "sentinel-2")
STALL_S = 3.0


def stall(fleet: LocalFleet, names: Sequence[str], *, tilt_ms: int) -> None:
    """Stop these sentinels together and continue them into TILT, for `tilt_ms` if the server can shorten it."""
    shorten_tilt(fleet, names, tilt_ms)
    for name in names:
        os.kill(fleet.pid(name), signal.SIGSTOP)
    _end_stall(fleet, names)


def stall_one_by_one(fleet: LocalFleet, names: Sequence[str], *, tilt_ms: int) -> None:
    """Like `stall`, but stop each sentinel only when the running ones report the stopped ones as down."""
    shorten_tilt(fleet, names, tilt_ms)
    for number, name in enumerate(names):
        for watcher in names[number:]:
            wait_for(
                lambda watcher=watcher, number=number: count_down(fleet, watcher) == number,
                f"{watcher} holds {number} sentinels for down",
            )
        os.kill(fleet.pid(name), signal.SIGSTOP)
    _end_stall(fleet, names)


def _end_stall(fleet: LocalFleet, names: Sequence[str]) -> None:
    time.sleep(STALL_S)
    for name in names:
        os.kill(fleet.pid(name), signal.SIGCONT)
    wait_for(lambda: all(is_in_tilt(fleet, name) for name in names), "sentinels in TILT")


def shorten_tilt(fleet: LocalFleet, names: Sequence[str], tilt_ms: int) -> None:
    """Shorten TILT, which Valkey and Redis 7 support. With other servers a test takes the full time."""
    for name in names:
        with closing(fleet.connect(name)) as client, suppress(ResponseError):
            client.execute_command("SENTINEL", "DEBUG", "TILT-PERIOD", tilt_ms)


def is_in_tilt(fleet: LocalFleet, name: str) -> bool:
    with closing(fleet.connect(name)) as client:
        return client.info("sentinel")["sentinel_tilt"] == 1


def count_down(fleet: LocalFleet, name: str) -> int:
    """The number of other sentinels that this one reports as down."""
    with closing(fleet.connect(name)) as client:
        return sum("s_down" in peer["flags"] for peer in client.sentinel_sentinels(fleet.name))
