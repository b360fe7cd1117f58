"""What a host tells of its units' ports: the unit runs, and its user has the socket."""

import pytest

from rlctl.targets.hosts.port_probe import _holds, _listening

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0A01A8C0:1B58 00000000:0000 0A 00000000:00000000 00:00000000 00000000   996        0 1 1 0 100 0 0 10 0
   1: 00000000:1B59 00000000:0000 0A 00000000:00000000 00:00000000 00000000   996        0 2 1 0 100 0 0 10 0
   2: 0A01A8C0:1B5A 0B01A8C0:9C40 01 00000000:00000000 00:00000000 00000000   996        0 3 1 0 100 0 0 10 0
   3: 0A01A8C0:1B5B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 4 1 0 100 0 0 10 0
"""


@pytest.mark.parametrize(
    ("port", "user", "holds"),
    [
        pytest.param(7000, 996, True, id="at its address"),
        pytest.param(7001, 996, True, id="at every address"),
        pytest.param(7002, 996, False, id="a connection is no listener"),
        pytest.param(7003, 996, False, id="another user's listener"),
        pytest.param(7004, 996, False, id="no listener"),
        pytest.param(7000, None, False, id="the unit does not run"),
    ],
)
def test_a_port_is_held_by_the_user_of_a_unit_that_runs(port: int, user: int | None, *, holds: bool) -> None:
    assert _holds({"address": "192.168.1.10", "port": port}, user, dict(_listening(TABLE))) is holds
