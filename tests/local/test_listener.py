"""The process that accepts connections at an address, as the kernel reports it."""

import os
import socket
import subprocess
import sys

import pytest

from rlctl.system import listeners
from rlctl.system.listeners import listening_socket
from rlctl.system.ports import LOOPBACK
from rlctl.system.process import ProcessId

SLEEP = "import sys; sys.stdin.read()"


@pytest.fixture(autouse=True, params=["sock_diag", "table"])
def _source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: by sock_diag, and by /proc on a kernel without it."""
    if request.param == "table":
        monkeypatch.setattr(listeners, "_NETLINK_SOCK_DIAG", 31)


def test_a_listener_is_its_own_process() -> None:
    own = ProcessId.of(os.getpid())
    assert own is not None
    with socket.create_server((LOOPBACK, 0)) as server:
        found = listening_socket(*server.getsockname())
        assert found is not None
        assert found.uid == os.geteuid()
        assert own.holds(found)
        with subprocess.Popen([sys.executable, "-c", SLEEP], stdin=subprocess.PIPE) as other:
            theirs = ProcessId.of(other.pid)
            assert theirs is not None
            assert not theirs.holds(found)
            assert other.stdin is not None
            other.stdin.close()
        assert not theirs.holds(found)
        address, port = server.getsockname()
    assert listening_socket(address, port) is None


def test_a_listener_at_all_addresses_is_found() -> None:
    with socket.create_server(("0.0.0.0", 0)) as everywhere:  # noqa: S104 - for a moment
        port = everywhere.getsockname()[1]
        assert listening_socket(LOOPBACK, port) is not None
        assert listening_socket("127.0.0.2", port) is not None
    with socket.create_server((LOOPBACK, 0)) as here:
        assert listening_socket("127.0.0.2", here.getsockname()[1]) is None
