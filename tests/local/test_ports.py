"""Two runs of the tests on one machine never use the same ports."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.driver import PATIENCE_S
from tests.local.ports import MOST, _claim

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="blocks are claimed on Linux only")

ROOT = Path(__file__).parents[2]
TAKER = """\
from tests.local import ports
claim = {claim}
print(*(ports.next_base_port() for _ in range({count})), flush=True)
input()
"""


@contextmanager
def taker(count: int, claim: str = "None") -> Iterator["subprocess.Popen[str]"]:
    """A worker of another run, until the block ends."""
    started = subprocess.Popen(
        [sys.executable, "-c", TAKER.format(count=count, claim=claim)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with started:
        yield started
        started.communicate("\n", timeout=PATIENCE_S)
    assert started.returncode == 0


def ports(started: "subprocess.Popen[str]") -> list[int]:
    assert started.stdout is not None
    return [int(port) for port in started.stdout.readline().split()]


def test_workers_of_two_runs_take_different_blocks() -> None:
    with ExitStack() as stack:
        takers = [stack.enter_context(taker(30)) for _ in range(3)]
        taken = [port for one in takers for port in ports(one)]
    assert len(taken) == len(set(taken)) == 90


def test_a_worker_takes_its_own_blocks_again_and_leaves_others_some() -> None:
    with taker(100) as started:
        taken = ports(started)
    assert len(set(taken)) <= MOST
    assert taken[0] not in taken[1 : MOST // 2]


def test_blocks_of_a_process_that_ended_are_free_again() -> None:
    no_block = os.getpid() * 100_000
    with taker(1, f"ports._claim({no_block})") as started:
        ports(started)
        assert _claim(no_block) is None
    claim = _claim(no_block)
    assert claim is not None
    claim.close()
